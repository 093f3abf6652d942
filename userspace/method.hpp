/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * A call of a method of an object, by the ioctl of uverbs.
 */
#ifndef ROX_METHOD_HPP
#define ROX_METHOD_HPP

#include "abi/pabi.hpp"

#include <rdma/rdma_user_ioctl_cmds.h>
#include <rdma/rox-abi.h>
#include <sys/ioctl.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace rox {

/// A call with @p count attributes, all of them mandatory.
template <size_t count>
class Method {
public:
    Method(uint16_t object, uint16_t method)
    {
        auto *hdr = reinterpret_cast<ib_uverbs_ioctl_hdr *>(hdr_.data());

        hdr->length = sizeof(*this);
        hdr->object_id = object;
        hdr->method_id = method;
        hdr->num_attrs = count;
        hdr->driver_id = ROX_DRIVER_ID;
    }

    /// Sets attribute @p index to an object, by its handle.
    void set(size_t index, uint16_t id, uint64_t handle)
    {
        attrs_[index].attr_id = id;
        attrs_[index].flags = UVERBS_ATTR_F_MANDATORY;
        attrs_[index].data = handle;
    }

    /// Sets attribute @p index to a value, in the attribute itself.
    void set_value(size_t index, uint16_t id, uint32_t value)
    {
        set(index, id, 0);
        attrs_[index].len = sizeof(value);
        std::memcpy(&attrs_[index].data, &value, sizeof(value));
    }

    /// What the kernel wrote to attribute @p index.
    uint64_t result(size_t index) const { return attrs_[index].data; }

    /// 0 or an errno value.
    int call(int cmd_fd) { return ioctl(cmd_fd, RDMA_VERBS_IOCTL, this) == 0 ? 0 : errno; }

private:
    alignas(ib_uverbs_ioctl_hdr) std::array<std::byte, sizeof(ib_uverbs_ioctl_hdr)> hdr_{};
    std::array<ib_uverbs_attr, count> attrs_{};
};

} // namespace rox

#endif // ROX_METHOD_HPP
