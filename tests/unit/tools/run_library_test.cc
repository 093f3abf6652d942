/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which libibverbs rox-run takes a file for, and which of its providers it lays over it. */
#include "elf_file.h"

#include "abi/versions.hpp"
#include "run/image.hpp"
#include "run/library.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <gtest/gtest.h>

namespace rox::run {
namespace {

namespace fs = std::filesystem;
using test::ElfFile;

/// The symbol versions of libibverbs with these numbers, as its linker script has them.
std::vector<std::string> versions_of(unsigned number, unsigned minor)
{
    std::vector<std::string> names = {"libibverbs.so.1", "IBVERBS_1.0", "IBVERBS_1.1"};

    for (unsigned i = minor - 1; i <= minor; i++)
        names.push_back("IBVERBS_1." + std::to_string(i));
    // Behind those, and before the last one, as names are in no order.
    names.insert(names.end() - 1, "IBVERBS_PRIVATE_" + std::to_string(number));
    return names;
}

/// A folder that goes with the test.
class RunLibrary : public testing::Test {
protected:
    RunLibrary()
    {
        char name[] = "/tmp/rox-run-test.XXXXXX";

        folder = mkdtemp(name);
    }
    ~RunLibrary() override { fs::remove_all(folder); }

    /// Writes a file under this name, with a link libibverbs.so.1 that leads to it.
    std::string put(ElfFile file, const std::string &name)
    {
        const std::string link = folder + "/libibverbs.so.1";

        file.write(folder + '/' + name);
        fs::remove(link);
        fs::create_symlink(name, link);
        return link;
    }

