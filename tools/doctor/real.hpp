/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * The parts of a Host that ask the system itself.
 */
#ifndef ROX_DOCTOR_REAL_HPP
#define ROX_DOCTOR_REAL_HPP

#include "doctor/host.hpp"

namespace rox::doctor {

/// Runs programs without a shell; their standard error is discarded.
class RealCommands : public Commands {
public:
    CommandResult run(const std::vector<std::string> &command) override;
};

/// Offloads by the ethtool ioctl, pings by the program ping.
class RealNetwork : public Network {
public:
    std::optional<bool> feature(const std::string &netdev, const std::string &name) override;
    Reach ping(const std::string &netdev, const std::string &address, size_t size) override;
};

/// Two RC QPs of one device that send and write to each other.
class VerbsSelfTest : public SelfTest {
public:
    std::string run(const std::string &device, unsigned gid_index) override;
};

Process this_process();

} // namespace rox::doctor

#endif // ROX_DOCTOR_REAL_HPP
