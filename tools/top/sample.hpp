/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * What all RDMA devices looked like at one moment.
 */
#ifndef ROX_TOP_SAMPLE_HPP
#define ROX_TOP_SAMPLE_HPP

#include "lib/rdma.hpp"
#include "lib/tree.hpp"

#include <map>
#include <string>
#include <vector>

namespace rox::top {

struct DeviceSample {
    RdmaDevice device;
    std::map<std::string, uint64_t> counters; ///< of port 1
    std::vector<RdmaQp> qps;
    std::vector<RdmaCq> cqs;
    std::vector<RdmaMr> mrs;
};

struct Sample {
    double seconds = 0; ///< of a clock that does not go back
    std::vector<DeviceSample> devices;
    std::map<uint64_t, std::string> processes; ///< names by PID
};

/// Asks the kernel. With a device's name only that one.
Sample take_sample(RdmaNetlink &netlink, const Tree &files, double seconds,
                   const std::string &device = "");

} // namespace rox::top

#endif // ROX_TOP_SAMPLE_HPP
