/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * What rox-run brings along, and which of its providers fits.
 */
#ifndef ROX_TOOLS_RUN_IMAGE_HPP
#define ROX_TOOLS_RUN_IMAGE_HPP

#include <optional>
#include <string>
#include <vector>

namespace rox::run {

/// The files of rox-run.
struct Image {
    std::string folder;
    std::string kernel() const { return folder + "/linux"; }
    std::string first_process() const { return folder + "/init.cpio"; }
    /// The files of the virtual machine, if it has them. The providers are those of this one.
    Image virtual_machine() const { return {folder + "/vm"}; }
    bool is_complete() const;
    /// The folder with ip and rdma, if there is one: file systems may have none.
    std::string programs() const;
    /// What this kernel wants on its command line: the words of the file "arguments", if there is
    /// one.
    std::vector<std::string> arguments() const;
    /// The number of CPUs that this kernel can have: in the file "cpus", or 1.
    unsigned most_cpus() const;
    /// The provider for a number of libibverbs' private interface; the file need not be there.
    std::string provider(unsigned number) const;
    /// The numbers for which there is a provider.
    std::vector<unsigned> providers() const;
};

/// Finds the files: ROX_RUN_IMAGE, else beside the program. @throw std::runtime_error
Image find_image();

/// A provider, its place in the file system, and the library that finds it there.
struct Provider {
    std::string file, target, library;
};

/**
 * The provider for the libibverbs of the file system below @p root.
 * @return nothing if there is no libibverbs
 * @throw std::runtime_error if there is one for which the image has no provider
 */
std::optional<Provider> find_provider(const Image &image, const std::string &root);

} // namespace rox::run

#endif // ROX_TOOLS_RUN_IMAGE_HPP
