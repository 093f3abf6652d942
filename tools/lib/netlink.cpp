/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "lib/netlink.hpp"

#include <array>
#include <cstring>

#include <libmnl/libmnl.h>
#include <rdma/rdma_netlink.h>
#include <sys/socket.h>
#include <sys/time.h>

namespace rox {

std::vector<const nlattr *> Attributes::all() const
{
    std::vector<const nlattr *> found;
    const auto *at = static_cast<const nlattr *>(data_);
    const char *end = static_cast<const char *>(data_) + size_;

    while (mnl_attr_ok(at, static_cast<int>(end - reinterpret_cast<const char *>(at)))) {
        found.push_back(at);
        at = mnl_attr_next(at);
    }
    return found;
}

const nlattr *Attributes::find(uint16_t type) const
{
    for (const nlattr *attribute : all())
        if (mnl_attr_get_type(attribute) == type)
            return attribute;
    return nullptr;
}

uint64_t Attributes::number_of(const nlattr *attribute)
{
    switch (mnl_attr_get_payload_len(attribute)) {
    case sizeof(uint8_t): return mnl_attr_get_u8(attribute);
    case sizeof(uint16_t): return mnl_attr_get_u16(attribute);
    case sizeof(uint32_t): return mnl_attr_get_u32(attribute);
    case sizeof(uint64_t): return mnl_attr_get_u64(attribute);
    default: return 0;
    }
}

std::string Attributes::text_of(const nlattr *attribute)
{
    const auto *text = static_cast<const char *>(mnl_attr_get_payload(attribute));

    return {text, strnlen(text, mnl_attr_get_payload_len(attribute))};
}

std::optional<uint64_t> Attributes::number(uint16_t type) const
{
    const nlattr *attribute = find(type);

    return attribute != nullptr ? std::optional(number_of(attribute)) : std::nullopt;
}

std::string Attributes::text(uint16_t type) const
{
    const nlattr *attribute = find(type);

    return attribute != nullptr ? text_of(attribute) : "";
}

Attributes Attributes::nest(uint16_t type) const
{
    const nlattr *attribute = find(type);

    if (attribute == nullptr)
        return {nullptr, 0};
    return {mnl_attr_get_payload(attribute), mnl_attr_get_payload_len(attribute)};
}

std::vector<Attributes> Attributes::nests(uint16_t type) const
{
    std::vector<Attributes> found;

    for (const nlattr *attribute : all())
        if (mnl_attr_get_type(attribute) == type)
            found.emplace_back(mnl_attr_get_payload(attribute),
                               mnl_attr_get_payload_len(attribute));
    return found;
}

void CloseNetlink::operator()(mnl_socket *socket) const
{
    mnl_socket_close(socket);
}

KernelRdmaNetlink::KernelRdmaNetlink() : socket_(mnl_socket_open(NETLINK_RDMA))
{
    constexpr timeval patience{.tv_sec = 5, .tv_usec = 0};

    if (socket_ == nullptr)
        return;
    setsockopt(mnl_socket_get_fd(socket_.get()), SOL_SOCKET, SO_RCVTIMEO, &patience,
               sizeof(patience));
    if (mnl_socket_bind(socket_.get(), 0, MNL_SOCKET_AUTOPID) < 0)
        socket_.reset();
}

namespace {

int store(const nlmsghdr *message, void *data)
{
    const auto *payload = static_cast<const std::byte *>(mnl_nlmsg_get_payload(message));

    static_cast<std::vector<Answer> *>(data)->emplace_back(
        payload, payload + mnl_nlmsg_get_payload_len(message));
    return MNL_CB_OK;
}

} // namespace

/* Reads one buffer of answers. Returns false with the last one, and after an error. */
bool KernelRdmaNetlink::receive(uint32_t sequence, std::vector<Answer> &answers)
{
    constexpr size_t largest_message = 64 << 10;
    alignas(nlmsghdr) std::array<char, largest_message> buffer;
    const auto got = mnl_socket_recvfrom(socket_.get(), buffer.data(), buffer.size());

    return got > 0 &&
           mnl_cb_run(buffer.data(), static_cast<size_t>(got), sequence,
                      mnl_socket_get_portid(socket_.get()), store, &answers) > MNL_CB_STOP;
}

std::vector<Answer> KernelRdmaNetlink::ask(int command, bool dump, const Question &question)
{
    alignas(nlmsghdr) std::array<char, 1024> buffer{};
    std::vector<Answer> answers;

    if (!works())
        return answers;
    nlmsghdr *message = mnl_nlmsg_put_header(buffer.data());
    message->nlmsg_type = static_cast<uint16_t>(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command));
    message->nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | (dump ? NLM_F_DUMP : NLM_F_ACK));
    message->nlmsg_seq = ++sequence_;
    for (const auto &[type, value] : question)
        mnl_attr_put_u32(message, type, value);
    if (mnl_socket_sendto(socket_.get(), message, message->nlmsg_len) < 0)
        return answers;
    while (receive(message->nlmsg_seq, answers)) {
    }
    return answers;
}

} // namespace rox