    std::string folder;
};

TEST_F(RunLibrary, NumbersAreThoseOfItsSymbolVersionsAndOfItsName)
{
    const auto library = read_library(put(ElfFile(versions_of(59, 16)), "libibverbs.so.1.16.62.0"));

    ASSERT_TRUE(library);
    EXPECT_EQ(library->number, 59U);
    EXPECT_EQ(library->minor, 16U);
    EXPECT_EQ(library->release, 62U);
    EXPECT_EQ(describe(*library), "rdma-core 62 (IBVERBS_PRIVATE_59, IBVERBS_1.16)");
}

TEST_F(RunLibrary, WithoutANameOfRdmaCoreItIsKnownByItsSymbolVersions)
{
    for (const char *name : {"verbs.so", "libibverbs.so.1.14", "libibverbs.so.1.14.x.0"}) {
        const auto library = read_library(put(ElfFile(versions_of(34, 14)), name));

        ASSERT_TRUE(library);
        EXPECT_EQ(library->release, 0U) << name;
        EXPECT_TRUE(is_known(*library));
        EXPECT_EQ(describe(*library), "an rdma-core (IBVERBS_PRIVATE_34, IBVERBS_1.14)");
    }
}

TEST_F(RunLibrary, NamesThatAreNearlyThoseDoNotCount)
{
    const auto library = read_library(
        put(ElfFile({"IBVERBS_PRIVATE_", "IBVERBS_PRIVATE_34x", "XIBVERBS_PRIVATE_57", "IBVERBS_1.",
                     "IBVERBS_1.9x", "IBVERBS_2.11", "IBVERBS_PRIVATE_99999999999999999999"}),
            "libibverbs.so.1.14.44.0"));

    ASSERT_TRUE(library);
    EXPECT_EQ(library->number, 0U);
    EXPECT_EQ(library->minor, 0U);
    EXPECT_FALSE(is_known(*library));
    EXPECT_EQ(describe(*library), "rdma-core 44 (no IBVERBS_PRIVATE_N, IBVERBS_1.0)");
}

TEST_F(RunLibrary, NoSymbolVersionsAtAll)
{
    const auto library = read_library(
        put(ElfFile(std::vector<std::string>{}), "libibverbs.so.1.14.44.0"));

    ASSERT_TRUE(library);
    EXPECT_EQ(library->number, 0U);
}

TEST_F(RunLibrary, OfAnotherProcessorIsNone)
{
    EXPECT_FALSE(read_library(
        put(ElfFile(versions_of(34, 14)).machine(EM_AARCH64), "libibverbs.so.1.14.44.0")));
}

TEST_F(RunLibrary, WhatIsNoLibraryIsAnError)
{
    const std::string file = folder + "/libibverbs.so.1";

    EXPECT_THROW(read_library(file), std::runtime_error);
    std::ofstream(file) << "";
    EXPECT_THROW(read_library(file), std::runtime_error);
    std::ofstream(file) << "IBVERBS_PRIVATE_34";
    EXPECT_THROW(read_library(file), std::runtime_error);
    EXPECT_THROW(read_library(put(ElfFile(versions_of(34, 14)).type(ET_EXEC), "program")),
                 std::runtime_error);
}

/* Whatever is missing, nothing is found that is not there, and nothing crashes. */
TEST_F(RunLibrary, PartOfALibrary)
{
    const std::string file = put(ElfFile(versions_of(34, 14)), "libibverbs.so.1.14.44.0");
    const auto whole = fs::file_size(file);
    size_t errors = 0;

    for (auto size = whole; size-- > 0;) {
        fs::resize_file(file, size);
        try {
            const auto library = read_library(file);

            EXPECT_TRUE(!library || library->number == 0) << size << " of " << whole << " bytes";
        } catch (const std::runtime_error &) {
            errors++;
        }
    }
    EXPECT_GE(errors, sizeof(Elf64_Ehdr));
}

TEST_F(RunLibrary, ListWithoutAnEnd)
{
    const auto two = [] { return ElfFile({"IBVERBS_PRIVATE_34", "IBVERBS_1.14"}); };
    const int size = sizeof(Elf64_Verdef) + sizeof(Elf64_Verdaux);

    for (const int step : {-size, size, -1, 4, 1 << 30, -(1 << 30)}) {
        const auto library = read_library(put(two().endless(step), "libibverbs.so.1.14.44.0"));

        ASSERT_TRUE(library);
        EXPECT_EQ(library->number, 34U) << step;
        EXPECT_EQ(library->minor, 14U) << step;
    }
}

TEST(RunLibraryKnown, EachLayoutOfTheProvider)
{
    for (const auto &known : known_versions)
        for (const unsigned release : {0U, known.oldest, known.newest})
            EXPECT_TRUE(is_known({known.number, known.minor, release}))
                << known.number << ' ' << release;
}

TEST(RunLibraryKnown, NeitherOlderNorOtherOnes)
{
    // Its number and its functions are those of 44, and its structures are not.
    EXPECT_FALSE(is_known({34, 14, 43}));
    EXPECT_FALSE(is_known({34, 13, 39}));
    EXPECT_FALSE(is_known({59, 17, 63}));
    EXPECT_FALSE(is_known({66, 18, 66}));
    // The next one may be as the last one is: the provider will see.
    EXPECT_TRUE(is_known({65, 18, 66}));
}

TEST(RunLibraryKnown, VersionsOfANumber)
{
    EXPECT_EQ(describe_versions(34), "rdma-core 44 to 56 (IBVERBS_PRIVATE_34)");
    EXPECT_EQ(describe_versions(64), "rdma-core 64 (IBVERBS_PRIVATE_64)");
    EXPECT_EQ(describe_versions(99), "IBVERBS_PRIVATE_99");
}

/* For which the provider is built, too. */
TEST(RunLibraryKnown, TheOneOfThisMachine)
{
    void *const loaded = dlopen("libibverbs.so.1", RTLD_NOW);
    Dl_info info{};

    ASSERT_NE(loaded, nullptr) << dlerror();
    ASSERT_NE(dladdr(dlsym(loaded, "ibv_get_device_list"), &info), 0);
    const auto library = read_library(info.dli_fname);
    ASSERT_TRUE(library) << info.dli_fname;
    EXPECT_TRUE(is_known(*library)) << describe(*library);
}

/// A file system, and an image with providers for 34 and 65.
class RunProvider : public RunLibrary {
protected:
    RunProvider() : image{folder + "/image"}, root(folder + "/root")
    {
        fs::create_directories(image.folder);
        for (const unsigned number : {65, 34})
            std::ofstream(image.provider(number)) << number;
        // Others that are none.
        for (const char *name : {"librox-rdmav.so", "librox-rdmav57.so.new", "librox-rdmav057.so"})
            std::ofstream(image.folder + '/' + name) << name;
    }

