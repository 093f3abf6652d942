/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Files of the system (/sys, /proc, /dev, /lib, ...) below a root, which a test replaces.
 */
#ifndef ROX_TOOLS_TREE_HPP
#define ROX_TOOLS_TREE_HPP

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rox {

/// Read-only access to files. Paths are absolute, as on the system itself.
class Tree {
public:
    explicit Tree(std::filesystem::path root = "/") : root_(std::move(root)) {}

    /// All of a file, or nothing if it cannot be read.
    std::optional<std::string> read(std::string_view path) const;
    /// The first line of a file without white space at its ends; empty if it cannot be read.
    std::string line(std::string_view path) const;
    bool exists(std::string_view path) const;
    /// The names in a folder, sorted; none if it cannot be read.
    std::vector<std::string> list(std::string_view path) const;
    /// The last part of what a symbolic link points to; empty if it is none.
    std::string link_name(std::string_view path) const;
    /// True if the caller may read and write the file.
    bool may_use(std::string_view path) const;

private:
    std::filesystem::path at(std::string_view path) const;

    std::filesystem::path root_;
};

/// A string without white space at its ends.
std::string trimmed(std::string_view text);
/// The parts of a string between white space.
std::vector<std::string> words(std::string_view text);

} // namespace rox

#endif // ROX_TOOLS_TREE_HPP
