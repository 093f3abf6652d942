/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Answers of the RDMA subsystem that a test writes.
 */
#ifndef ROX_TESTS_FAKE_NETLINK_H
#define ROX_TESTS_FAKE_NETLINK_H

#include "lib/netlink.hpp"

#include <functional>
#include <map>
#include <string>

#include <libmnl/libmnl.h>
#include <rdma/rdma_netlink.h>

namespace rox::test {

/// Makes the attributes of a message.
class MessageBuilder {
public:
    MessageBuilder() : memory_(8192), head_(mnl_nlmsg_put_header(memory_.data())) {}

    MessageBuilder &u8(uint16_t type, uint8_t value)
    {
        mnl_attr_put_u8(head_, type, value);
        return *this;
    }
    MessageBuilder &u32(uint16_t type, uint32_t value)
    {
        mnl_attr_put_u32(head_, type, value);
        return *this;
    }
    MessageBuilder &u64(uint16_t type, uint64_t value)
    {
        mnl_attr_put_u64(head_, type, value);
        return *this;
    }
    MessageBuilder &text(uint16_t type, const std::string &value)
    {
        mnl_attr_put_strz(head_, type, value.c_str());
        return *this;
    }
    MessageBuilder &nest(uint16_t type, const std::function<void(MessageBuilder &)> &fill)
    {
        nlattr *nest = mnl_attr_nest_start(head_, type);

        fill(*this);
        mnl_attr_nest_end(head_, nest);
        return *this;
    }
    /// A number of the driver, as the kernel writes it.
    MessageBuilder &driver(const std::string &name, uint64_t value)
    {
        return text(RDMA_NLDEV_ATTR_DRIVER_STRING, name).u64(RDMA_NLDEV_ATTR_DRIVER_U64, value);
    }

    Answer answer() const
    {
        const auto *payload = static_cast<const std::byte *>(mnl_nlmsg_get_payload(head_));

        return {payload, payload + mnl_nlmsg_get_payload_len(head_)};
    }

private:
    std::vector<char> memory_;
    nlmsghdr *head_;
};

/// Answers each command with what a test has put there, for any device.
class FakeNetlink : public RdmaNetlink {
public:
    std::vector<Answer> ask(int command, bool dump, const Question & /*question*/) override
    {
        return answers[{command, dump}];
    }

    void add_device(uint32_t index, const std::string &name)
    {
        answers[{RDMA_NLDEV_CMD_GET, true}].push_back(
            MessageBuilder()
                .u32(RDMA_NLDEV_ATTR_DEV_INDEX, index)
                .text(RDMA_NLDEV_ATTR_DEV_NAME, name)
                .text(RDMA_NLDEV_ATTR_DEV_PROTOCOL, "roce")
                .answer());
    }

    /// The port of all devices. Without a netdev that is in another namespace.
    void set_port(bool active, const std::string &netdev)
    {
        MessageBuilder builder;

        builder.u32(RDMA_NLDEV_ATTR_PORT_INDEX, 1).u8(RDMA_NLDEV_ATTR_PORT_STATE, active ? 4 : 1);
        if (!netdev.empty())
            builder.text(RDMA_NLDEV_ATTR_NDEV_NAME, netdev);
        answers[{RDMA_NLDEV_CMD_PORT_GET, true}] = {builder.answer()};
    }

    void set_netns_exclusive(bool exclusive)
    {
        answers[{RDMA_NLDEV_CMD_SYS_GET, false}] = {
            MessageBuilder().u8(RDMA_NLDEV_SYS_ATTR_NETNS_MODE, exclusive ? 0 : 1).answer()};
    }

    std::map<std::pair<int, bool>, std::vector<Answer>> answers;
};

} // namespace rox::test

#endif // ROX_TESTS_FAKE_NETLINK_H
