// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "packet.h"

#include <algorithm>
#include <cstdio>

namespace wire {

namespace {

constexpr std::size_t kBth = 12;
constexpr std::size_t kIcrc = 4;

void put(Octets &out, std::uint64_t value, std::size_t bytes)
{
    while (bytes--)
        out.push_back(static_cast<std::uint8_t>(value >> (8 * bytes)));
}

std::uint64_t get(std::span<const std::uint8_t> in, std::size_t offset, std::size_t bytes)
{
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; i++)
        value = value << 8 | in[offset + i];
    return value;
}

bool is_v4(const Address &address)
{
    return std::all_of(address.begin(), address.begin() + 10, [](auto b) { return !b; }) &&
           address[10] == 0xff && address[11] == 0xff;
}

/// The CRC-32 of Ethernet, bytewise, with a table made at compile time.
constexpr auto kCrcTable = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < table.size(); i++) {
        std::uint32_t c = i;
        for (int bit = 0; bit < 8; bit++)
            c = c & 1 ? 0xedb88320U ^ (c >> 1) : c >> 1;
        table[i] = c;
    }
    return table;
}();

std::uint32_t crc(std::uint32_t state, std::uint8_t byte)
{
    return kCrcTable[(state ^ byte) & 0xff] ^ (state >> 8);
}

/// Offsets of the parts of a frame, from its IP header; none if the frame is too short.
struct Layout {
    bool v6;
    std::size_t ip = kEthernet, udp, bth, end; ///< end: behind the ICRC
};

std::optional<Layout> layout(std::span<const std::uint8_t> frame)
{
    if (frame.size() < kEthernet + 20)
        return std::nullopt;
    Layout at{};
    std::uint64_t type = get(frame, 12, 2);
    at.v6 = type == 0x86dd;
    if (!at.v6 && type != 0x0800)
        return std::nullopt;
    at.ip = kEthernet;
    std::size_t header = at.v6 ? 40 : (frame[at.ip] & 15) * 4U;
    at.udp = at.ip + header;
    at.bth = at.udp + 8;
    if (frame.size() < at.bth + kBth + kIcrc || frame[at.ip + (at.v6 ? 6 : 9)] != 17)
        return std::nullopt;
    std::size_t length = get(frame, at.udp + 4, 2);
    if (length < 8 + kBth + kIcrc || at.udp + length > frame.size())
        return std::nullopt;
    at.end = at.udp + length;
    return at;
}

/// Annex A17: the ICRC covers eight bytes of ones and then everything from the IP header on. Fields
/// that routers and switches may change count as ones: type of service or traffic class, flow
/// label, TTL or hop limit, both checksums, and the byte of the BTH with FECN and BECN.
std::uint32_t icrc(std::span<const std::uint8_t> frame, const Layout &at)
{
    std::uint32_t state = 0xffffffff;
    for (int i = 0; i < 8; i++)
        state = crc(state, 0xff);
    for (std::size_t i = at.ip; i < at.end - kIcrc; i++) {
        std::size_t o = i - at.ip;
        std::uint8_t byte = frame[i];
        if (at.v6) {
            if (o == 0)
                byte |= 0x0f;
            else if ((o >= 1 && o <= 3) || o == 7)
                byte = 0xff;
        } else if (o == 1 || o == 8 || o == 10 || o == 11) {
            byte = 0xff;
        }
        if (i == at.udp + 6 || i == at.udp + 7 || i == at.bth + 4)
            byte = 0xff;
        state = crc(state, byte);
    }
    return ~state;
}

std::uint32_t udp_sum(std::span<const std::uint8_t> frame, const Layout &at)
{
    std::size_t addresses = at.v6 ? 32 : 8;
    std::size_t from = at.ip + (at.v6 ? 8 : 12);
    std::uint32_t start = internet_sum(frame.subspan(from, addresses)) + 17 +
                          static_cast<std::uint32_t>(at.end - at.udp);
    return internet_sum(frame.subspan(at.udp, at.end - at.udp), start);
}

void put_ethernet(Octets &out, const Route &route)
{
    out.insert(out.end(), route.target_mac.begin(), route.target_mac.end());
    out.insert(out.end(), route.source_mac.begin(), route.source_mac.end());
    put(out, is_v4(route.source) ? 0x0800 : 0x86dd, 2);
}

