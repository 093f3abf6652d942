/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "run/image.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace fs = std::filesystem;

namespace rox::run {
namespace {

/// The folders in which distributions have libibverbs.so.1.
constexpr const char *library_folders[] = {
    "/usr/lib/x86_64-linux-gnu", "/usr/lib64",       "/usr/lib",
    "/lib/x86_64-linux-gnu",     "/usr/local/lib64", "/usr/local/lib"};

bool is_complete(const Image &image)
{
    std::error_code error;

    return fs::exists(image.kernel(), error) && fs::exists(image.first_process(), error);
}

} // namespace

std::vector<std::string> Image::arguments() const
{
    std::ifstream file(folder + "/arguments");

    return {std::istream_iterator<std::string>(file), {}};
}

unsigned Image::most_cpus() const
{
    std::ifstream file(folder + "/cpus");
    unsigned most = 1;

    return file >> most ? most : 1;
}

Image find_image()
{
    const char *const named = std::getenv("ROX_RUN_IMAGE");
    const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
    std::vector<std::string> tried;

    // Installed, a tarball anywhere, the build folder.
    for (const fs::path &folder :
         {fs::path(named != nullptr ? named : ""), here.parent_path() / "lib/rox-run",
          here.parent_path() / "run"}) {
        const Image image{folder};

        if (!folder.empty() && is_complete(image))
            return {fs::canonical(folder)};
        if (!folder.empty())
            tried.push_back(folder);
    }
    throw std::runtime_error(
        fmt::format("no kernel (linux, init.cpio) in {}", fmt::join(tried, ", ")));
}

std::vector<int> private_interfaces(const std::string &file)
{
    constexpr std::string_view mark = "IBVERBS_PRIVATE_";
    std::ifstream stream(file, std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(stream), {});
    std::vector<int> found;

    for (size_t at = bytes.find(mark); at != bytes.npos; at = bytes.find(mark, at + 1))
        if (const int number = std::atoi(bytes.c_str() + at + mark.size()); number > 0)
            found.push_back(number);
    return found;
}

Provider find_provider(const Image &image, const std::string &root, std::string &missing)
{
    std::error_code error;

    for (const char *const folder : library_folders) {
        const std::string library = std::string(folder) + "/libibverbs.so.1";

        if (!fs::exists(root + library, error))
            continue;
        for (const int number : private_interfaces(root + library)) {
            const std::string name = fmt::format("librox-rdmav{}.so", number),
                              file = image.folder + '/' + name;

            if (fs::exists(file, error))
                return {file, fmt::format("{}/libibverbs/{}", folder, name)};
            missing = fmt::format("{} has the private interface {}, for which {} has no provider",
                                  library, number, image.folder);
        }
        if (!missing.empty())
            return {};
    }
    missing =
        "there is no libibverbs (Debian's package is libibverbs1): RDMA programs find no device";
    return {};
}

} // namespace rox::run
