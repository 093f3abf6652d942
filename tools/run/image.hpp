/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * What rox-run brings along, and which of its providers fits.
 */
#ifndef ROX_TOOLS_RUN_IMAGE_HPP
#define ROX_TOOLS_RUN_IMAGE_HPP

#include <string>
#include <vector>

namespace rox::run {

/// The files of rox-run.
struct Image {
    std::string folder;
    std::string kernel() const { return folder + "/linux"; }
    std::string first_process() const { return folder + "/init.cpio"; }
    /// What this kernel wants on its command line: the words of the file "arguments", if there is
    /// one.
    std::vector<std::string> arguments() const;
    /// The number of CPUs that this kernel can have: in the file "cpus", or 1.
    unsigned most_cpus() const;
};

/// Finds the files: ROX_RUN_IMAGE, else beside the program. @throw std::runtime_error
Image find_image();

/// A provider and its place in the file system.
struct Provider {
    std::string file, target;
};

/**
 * The provider for the libibverbs of the file system below @p root.
 * @param missing if there is none: a sentence that says so
 */
Provider find_provider(const Image &image, const std::string &root, std::string &missing);

/// The numbers of private interfaces (IBVERBS_PRIVATE_34) that a file names.
std::vector<int> private_interfaces(const std::string &file);

} // namespace rox::run

#endif // ROX_TOOLS_RUN_IMAGE_HPP
