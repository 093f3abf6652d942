/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * User Mode Linux: a kernel that is a program.
 */
#ifndef ROX_TOOLS_RUN_USER_MODE_HPP
#define ROX_TOOLS_RUN_USER_MODE_HPP

#include "run/machine.hpp"

#include <string>

namespace rox::run {

/// What keeps User Mode Linux from running here, found out by trying; empty: nothing.
std::string user_mode_obstacle(const Image &image);

class UserMode : public Machine {
public:
    /// Starts it. @throw std::system_error
    UserMode(const Image &image, const MachineSettings &settings);

private:
    void prepare() override;
};

} // namespace rox::run

#endif // ROX_TOOLS_RUN_USER_MODE_HPP
