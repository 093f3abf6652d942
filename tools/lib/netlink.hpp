/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Questions to the RDMA subsystem over netlink, as rdma(8) asks them.
 */
#ifndef ROX_TOOLS_NETLINK_HPP
#define ROX_TOOLS_NETLINK_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

struct nlattr;
struct mnl_socket;

namespace rox {

/// A sequence of netlink attributes: a message or a nest in one. Does not own its memory.
class Attributes {
public:
    Attributes(const void *data, size_t size) : data_(data), size_(size) {}

    std::optional<uint64_t> number(uint16_t type) const;
    std::string text(uint16_t type) const;
    bool has(uint16_t type) const { return find(type) != nullptr; }
    /// What a nest holds; nothing if it is missing.
    Attributes nest(uint16_t type) const;
    /// All attributes in their order.
    std::vector<const nlattr *> all() const;
    /// All nests of a type, in their order.
    std::vector<Attributes> nests(uint16_t type) const;

    static uint64_t number_of(const nlattr *attribute);
    static std::string text_of(const nlattr *attribute);

private:
    const nlattr *find(uint16_t type) const;

    const void *data_;
    size_t size_;
};

/// What a question holds: numbers by their attribute type.
using Question = std::vector<std::pair<uint16_t, uint32_t>>;
/// The attributes of an answer.
using Answer = std::vector<std::byte>;

/// Who answers: the kernel, or a test.
class RdmaNetlink {
public:
    virtual ~RdmaNetlink() = default;
    /// The answers to a command of RDMA_NL_NLDEV; none after an error. A dump asks for all objects.
    virtual std::vector<Answer> ask(int command, bool dump, const Question &question) = 0;
};

struct CloseNetlink {
    void operator()(mnl_socket *socket) const;
};
/// A netlink socket that its owner closes.
using NetlinkSocket = std::unique_ptr<mnl_socket, CloseNetlink>;

/// The kernel's RDMA subsystem.
class KernelRdmaNetlink : public RdmaNetlink {
public:
    KernelRdmaNetlink();
    std::vector<Answer> ask(int command, bool dump, const Question &question) override;
    /// False if the kernel has no RDMA netlink family, because ib_core is not loaded.
    bool works() const { return socket_ != nullptr; }

private:
    bool receive(uint32_t sequence, std::vector<Answer> &answers);

    NetlinkSocket socket_;
    uint32_t sequence_ = 0;
};

} // namespace rox

#endif // ROX_TOOLS_NETLINK_HPP
