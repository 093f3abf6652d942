// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// An open device, its addresses and its asynchronous events.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <infiniband/verbs.h>

#include "clock.h"
#include "handle.h"

namespace vt {

/// Names of the two devices under test (ROX_DEV_A, ROX_DEV_B): one device or two.
const std::string &device_a();
const std::string &device_b();
inline bool one_device()
{
    return device_a() == device_b();
}

/// Opens by name; null if there is no such device.
ibv_context *open_device(const std::string &name);

enum class Family { V4, V6 };

struct Event {
    ibv_event_type type;
    void *element; ///< its ibv_qp, ibv_cq or ibv_srq
    int port;
};

class Context {
public:
    explicit Context(const std::string &name);

    ibv_context *get() const { return handle_.get(); }
    const std::string &name() const { return name_; }

    ibv_device_attr attr() const;
    ibv_port_attr port() const;

    /// Index of the first RoCE v2 GID of @p family that is not link-local. Fails if there is none.
    int gid_index(Family family = Family::V4) const;
    ibv_gid gid(Family family = Family::V4) const;

    /// Waits for an event of @p type, and of @p element unless that is null. Events of other types
    /// or elements that come first are added to others().
    Event wait_event(ibv_event_type type, const void *element = nullptr,
                     Millis patience = kPatience);
    /// The next event of any type, already acknowledged; none if the time is over first.
    std::optional<Event> next_event(Millis patience);
    /// True if an event of @p type of @p element has come, or comes within kQuiet.
    bool has_event(ibv_event_type type, const void *element);
    const std::vector<Event> &others() const { return others_; }

    /// Closes the device early. Returns what the verb did.
    int close() { return handle_.destroy(); }

private:
    std::string name_;
    Handle<ibv_context, ibv_close_device> handle_;
    std::vector<Event> others_;
};

} // namespace vt