void put_ip(Octets &out, const Route &route, const Packet &p, std::size_t udp_length)
{
    if (is_v4(route.source)) {
        put(out, 0x40 | (5 + p.ip_options.size() / 4), 1);
        put(out, p.tos, 1);
        put(out, 20 + p.ip_options.size() + udp_length, 2);
        put(out, p.ip_id, 2);
        put(out, p.fragment, 2);
        put(out, p.ttl, 1);
        put(out, 17, 1);
        put(out, 0, 2);
        out.insert(out.end(), route.source.begin() + 12, route.source.end());
        out.insert(out.end(), route.target.begin() + 12, route.target.end());
        out.insert(out.end(), p.ip_options.begin(), p.ip_options.end());
    } else {
        put(out, 0x60000000U | p.tos << 20 | p.flow_label, 4);
        put(out, udp_length, 2);
        put(out, 17, 1);
        put(out, p.ttl, 1);
        out.insert(out.end(), route.source.begin(), route.source.end());
        out.insert(out.end(), route.target.begin(), route.target.end());
    }
}

void put_bth(Octets &out, const Packet &p, std::uint8_t pad)
{
    put(out, p.opcode, 1);
    put(out, p.solicited << 7 | p.migrated << 6 | (p.pad.value_or(pad) & 3) << 4 | (p.version & 15),
        1);
    put(out, p.pkey, 2);
    put(out, p.fecn << 7 | p.becn << 6 | (p.reserved_byte & 0x3f), 1);
    put(out, p.qpn, 3);
    put(out, p.ack << 7 | (p.reserved_seven & 0x7f), 1);
    put(out, p.psn, 3);
}

} // namespace

void set16(Octets &frame, std::size_t offset, std::uint32_t value)
{
    frame[offset] = static_cast<std::uint8_t>(value >> 8);
    frame[offset + 1] = static_cast<std::uint8_t>(value);
}

std::uint32_t internet_sum(std::span<const std::uint8_t> bytes, std::uint32_t start)
{
    std::uint32_t total = start;
    for (std::size_t i = 0; i < bytes.size(); i++)
        total += i % 2 ? bytes[i] : bytes[i] << 8;
    while (total >> 16)
        total = (total & 0xffff) + (total >> 16);
    return total;
}

Octets reth(std::uint64_t va, std::uint32_t rkey, std::uint32_t length)
{
    Octets out;
    put(out, va, 8);
    put(out, rkey, 4);
    put(out, length, 4);
    return out;
}

Octets atomic_eth(std::uint64_t va, std::uint32_t rkey, std::uint64_t swap_add,
                  std::uint64_t compare)
{
    Octets out;
    put(out, va, 8);
    put(out, rkey, 4);
    put(out, swap_add, 8);
    put(out, compare, 8);
    return out;
}

Octets aeth(std::uint8_t syndrome, std::uint32_t msn)
{
    Octets out;
    put(out, syndrome, 1);
    put(out, msn, 3);
    return out;
}

Octets atomic_ack_eth(std::uint64_t original)
{
    Octets out;
    put(out, original, 8);
    return out;
}

Octets word(std::uint32_t value)
{
    Octets out;
    put(out, value, 4);
    return out;
}

Octets deth(std::uint32_t qkey, std::uint32_t sqpn)
{
    Octets out;
    put(out, qkey, 4);
    put(out, sqpn & kMask24, 4);
    return out;
}

Octets operator+(Octets left, const Octets &right)
{
    left.insert(left.end(), right.begin(), right.end());
    return left;
}

std::optional<std::size_t> extension_length(std::uint8_t opcode)
{
    std::uint8_t service = opcode & 0xe0;
    std::size_t xrc = service == kXrc ? 4 : 0;
    if (service == kUd)
        return opcode == (kUd | kSendOnly)      ? std::optional<std::size_t>(8)
               : opcode == (kUd | kSendOnlyImm) ? std::optional<std::size_t>(12)
                                                : std::nullopt;
    if (opcode == (kCnp | 1))
        return 16;
    if (service != kRc && service != kUc && service != kXrc)
        return std::nullopt;
    if (service == kUc && (opcode & 0x1f) > kWriteOnlyImm)
        return std::nullopt;
    switch (opcode & 0x1f) {
    case kSendFirst:
    case kSendMiddle:
    case kSendLast:
    case kSendOnly:
    case kWriteMiddle:
    case kWriteLast: return xrc;
    case kSendLastImm:
    case kSendOnlyImm:
    case kWriteLastImm:
    case kSendLastInv:
    case kSendOnlyInv: return xrc + 4;
    case kWriteFirst:
    case kWriteOnly:
    case kReadRequest: return xrc + 16;
    case kWriteOnlyImm: return xrc + 20;
    case kCompareSwap:
    case kFetchAdd: return xrc + 28;
    case kReadFirst:
    case kReadLast:
    case kReadOnly:
    case kAck: return 4;
    case kReadMiddle: return 0;
    case kAtomicAck: return 12;
    case kAtomicWrite: return service == kRc ? std::optional<std::size_t>(16) : std::nullopt;
    default: return std::nullopt;
    }
}

