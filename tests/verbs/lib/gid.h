// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// GIDs and the IP addresses that they stand for. Needs nothing else of this library.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include <arpa/inet.h>
#include <infiniband/verbs.h>

namespace vt {

inline bool same_gid(const ibv_gid &left, const ibv_gid &right)
{
    return !std::memcmp(left.raw, right.raw, sizeof(left.raw));
}

/// True if the GID stands for an IPv4 address.
inline bool is_v4_mapped(const ibv_gid &gid)
{
    static const std::uint8_t prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return !std::memcmp(gid.raw, prefix, sizeof(prefix));
}

/// The GID of an IPv4 or IPv6 address; none if @p address is not one.
inline std::optional<ibv_gid> parse_gid(const std::string &address)
{
    ibv_gid gid{};
    if (inet_pton(AF_INET6, address.c_str(), gid.raw) == 1)
        return gid;
    gid.raw[10] = gid.raw[11] = 0xff;
    if (inet_pton(AF_INET, address.c_str(), gid.raw + 12) == 1)
        return gid;
    return std::nullopt;
}

/// The first RoCE v2 entry of port 1's GID table that is @p wanted, if there is one.
template <typename Predicate>
std::optional<ibv_gid_entry> find_gid_entry(ibv_context *context, Predicate wanted)
{
    ibv_port_attr port{};
    if (ibv_query_port(context, 1, &port))
        return std::nullopt;
    for (int i = 0; i < port.gid_tbl_len; i++) {
        ibv_gid_entry entry{};
        if (!ibv_query_gid_ex(context, 1, static_cast<std::uint32_t>(i), &entry, 0) &&
            entry.gid_type == IBV_GID_TYPE_ROCE_V2 && wanted(entry))
            return entry;
    }
    return std::nullopt;
}

/// The first such entry whose GID is @p wanted.
template <typename Predicate>
std::optional<ibv_gid_entry> find_gid(ibv_context *context, Predicate wanted)
{
    return find_gid_entry(context, [&](const ibv_gid_entry &entry) { return wanted(entry.gid); });
}

} // namespace vt
