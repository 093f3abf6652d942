// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// uverbs commands by write(), for those that libibverbs does not issue.
#pragma once

#include <cstdint>
#include <type_traits>

#include <rdma/ib_user_verbs.h>
#include <unistd.h>

namespace hostile {

/// Writes a command to a uverbs device. @p command's response is set to @p response.
/// @param number  IB_USER_VERBS_CMD_*
/// @return true if it was executed; else errno is set
template <typename Command, typename Response>
bool write_command(int fd, std::uint32_t number, const Command &command, Response &response)
{
    static_assert(std::is_trivially_copyable_v<Response>);
    struct {
        ib_uverbs_cmd_hdr header;
        Command command;
    } request{{number, sizeof(request) / 4, sizeof(response) / 4}, command};

    request.command.response = reinterpret_cast<std::uintptr_t>(&response);
    return write(fd, &request, sizeof(request)) == sizeof(request);
}

} // namespace hostile
