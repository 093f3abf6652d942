/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "lib/tree.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <memory>
#include <sstream>

#include <unistd.h>

namespace rox {

namespace fs = std::filesystem;

namespace {

struct CloseFile {
    void operator()(FILE *file) const { std::fclose(file); }
};

} // namespace

fs::path Tree::at(std::string_view path) const
{
    return root_ / fs::path(path).relative_path();
}

/* Files of sysfs and folders can be opened and yet refuse to be read. */
std::optional<std::string> Tree::read(std::string_view path) const
{
    const std::unique_ptr<FILE, CloseFile> file(std::fopen(at(path).c_str(), "re"));
    std::array<char, 4096> buffer{};
    std::string text;
    size_t got = 0;

    if (file == nullptr)
        return std::nullopt;
    while ((got = std::fread(buffer.data(), 1, buffer.size(), file.get())) > 0)
        text.append(buffer.data(), got);
    return std::ferror(file.get()) == 0 ? std::optional(text) : std::nullopt;
}

std::string Tree::line(std::string_view path) const
{
    const std::string text = read(path).value_or("");

    return trimmed(text.substr(0, text.find('\n')));
}

bool Tree::exists(std::string_view path) const
{
    std::error_code error;

    return fs::exists(at(path), error);
}

std::vector<std::string> Tree::list(std::string_view path) const
{
    std::vector<std::string> names;
    std::error_code error;

    for (fs::directory_iterator it(at(path), error), end; !error && it != end; it.increment(error))
        names.push_back(it->path().filename());
    std::ranges::sort(names);
    return names;
}

std::string Tree::link_name(std::string_view path) const
{
    std::error_code error;

    return fs::read_symlink(at(path), error).filename();
}

bool Tree::may_use(std::string_view path) const
{
    return access(at(path).c_str(), R_OK | W_OK) == 0;
}

std::string trimmed(std::string_view text)
{
    constexpr std::string_view white = " \t\r\n";
    const size_t first = text.find_first_not_of(white);

    if (first == std::string_view::npos)
        return "";
    return std::string(text.substr(first, text.find_last_not_of(white) - first + 1));
}

std::vector<std::string> words(std::string_view text)
{
    std::istringstream stream{std::string(text)};

    return {std::istream_iterator<std::string>(stream), {}};
}

} // namespace rox