    void library(const std::string &place, ElfFile file, const std::string &name)
    {
        fs::create_directories(root + place);
        file.write(root + place + '/' + name);
        fs::create_symlink(name, root + place + "/libibverbs.so.1");
    }

    /// The sentence that says why there is no provider.
    std::string refusal()
    {
        try {
            find_provider(image, root);
        } catch (const std::runtime_error &error) {
            return error.what();
        }
        return "";
    }

    Image image;
    std::string root;
};

TEST_F(RunProvider, NumbersOfTheImage)
{
    EXPECT_EQ(image.providers(), (std::vector<unsigned>{34, 65}));
    EXPECT_TRUE(Image{"/no/such/folder"}.providers().empty());
}

TEST_F(RunProvider, IsTheOneOfThePrivateInterface)
{
    library("/usr/lib64", ElfFile(versions_of(65, 18)), "libibverbs.so.1.18.65.0");
    const auto provider = find_provider(image, root);

    ASSERT_TRUE(provider);
    EXPECT_EQ(provider->file, image.folder + "/librox-rdmav65.so");
    EXPECT_EQ(provider->target, "/usr/lib64/libibverbs/librox-rdmav65.so");
    EXPECT_EQ(provider->library, "/usr/lib64/libibverbs.so.1 of rdma-core 65 "
                                 "(IBVERBS_PRIVATE_65, IBVERBS_1.18)");
}

TEST_F(RunProvider, LiesBesideTheLibrary)
{
    library("/usr/lib/x86_64-linux-gnu", ElfFile(versions_of(34, 14)), "libibverbs.so.1.14.56.0");
    const auto provider = find_provider(image, root);

    ASSERT_TRUE(provider);
    EXPECT_EQ(provider->file, image.folder + "/librox-rdmav34.so");
    EXPECT_EQ(provider->target, "/usr/lib/x86_64-linux-gnu/libibverbs/librox-rdmav34.so");
}

TEST_F(RunProvider, LibrariesOfOtherProcessorsArePassedOver)
{
    library("/usr/lib64", ElfFile(versions_of(65, 18)).machine(EM_PPC64),
            "libibverbs.so.1.18.65.0");
    EXPECT_FALSE(find_provider(image, root));
    library("/usr/lib", ElfFile(versions_of(34, 14)), "libibverbs.so.1.14.44.0");
    const auto provider = find_provider(image, root);
    ASSERT_TRUE(provider);
    EXPECT_EQ(provider->target, "/usr/lib/libibverbs/librox-rdmav34.so");
}

TEST_F(RunProvider, WithoutOneASentenceNamesBoth)
{
    library("/usr/lib64", ElfFile(versions_of(57, 14)), "libibverbs.so.1.14.58.0");
    EXPECT_EQ(refusal(), "/usr/lib64/libibverbs.so.1 is of rdma-core 58 (IBVERBS_PRIVATE_57, "
                         "IBVERBS_1.14), and " +
                             image.folder +
                             " has providers for rdma-core 44 to 56 (IBVERBS_PRIVATE_34), "
                             "rdma-core 65 (IBVERBS_PRIVATE_65) only");
}

TEST_F(RunProvider, OfTheSameNumberAndAnUnknownLayoutIsRefused)
{
    library("/usr/lib64", ElfFile(versions_of(34, 14)), "libibverbs.so.1.14.43.0");
    EXPECT_NE(refusal().find("is of rdma-core 43 (IBVERBS_PRIVATE_34, IBVERBS_1.14), and "),
              std::string::npos)
        << refusal();
}

TEST_F(RunProvider, ImageWithoutProviders)
{
    library("/usr/lib64", ElfFile(versions_of(34, 14)), "libibverbs.so.1.14.44.0");
    image.folder = folder + "/empty";
    EXPECT_NE(refusal().find(" has no provider"), std::string::npos) << refusal();
}

TEST_F(RunProvider, WithoutALibraryThereIsNone)
{
    fs::create_directories(root + "/usr/lib64");
    EXPECT_FALSE(find_provider(image, root));
}

} // namespace
} // namespace rox::run
