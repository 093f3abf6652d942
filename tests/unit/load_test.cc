/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The provider as it was built, in the distribution's own libibverbs. */
#include "abi/pabi.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>
#include <cstdio>
#include <string>
#include <vector>

namespace {

std::vector<const void *> registered; // what the providers in this process have registered

} // namespace

#define ROX_STRING(text) #text
#define ROX_NUMBER(number) ROX_STRING(number)

/* Stands before libibverbs' own, to which it hands on. */
extern "C" void ROX_REGISTER_DRIVER(const rdmacore::verbs_device_ops *ops)
{
    registered.push_back(ops);
    reinterpret_cast<void (*)(const void *)>(dlvsym(RTLD_NEXT,
                                                    "verbs_register_driver_" ROX_NUMBER(ROX_PABI),
                                                    "IBVERBS_PRIVATE_" ROX_NUMBER(ROX_PABI)))(ops);
}

namespace {

/* Output of a shell command. */
std::string run(const std::string &command)
{
    std::string output;
    std::array<char, 4096> buffer;
    FILE *pipe = popen(command.c_str(), "r");

    while (pipe != nullptr && fgets(buffer.data(), buffer.size(), pipe) != nullptr) {
        output += buffer.data();
    }
    if (pipe != nullptr) {
        pclose(pipe);
    }
    return output;
}

TEST(Load, EverySymbolIsFoundAtOnce)
{
    void *handle = dlopen(ROX_PROVIDER, RTLD_NOW | RTLD_LOCAL);

    ASSERT_NE(handle, nullptr) << dlerror();
}

/* The version of a symbol binds us to the generation of the private interface. */
TEST(Load, PrivateSymbolsAreThoseOfTheFileNamesGeneration)
{
    const std::string symbols = run("objdump -T " ROX_PROVIDER " 2>/dev/null");
    const std::string name = ROX_PROVIDER;
    const std::string generation = name.substr(name.find("-rdmav") + 6, 2);

    EXPECT_NE(
        symbols.find("(IBVERBS_PRIVATE_" + generation + ") verbs_register_driver_" + generation),
        std::string::npos)
        << symbols;
}

TEST(Load, ExportsNothing)
{
    EXPECT_EQ(run("nm -D --defined-only " ROX_PROVIDER " 2>&1"), "");
}

TEST(Load, NeedsNoLibraryThatACProgramLacks)
{
    /* The dynamic linker, which a C program has, too, finds thread-local variables on some
     * machines. */
    const std::string linker = run(
        "readelf -l /proc/self/exe | sed -n 's,.*interpreter: .*/\\(.*\\)],\\1,p'");
    std::string needed = run("objdump -p " ROX_PROVIDER " | sed -n 's/.*NEEDED *//p'");

    ASSERT_FALSE(linker.empty());
    if (const size_t at = needed.find(linker); at != std::string::npos) {
        needed.erase(at, linker.size());
    }
    EXPECT_EQ(needed, "libibverbs.so.1\nlibc.so.6\n");
}

TEST(Load, RegistersOnceWithTheLibibverbsOfTheProcess)
{
    void *handle = dlopen(ROX_PROVIDER, RTLD_NOW | RTLD_LOCAL);

    ASSERT_NE(handle, nullptr) << dlerror();
    ASSERT_EQ(registered.size(), 1U);
    EXPECT_STREQ(*static_cast<const char *const *>(registered[0]), "rox");
}

/* libibverbs survives our registration: it goes through its list of drivers. */
TEST(Load, LibibverbsListsDevicesWithUsLoaded)
{
    ASSERT_NE(dlopen(ROX_PROVIDER, RTLD_NOW | RTLD_LOCAL), nullptr);

    int count = -1;
    ibv_device **list = ibv_get_device_list(&count);

    EXPECT_GE(count, 0);
    if (list != nullptr) {
        ibv_free_device_list(list);
    }
}

} // namespace