Octets encode(const Route &route, const Packet &p)
{
    std::size_t body = p.extension.size() + p.payload.size();
    auto pad = static_cast<std::uint8_t>((4 - body % 4) % 4);
    std::size_t udp_length = 8 + kBth + body + pad + kIcrc;
    udp_length -= std::min(udp_length, p.cut);

    Octets out;
    out.reserve(kEthernet + 60 + udp_length);
    put_ethernet(out, route);
    put_ip(out, route, p, udp_length);
    std::size_t end = out.size() + udp_length;
    put(out, p.source_port, 2);
    put(out, p.target_port, 2);
    put(out, static_cast<std::uint64_t>(static_cast<std::int64_t>(udp_length) + p.udp_more), 2);
    put(out, 0, 2);
    put_bth(out, p, pad);
    out.insert(out.end(), p.extension.begin(), p.extension.end());
    out.insert(out.end(), p.payload.begin(), p.payload.end());
    out.resize(out.size() + pad + kIcrc);
    out.resize(end);

    repair_ip(out);
    auto at = layout(out);
    if (!at)
        return out;
    repair_icrc(out);
    for (std::size_t i = 0; i < kIcrc; i++)
        out[at->end - kIcrc + i] ^= static_cast<std::uint8_t>(p.icrc_error >> (8 * i));
    if (p.udp_checksum) {
        std::uint32_t check = ~udp_sum(out, *at) & 0xffff;
        set16(out, at->udp + 6, (check ? check : 0xffff) ^ p.udp_checksum_error);
    }
    return out;
}

void repair_icrc(Octets &frame)
{
    auto at = layout(frame);
    if (!at)
        return;
    std::uint32_t value = icrc(frame, *at);
    for (std::size_t i = 0; i < kIcrc; i++)
        frame[at->end - kIcrc + i] = static_cast<std::uint8_t>(value >> (8 * i));
}

void repair_ip(Octets &frame)
{
    if (frame.size() < kEthernet + 20 || get(frame, 12, 2) != 0x0800)
        return;
    std::size_t header = std::min<std::size_t>((frame[kEthernet] & 15) * 4U,
                                               frame.size() - kEthernet);
    if (header < 20)
        return;
    set16(frame, kEthernet + 10, 0);
    set16(frame, kEthernet + 10,
          ~internet_sum(std::span(frame).subspan(kEthernet, header)) & 0xffff);
}

std::uint32_t Received::number(std::size_t offset, std::size_t bytes) const
{
    return static_cast<std::uint32_t>(get(packet.extension, offset, bytes));
}

