// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "context.h"

#include <cstring>

#include <fcntl.h>
#include <poll.h>

#include "diagnose.h"
#include "environment.h"
#include "gid.h"

namespace vt {

void fail(const std::string &what, int error)
{
    throw Failure(what + ": " + std::strerror(error) + " (" + std::to_string(error) + ")", error);
}

void fail(const std::string &what)
{
    throw Failure(what);
}

namespace {

bool is_link_local(const ibv_gid &gid)
{
    return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80;
}

} // namespace

const std::string &device_a()
{
    static const std::string name = variable("ROX_DEV_A", "rox0");
    return name;
}

const std::string &device_b()
{
    static const std::string name = variable("ROX_DEV_B", device_a());
    return name;
}

ibv_context *open_device(const std::string &name)
{
    int count = 0;
    ibv_device **list = ibv_get_device_list(&count);
    ibv_context *context = nullptr;
    for (int i = 0; list && i < count; i++)
        if (name == ibv_get_device_name(list[i]))
            context = ibv_open_device(list[i]);
    if (list)
        ibv_free_device_list(list);
    return context;
}

Context::Context(const std::string &name)
    : name_(name), handle_(need(open_device(name), ("open device " + name).c_str()))
{
    int flags = fcntl(get()->async_fd, F_GETFL);
    if (flags < 0 || fcntl(get()->async_fd, F_SETFL, flags | O_NONBLOCK))
        fail("async_fd non-blocking", errno);
}

ibv_device_attr Context::attr() const
{
    ibv_device_attr attr{};
    check(ibv_query_device(get(), &attr), "ibv_query_device");
    return attr;
}

ibv_port_attr Context::port() const
{
    ibv_port_attr attr{};
    check(ibv_query_port(get(), 1, &attr), "ibv_query_port");
    return attr;
}

int Context::gid_index(Family family) const
{
    const auto entry = find_gid(get(), [family](const ibv_gid &gid) {
        return !is_link_local(gid) && is_v4_mapped(gid) == (family == Family::V4);
    });
    if (!entry)
        fail(name_ + " has no RoCE v2 GID of the wanted family");
    return static_cast<int>(entry->gid_index);
}

ibv_gid Context::gid(Family family) const
{
    ibv_gid gid{};
    check(ibv_query_gid(get(), 1, gid_index(family), &gid), "ibv_query_gid");
    return gid;
}

std::optional<Event> Context::next_event(Millis patience)
{
    pollfd poll_fd{get()->async_fd, POLLIN, 0};
    Deadline deadline(patience);
    do {
        ibv_async_event event{};
        if (!ibv_get_async_event(get(), &event)) {
            Event result{event.event_type, event.element.qp, event.element.port_num};
            ibv_ack_async_event(&event);
            return result;
        }
        poll(&poll_fd, 1, static_cast<int>(deadline.left().count()));
    } while (!deadline.passed() || (poll_fd.revents & POLLIN));
    return std::nullopt;
}

namespace {

bool about(const Event &event, ibv_event_type type, const void *element)
{
    return event.type == type && (!element || event.element == element);
}

} // namespace

Event Context::wait_event(ibv_event_type type, const void *element, Millis patience)
{
    for (auto i = others_.begin(); i != others_.end(); ++i)
        if (about(*i, type, element)) {
            Event found = *i;
            others_.erase(i);
            return found;
        }
    Deadline deadline(patience);
    while (auto event = next_event(deadline.left())) {
        if (about(*event, type, element))
            return *event;
        others_.push_back(*event);
    }
    std::string seen;
    for (const Event &other : others_)
        seen += std::string("\n  came instead: ") + ibv_event_type_str(other.type);
    fail(std::string("no event on ") + name_ + ": " + ibv_event_type_str(type) + seen +
         state_of_everything());
}

bool Context::has_event(ibv_event_type type, const void *element)
{
    while (auto event = next_event(kQuiet))
        others_.push_back(*event);
    for (const Event &event : others_)
        if (about(event, type, element))
            return true;
    return false;
}

} // namespace vt
