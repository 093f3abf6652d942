// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// A device of a case's own, which may go away.
#pragma once

#include <string>
#include <utility>

#include "../../verbs/lib/context.h"
#include "../../verbs/lib/diagnose.h"

namespace hostile {

/// A device on a dummy netdev. Its destructor deletes the netdev; the device may be gone before.
class SpareDevice {
public:
    explicit SpareDevice(std::string name) : name_(std::move(name))
    {
        vt::run("ip link add " + netdev() + " type dummy && ip link set " + netdev() +
                " up && ip address add 10.77.0.1/24 dev " + netdev() + " && rdma link add " +
                name_ + " type rox netdev " + netdev());
        if (!vt::eventually([this] { return opens(); }))
            vt::fail(name_ + " does not open");
    }
    ~SpareDevice() { vt::run("ip link delete " + netdev()); }
    SpareDevice(const SpareDevice &) = delete;
    SpareDevice &operator=(const SpareDevice &) = delete;

    const std::string &name() const { return name_; }
    void remove() const { vt::run("timeout 60 rdma link delete " + name_); }

private:
    std::string netdev() const { return name_ + "0"; }
    bool opens() const
    {
        ibv_context *context = vt::open_device(name_);
        return context && ibv_close_device(context) == 0;
    }

    std::string name_;
};

} // namespace hostile
