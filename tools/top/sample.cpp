/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "top/sample.hpp"

namespace rox::top {

namespace {

template <typename Object>
void name_processes(const std::vector<Object> &objects, const Tree &files, Sample &sample)
{
    for (const Object &object : objects)
        if (object.pid != 0 && !sample.processes.contains(object.pid))
            sample.processes[object.pid] = files.line("/proc/" + std::to_string(object.pid) +
                                                      "/comm");
}

} // namespace

Sample take_sample(RdmaNetlink &netlink, const Tree &files, double seconds,
                   const std::string &device)
{
    Sample sample;

    sample.seconds = seconds;
    for (RdmaDevice &found : rdma_devices(netlink)) {
        if (!device.empty() && found.name != device)
            continue;
        const uint32_t index = found.index;
        DeviceSample &entry = sample.devices.emplace_back();

        if (!found.ports.empty())
            entry.counters = rdma_port_counters(netlink, found.ports[0]);
        entry.device = std::move(found);
        entry.qps = rdma_qps(netlink, index);
        entry.cqs = rdma_cqs(netlink, index);
        entry.mrs = rdma_mrs(netlink, index);
        name_processes(entry.qps, files, sample);
        name_processes(entry.cqs, files, sample);
        name_processes(entry.mrs, files, sample);
    }
    return sample;
}

} // namespace rox::top
