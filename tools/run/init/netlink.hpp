/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Requests to the kernel over netlink, without a library: this program is linked statically.
 */
#ifndef ROX_TOOLS_RUN_INIT_NETLINK_HPP
#define ROX_TOOLS_RUN_INIT_NETLINK_HPP

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rox::run {

/// One request: the message's header, what the family puts first, attributes.
class Request {
public:
    /// @p flags are added to NLM_F_REQUEST and NLM_F_ACK.
    Request(uint16_t type, uint16_t flags);

    /// Appends a structure of the family, before all attributes.
    template <typename T>
    Request &put(const T &part)
    {
        append(&part, sizeof(part));
        return *this;
    }
    Request &add(uint16_t attribute, const void *data, size_t size);
    template <typename T>
    Request &number(uint16_t attribute, T value)
    {
        return add(attribute, &value, sizeof(value));
    }
    /// With its final zero byte.
    Request &text(uint16_t attribute, std::string_view value);
    /// Begins a nest, which ends at end().
    size_t begin(uint16_t attribute);
    /// Begins a nest behind a structure, as TCA_OPTIONS of netem has it.
    template <typename T>
    size_t begin_with(uint16_t attribute, const T &part)
    {
        const size_t place = begin(attribute);

        append(&part, sizeof(part));
        return place;
    }
    Request &end(size_t nest);

    /// Sends it to a family (NETLINK_ROUTE, NETLINK_RDMA) and waits for the answer. @return 0 or an
    /// errno
    int send(int family);

private:
    void append(const void *data, size_t size);

    alignas(8) unsigned char bytes_[1024] = {};
    size_t size_ = 0;
};

} // namespace rox::run

#endif // ROX_TOOLS_RUN_INIT_NETLINK_HPP
