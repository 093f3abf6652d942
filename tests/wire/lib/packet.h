// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Encoding and decoding of RoCE v2 packets for the tests' own peer: Ethernet, IPv4 or IPv6, UDP,
/// BTH, extended headers, payload, pad, ICRC. Written from the specification (IBTA volume 1,
/// chapter 9, annexes A14, A17 and A19). Shares nothing with the driver.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace wire {

using Octets = std::vector<std::uint8_t>;
using Address = std::array<std::uint8_t, 16>; ///< IPv6; IPv4 as ::ffff:a.b.c.d
using Mac = std::array<std::uint8_t, 6>;

constexpr std::uint16_t kPort = 4791;
constexpr std::uint32_t kMask24 = 0xffffff;
constexpr std::size_t kEthernet = 14; ///< bytes before the IP header

/// The five lower bits of an opcode (IBTA volume 1, table "OpCode field").
enum Op : std::uint8_t {
    kSendFirst = 0x00,
    kSendMiddle = 0x01,
    kSendLast = 0x02,
    kSendLastImm = 0x03,
    kSendOnly = 0x04,
    kSendOnlyImm = 0x05,
    kWriteFirst = 0x06,
    kWriteMiddle = 0x07,
    kWriteLast = 0x08,
    kWriteLastImm = 0x09,
    kWriteOnly = 0x0a,
    kWriteOnlyImm = 0x0b,
    kReadRequest = 0x0c,
    kReadFirst = 0x0d,
    kReadMiddle = 0x0e,
    kReadLast = 0x0f,
    kReadOnly = 0x10,
    kAck = 0x11,
    kAtomicAck = 0x12,
    kCompareSwap = 0x13,
    kFetchAdd = 0x14,
    kSendLastInv = 0x16,
    kSendOnlyInv = 0x17,
    kAtomicWrite = 0x1d,
};

/// The three upper bits of an opcode: the service.
constexpr std::uint8_t kRc = 0x00;
constexpr std::uint8_t kUc = 0x20;
constexpr std::uint8_t kRd = 0x40;
constexpr std::uint8_t kUd = 0x60;
constexpr std::uint8_t kCnp = 0x80;
/// rox tells its peer that frames come as they are made: net/near.c.
constexpr std::uint8_t kUncut = 0xc1;
constexpr std::uint8_t kXrc = 0xa0;

/// Syndromes of the AETH.
constexpr std::uint8_t kRnrNak = 0x20;
constexpr std::uint8_t kNakSequence = 0x60;
constexpr std::uint8_t kNakInvalid = 0x61;
constexpr std::uint8_t kNakAccess = 0x62;
constexpr std::uint8_t kNakOperation = 0x63;
constexpr std::uint8_t kNakInvalidRd = 0x64;
constexpr std::uint8_t kNoCredits = 0x1f; ///< an ACK without end-to-end credits

/// @name Extended headers
/// @{
Octets reth(std::uint64_t va, std::uint32_t rkey, std::uint32_t length);
Octets atomic_eth(std::uint64_t va, std::uint32_t rkey, std::uint64_t swap_add,
                  std::uint64_t compare);
Octets aeth(std::uint8_t syndrome, std::uint32_t msn);
Octets atomic_ack_eth(std::uint64_t original);
Octets word(std::uint32_t value); ///< ImmDt, IETH or XRCETH
Octets deth(std::uint32_t qkey, std::uint32_t sqpn);
/// @}

Octets operator+(Octets left, const Octets &right);

/// Bytes of the extended headers of @p opcode; none if the table does not have it.
std::optional<std::size_t> extension_length(std::uint8_t opcode);

/// Addresses of sender and receiver.
struct Route {
    Mac source_mac{}, target_mac{};
    Address source{}, target{};
};

/// The fields of a packet. Their defaults are those of a compliant sender.
struct Packet {
    std::uint8_t opcode = 0;
    std::uint32_t qpn = 0;
    std::uint32_t psn = 0;
    Octets extension{};
    Octets payload{};

    bool solicited = false;
    bool migrated = true;
    bool ack = false;
    bool fecn = false;
    bool becn = false;
    std::uint8_t version = 0;
    std::uint16_t pkey = 0xffff;
    std::uint8_t reserved_byte = 0;    ///< six bits, in the byte of FECN and BECN
    std::uint8_t reserved_seven = 0;   ///< seven bits, in the byte of AckReq
    std::optional<std::uint8_t> pad{}; ///< PadCnt in the BTH, if it is to be wrong

    std::uint8_t tos = 0;
    std::uint8_t ttl = 64;
    std::uint16_t ip_id = 0;
    std::uint32_t flow_label = 0;
    std::uint16_t source_port = 0xc123;
    std::uint16_t target_port = kPort;
    bool udp_checksum = false; ///< else the field is 0
    std::uint16_t udp_checksum_error = 0;
    std::uint32_t icrc_error = 0;
    std::size_t cut = 0;             ///< bytes cut off at the end, also from all lengths
    std::int32_t udp_more = 0;       ///< added to the UDP length
    Octets ip_options{};             ///< IPv4, a multiple of four
    std::uint16_t fragment = 0x4000; ///< IPv4: flags and offset (DF)
};

/// Encodes a packet as an Ethernet frame.
Octets encode(const Route &route, const Packet &packet);

/// Recalculates the ICRC of a changed frame, over the length in its headers.
void repair_icrc(Octets &frame);
/// Recalculates the IPv4 header checksum of a changed frame. IPv6 has none.
void repair_ip(Octets &frame);

/// A received frame, decoded.
struct Received {
    Octets frame;
    Packet packet;
    bool ip_checksum_ok = false;
    bool icrc_ok = false;
    std::uint16_t udp_checksum = 0;
    Route route;

    std::uint8_t syndrome() const { return packet.extension.at(0); }
    std::uint32_t number(std::size_t offset, std::size_t bytes) const;
};
/// Decodes a frame; none if it is not for UDP port 4791.
std::optional<Received> decode(const Octets &frame);

std::string describe(const Packet &packet);

inline std::uint32_t psn_add(std::uint32_t psn, std::int64_t n)
{
    return static_cast<std::uint32_t>(psn + n) & kMask24;
}
/// Writes the 16 bits at @p offset, which the frame has.
void set16(Octets &frame, std::size_t offset, std::uint32_t value);
/// The Internet checksum (RFC 1071) before its complement: the folded sum, begun at @p start.
std::uint32_t internet_sum(std::span<const std::uint8_t> bytes, std::uint32_t start = 0);
/// How far @p a is after @p b.
inline std::int32_t psn_diff(std::uint32_t a, std::uint32_t b)
{
    return static_cast<std::int32_t>((a - b) << 8) >> 8;
}

/// The AETH code for @p receives credits, rounded down to 0, 1, 2, 3, 4, 6, 8, 12 ... 32768.
std::uint8_t credit_code(std::uint32_t receives);
std::uint32_t credits_of(std::uint8_t code);
/// The delay for an RNR NAK timer code, in microseconds.
std::uint32_t rnr_microseconds(std::uint8_t code);

} // namespace wire
