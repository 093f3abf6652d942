/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * A kernel in QEMU, where User Mode Linux cannot run.
 */
#ifndef ROX_TOOLS_RUN_VIRTUAL_MACHINE_HPP
#define ROX_TOOLS_RUN_VIRTUAL_MACHINE_HPP

#include "run/machine.hpp"

#include <memory>
#include <string>

namespace rox::run {

/// The program of QEMU; empty: there is none in the PATH.
std::string find_qemu();

/// The pipes of this one go through one serial port of virtio, see Mux.
class VirtualMachine : public Machine {
public:
    /**
     * Starts it: by KVM, where that may be used and the kernel comes up soon, else emulated.
     * @throw std::system_error
     */
    VirtualMachine(const Image &image, const MachineSettings &settings, const std::string &qemu);

    bool accelerated() const { return accelerated_; }

private:
    /// @return this program's end of the serial port
    std::unique_ptr<File> power_on(const Image &image, const MachineSettings &settings,
                                   const std::string &qemu);

    bool accelerated_ = false;
};

} // namespace rox::run

#endif // ROX_TOOLS_RUN_VIRTUAL_MACHINE_HPP
