// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Methods of objects by the ioctl of uverbs, which libibverbs does not call.
#pragma once

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>

#include "../../../include/uapi/rdma/rox-abi.h"

namespace hostile {

/// Calls a method. Its attributes are made mandatory, and hold what the kernel returns.
/// @return 0 or errno
template <std::size_t count>
int call_method(int fd, std::uint16_t object, std::uint16_t method,
                std::array<ib_uverbs_attr, count> &attrs)
{
    struct Request {
        alignas(ib_uverbs_ioctl_hdr) std::array<std::uint8_t, sizeof(ib_uverbs_ioctl_hdr)> header;
        std::array<ib_uverbs_attr, count> attrs;
    } request{{}, attrs};
    auto &header = *reinterpret_cast<ib_uverbs_ioctl_hdr *>(request.header.data());

    header.length = sizeof(request);
    header.object_id = object;
    header.method_id = method;
    header.num_attrs = count;
    header.driver_id = ROX_DRIVER_ID;
    for (ib_uverbs_attr &attr : request.attrs)
        attr.flags = UVERBS_ATTR_F_MANDATORY;
    const int error = ioctl(fd, RDMA_VERBS_IOCTL, &request) ? errno : 0;
    attrs = request.attrs;
    return error;
}

} // namespace hostile