namespace {

void read_ip(Received &r, const Layout &at)
{
    const Octets &f = r.frame;
    Packet &p = r.packet;
    if (at.v6) {
        p.tos = static_cast<std::uint8_t>(get(f, at.ip, 2) >> 4);
        p.flow_label = get(f, at.ip, 4) & 0xfffff;
        p.ttl = f[at.ip + 7];
        std::copy_n(f.begin() + at.ip + 8, 16, r.route.source.begin());
        std::copy_n(f.begin() + at.ip + 24, 16, r.route.target.begin());
        r.ip_checksum_ok = true;
        return;
    }
    p.tos = f[at.ip + 1];
    p.ip_id = static_cast<std::uint16_t>(get(f, at.ip + 4, 2));
    p.fragment = static_cast<std::uint16_t>(get(f, at.ip + 6, 2));
    p.ttl = f[at.ip + 8];
    p.ip_options.assign(f.begin() + at.ip + 20, f.begin() + at.udp);
    for (Address *address : {&r.route.source, &r.route.target})
        (*address)[10] = (*address)[11] = 0xff;
    std::copy_n(f.begin() + at.ip + 12, 4, r.route.source.begin() + 12);
    std::copy_n(f.begin() + at.ip + 16, 4, r.route.target.begin() + 12);
    r.ip_checksum_ok = internet_sum(std::span(f).subspan(at.ip, at.udp - at.ip)) == 0xffff;
}

void read_bth(Received &r, const Layout &at)
{
    const Octets &f = r.frame;
    Packet &p = r.packet;
    p.opcode = f[at.bth];
    p.solicited = f[at.bth + 1] & 0x80;
    p.migrated = f[at.bth + 1] & 0x40;
    p.pad = f[at.bth + 1] >> 4 & 3;
    p.version = f[at.bth + 1] & 15;
    p.pkey = static_cast<std::uint16_t>(get(f, at.bth + 2, 2));
    p.fecn = f[at.bth + 4] & 0x80;
    p.becn = f[at.bth + 4] & 0x40;
    p.reserved_byte = f[at.bth + 4] & 0x3f;
    p.qpn = static_cast<std::uint32_t>(get(f, at.bth + 5, 3));
    p.ack = f[at.bth + 8] & 0x80;
    p.reserved_seven = f[at.bth + 8] & 0x7f;
    p.psn = static_cast<std::uint32_t>(get(f, at.bth + 9, 3));
}

} // namespace

std::optional<Received> decode(const Octets &frame)
{
    auto at = layout(frame);
    if (!at || get(frame, at->udp + 2, 2) != kPort)
        return std::nullopt;
    Received r{frame, {}, false, false, 0, {}};
    std::copy_n(frame.begin(), 6, r.route.target_mac.begin());
    std::copy_n(frame.begin() + 6, 6, r.route.source_mac.begin());
    read_ip(r, *at);
    r.packet.source_port = static_cast<std::uint16_t>(get(frame, at->udp, 2));
    r.udp_checksum = static_cast<std::uint16_t>(get(frame, at->udp + 6, 2));
    r.packet.udp_checksum = r.udp_checksum;
    r.packet.udp_checksum_error = r.udp_checksum && udp_sum(frame, *at) != 0xffff;
    read_bth(r, *at);
    std::size_t extension = extension_length(r.packet.opcode).value_or(0);
    std::size_t pad = r.packet.pad.value_or(0);
    std::size_t body = at->bth + kBth;
    if (body + extension + pad + kIcrc > at->end)
        return std::nullopt;
    r.packet.extension.assign(frame.begin() + body, frame.begin() + body + extension);
    r.packet.payload.assign(frame.begin() + body + extension,
                            frame.begin() + at->end - kIcrc - pad);
    std::uint32_t value = icrc(frame, *at);
    r.icrc_ok = true;
    for (std::size_t i = 0; i < kIcrc; i++)
        r.icrc_ok &= frame[at->end - kIcrc + i] == static_cast<std::uint8_t>(value >> (8 * i));
    return r;
}

std::string describe(const Packet &p)
{
    std::array<char, 200> text{};
    std::snprintf(text.data(), text.size(),
                  "opcode %02x qpn %06x psn %06x%s%s%s%s pkey %04x pad %d, %zu bytes, ext",
                  p.opcode, p.qpn, p.psn, p.ack ? " A" : "", p.solicited ? " SE" : "",
                  p.migrated ? "" : " !M", p.becn ? " BECN" : "", p.pkey, p.pad.value_or(255),
                  p.payload.size());
    std::string out = text.data();
    for (std::size_t i = 0; i < p.extension.size(); i++) {
        std::snprintf(text.data(), text.size(), i % 4 ? "%02x" : " %02x", p.extension[i]);
        out += text.data();
    }
    return out;
}

std::uint32_t credits_of(std::uint8_t code)
{
    if (code < 2)
        return code;
    return code % 2 ? 3U << ((code - 3) / 2) : 1U << (code / 2);
}

std::uint8_t credit_code(std::uint32_t receives)
{
    std::uint8_t code = 30;
    while (credits_of(code) > receives)
        code--;
    return code;
}

std::uint32_t rnr_microseconds(std::uint8_t code)
{
    // Volume 1, table "Encoding for RNR NAK Timer Field": 0.01 ms, 0.02 ms, then the series of the
    // credit codes.
    if (code == 0)
        return 655360;
    return code <= 4 ? code * 10U : (code % 2 ? 3U << (code / 2 - 1) : 1U << (code / 2)) * 10U;
}

} // namespace wire
