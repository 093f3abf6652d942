/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "run/image.hpp"

#include "run/library.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace fs = std::filesystem;

namespace rox::run {
namespace {

/// The folders in which distributions have libibverbs.so.1.
constexpr const char *library_folders[] = {
    "/usr/lib/x86_64-linux-gnu", "/usr/lib64",       "/usr/lib",
    "/lib/x86_64-linux-gnu",     "/usr/local/lib64", "/usr/local/lib"};

constexpr std::string_view provider_prefix = "librox-rdmav", provider_suffix = ".so";

/// A sentence that says what was found and what is there.
std::string no_provider(const Image &image, const std::string &path, const Library &library)
{
    std::vector<std::string> carried;

    for (const unsigned number : image.providers())
        carried.push_back(describe_versions(number));
    return fmt::format("{} is of {}, and {} has {}", path, describe(library), image.folder,
                       carried.empty()
                           ? "no provider"
                           : fmt::format("providers for {} only", fmt::join(carried, ", ")));
}

} // namespace

bool Image::is_complete() const
{
    std::error_code error;

    return fs::exists(kernel(), error) && fs::exists(first_process(), error);
}

std::string Image::programs() const
{
    std::error_code error;
    const std::string place = folder + "/programs";

    return fs::exists(place, error) ? place : std::string();
}

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

std::string Image::provider(unsigned number) const
{
    return fmt::format("{}/{}{}{}", folder, provider_prefix, number, provider_suffix);
}

std::vector<unsigned> Image::providers() const
{
    std::vector<unsigned> numbers;
    std::error_code error;

    for (const auto &entry : fs::directory_iterator(folder, error)) {
        const std::string name = entry.path().filename();
        unsigned number = 0;

        if (!name.starts_with(provider_prefix) || !name.ends_with(provider_suffix))
            continue;
        std::from_chars(name.data() + provider_prefix.size(), name.data() + name.size(), number);
        if (fs::path(provider(number)).filename() == name)
            numbers.push_back(number);
    }
    std::sort(numbers.begin(), numbers.end());
    return numbers;
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

        if (!folder.empty() && image.is_complete())
            return {fs::canonical(folder)};
        if (!folder.empty())
            tried.push_back(folder);
    }
    throw std::runtime_error(
        fmt::format("no kernel (linux, init.cpio) in {}", fmt::join(tried, ", ")));
}

std::optional<Provider> find_provider(const Image &image, const std::string &root)
{
    std::error_code error;

    for (const char *const folder : library_folders) {
        const std::string path = std::string(folder) + "/libibverbs.so.1";

        if (!fs::exists(root + path, error))
            continue;
        const auto library = read_library(root + path);
        if (!library)
            continue;
        const std::string file = image.provider(library->number);
        if (!is_known(*library) || !fs::exists(file, error))
            throw std::runtime_error(no_provider(image, path, *library));
        return Provider{file,
                        fmt::format("{}/libibverbs/{}", folder, fs::path(file).filename().string()),
                        fmt::format("{} of {}", path, describe(*library))};
    }
    return {};
}

} // namespace rox::run
