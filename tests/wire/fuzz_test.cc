// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Packets that nobody should send, to live QPs of all services: valid ones with some of their
/// fields changed and the ICRC repaired, and raw bytes; to QP 1, too, from any address. What must
/// hold: nothing is written but where the peer may write, QPs that are not its victims work on, new
/// ones can be made, and the RDMA CM connects.
///
/// ROX_SEED repeats the choices of a run (QP numbers and keys are the device's own and differ);
/// ROX_PACKETS says how many packets are sent.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>

#include <unistd.h>

#include "lib/cm_witness.h"
#include "lib/line.h"
#include "lib/random.h"

#include "../verbs/lib/xrc.h"

using namespace wire;

namespace {

constexpr std::size_t kBatch = 192;
/// Batches between two looks at those who must not notice anything.
constexpr std::size_t kLookEvery = 8;
/// Packets between two signs of life.
constexpr std::uint64_t kSayEvery = 25000;
constexpr std::size_t kGuard = 64;
constexpr std::size_t kSlot = 1024;
constexpr std::size_t kReceives = 24;
constexpr std::uint32_t kVictimQpn = 0x00f000;

/// Memory that the peer may reach, but for its edges.
struct Prey {
    explicit Prey(const vt::End &end)
        : memory(1 << 16),
          mr(vt::reg_mr(end.pd.get(), memory.data() + kGuard, memory.size() - 2 * kGuard)),
          read_only(end.buffer(4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)),
          inbox(end.buffer(1 << 20))
    {
        std::fill(memory.bytes().begin(), memory.bytes().end(), 0x5a);
        vt::fill(read_only.bytes(), 99);
        std::fill(inbox.bytes().begin(), inbox.bytes().end(), 0xa5);
    }

    std::uint64_t address(std::size_t offset = 0) const
    {
        return reinterpret_cast<std::uintptr_t>(memory.data()) + kGuard + offset;
    }
    ibv_sge slot(std::size_t i) const
    {
        return inbox.sge(i % (inbox.size() / kSlot) * kSlot, kSlot - kGuard);
    }

    testing::AssertionResult unharmed() const
    {
        auto whole = vt::all(memory.bytes().first(kGuard), 0x5a);
        if (whole)
            whole = vt::all(memory.bytes().last(kGuard), 0x5a);
        if (whole)
            whole = vt::filled(read_only.bytes(), 99);
        for (std::size_t end = kSlot; whole && end <= inbox.size(); end += kSlot)
            whole = vt::all(inbox.bytes(end - kGuard, kGuard), 0xa5);
        return whole;
    }

    vt::Memory memory;
    vt::MrHandle mr;
    vt::Buffer read_only;
    vt::Buffer inbox;
};

/// A QP that has it coming, with what the peer believes about its state.
struct Victim {
    std::unique_ptr<Line> line;
    ibv_qp_type type = IBV_QPT_RC;
    bool asks = false;             ///< it has requests of its own outstanding
    std::uint8_t under_way = 0xff; ///< the FIRST of our message under way
    std::uint32_t asked = 0;       ///< PSN of its newest request
    std::uint8_t asked_op = kSendOnly;
    std::uint32_t asked_length = 0;
};

class Fuzz : public WireTest {
protected:
    void SetUp() override
    {
        WireTest::SetUp();
        end.send_cq = vt::Cq(end.context.get(), 1 << 15);
        end.recv_cq = vt::Cq(end.context.get(), 1 << 15);
        xrcd = vt::open_xrcd(end.context.get());
        xsrq = std::make_unique<vt::XrcSrq>(end.pd.get(), xrcd.get(), end.recv_cq.get(), 256);
        srq = std::make_unique<vt::Srq>(end.pd.get(), 256);
        prey = std::make_unique<Prey>(end);
    }
    void TearDown() override
    {
        victims.clear();
        bystander.reset();
        WireTest::TearDown();
        left.qp.reset();
        right.qp.reset();
        xsrq.reset();
        srq.reset();
        prey.reset();
    }

    /// @name Victims
    /// @{
    void make_victims();
    ibv_qp *make_qp(std::size_t index);
    void revive(std::size_t index);
    void feed(Victim &victim);
    /// @}

    /// @name Packets
    /// @{
    Packet valid_request(Victim &victim);
    Packet valid_response(Victim &victim);
    Packet valid_datagram(Victim &victim);
    Packet datagram_to_gsi(Victim &victim);
    Packet valid(Victim &victim);
    void mutate(Packet &packet);
    void mutate_extension(Packet &packet);
    Octets garbage(const Victim &victim);
    void forge(Address &source);
    Octets frame(Victim &victim);
    /// @}

    void batch();
    void learn();
    void bystanders_work();
    void throw_away(ibv_cq *cq);

    Random random{0};
    vt::Xrcd xrcd;
    std::unique_ptr<vt::XrcSrq> xsrq;
    std::unique_ptr<vt::Srq> srq;
    std::unique_ptr<Prey> prey;
    std::vector<Victim> victims;

    // Those who must not notice: two QPs without a wire and one with, in PDs of their own, and the
    // RDMA CM.
    vt::End left{vt::device_a()};
    vt::End right{vt::device_a()};
    std::unique_ptr<Line> bystander;
    CmWitness cm;
    vt::Buffer left_memory = left.buffer(1 << 14);
    vt::Buffer right_memory = right.buffer(1 << 14);

    unsigned gsi_opcode = 0;
    std::uint64_t gsi_sent = 0;
    std::uint64_t sent = 0, answers = 0, revived = 0, completions = 0, looks = 0;
    std::map<int, std::uint64_t> naks;
};

// ---- victims ----

struct Kind {
    ibv_qp_type type;
    bool asks, with_srq;
};

constexpr std::array kKinds = {
    Kind{IBV_QPT_RC, false, false},      Kind{IBV_QPT_RC, false, false},
    Kind{IBV_QPT_RC, true, false},       Kind{IBV_QPT_RC, true, false},
    Kind{IBV_QPT_RC, false, true},       Kind{IBV_QPT_UC, false, false},
    Kind{IBV_QPT_UC, false, true},       Kind{IBV_QPT_UD, false, false},
    Kind{IBV_QPT_UD, false, true},       Kind{IBV_QPT_XRC_RECV, false, true},
    Kind{IBV_QPT_XRC_SEND, true, false},
};
constexpr std::size_t kVictims = 2 * kKinds.size();

vt::Params params_of(std::size_t index)
{
    vt::Params params = calm();
    params.family = index < kKinds.size() ? vt::Family::V4 : vt::Family::V6;
    params.timeout = 13;
    params.rnr_retry = 2;
    params.peer_psn = index % 3 ? 0xfffff0 : 0x4321;
    params.psn = index % 3 == 1 ? 0xfffff0 : 0x1234;
    return params;
}

ibv_qp *Fuzz::make_qp(std::size_t index)
{
    const Kind &kind = kKinds[index % kKinds.size()];
    if (kind.type == IBV_QPT_XRC_RECV)
        return vt::xrc_target(end.context.get(), xrcd.get());
    if (kind.type == IBV_QPT_XRC_SEND)
        return vt::xrc_initiator(end.pd.get(), end.send_cq.get());
    vt::QpConfig config;
    config.type = kind.type;
    config.srq = kind.with_srq ? srq->get() : nullptr;
    ibv_qp_init_attr init = config.attr(end.send_cq.get(), end.recv_cq.get());
    return vt::need(ibv_create_qp(end.pd.get(), &init), "ibv_create_qp");
}

void Fuzz::make_victims()
{
    victims.resize(kVictims);
    for (std::size_t i = 0; i < kVictims; i++) {
        victims[i].type = kKinds[i % kKinds.size()].type;
        victims[i].asks = kKinds[i % kKinds.size()].asks;
        revive(i);
    }
}

/// Half of the time by way of RESET, else another QP takes its place.
void Fuzz::revive(std::size_t index)
{
    Victim &victim = victims[index];
    if (victim.line && random.once_in(2)) {
        vt::check(victim.line->qp.move(IBV_QPS_RESET), "to RESET");
        victim.line->connect();
    } else {
        victim.line.reset();
        victim.line = std::make_unique<Line>(end, peer, make_qp(index), params_of(index),
                                             kVictimQpn + static_cast<std::uint32_t>(index));
    }
    victim.under_way = 0xff;
    victim.asked = victim.line->device_psn;
    revived++;
}

/// What it needs to go on: receives, and work of its own if it asks.
void Fuzz::feed(Victim &victim)
{
    vt::Qp &qp = victim.line->qp;
    bool receives = victim.type != IBV_QPT_XRC_RECV && victim.type != IBV_QPT_XRC_SEND && !qp->srq;
    for (std::size_t i = 0; receives && i < kReceives; i++)
        if (qp.try_post_recv(i, {prey->slot(random.below(kSlot))}))
            break;
    if (!victim.asks)
        return;
    vt::Remote remote{0x10000, 0x77};
    ibv_sge sge = prey->slot(random.below(kSlot));
    std::uint32_t number = xsrq->number();
    for (int i = 0; i < 4; i++) {
        ibv_sge some = sge;
        some.length = static_cast<std::uint32_t>(random.below(kSlot - kGuard));
        ibv_sge eight = sge;
        eight.length = 8;
        vt::SendWr wr = random.once_in(4)   ? vt::SendWr::send({some})
                        : random.once_in(3) ? vt::SendWr::write({some}, remote)
                        : random.once_in(2) ? vt::SendWr::read({some}, remote)
                                            : vt::SendWr::fetch_add(eight, remote, 1);
        if (victim.type == IBV_QPT_XRC_SEND)
            wr = vt::to_srq(wr, number);
        if (qp.try_post(std::move(wr)))
            break;
    }
}

// ---- packets ----

Packet Fuzz::valid_request(Victim &victim)
{
    Line &line = *victim.line;
    bool xrc = victim.type == IBV_QPT_XRC_RECV;
    bool reliable = victim.type != IBV_QPT_UC;
    Octets name = xrc ? word(xsrq->number()) : Octets{};
    std::uint32_t length = static_cast<std::uint32_t>(random.below(2 * kMtu));
    std::size_t offset = random.below(4096) & ~7UL;
    Octets target = reth(prey->address(offset), prey->mr->rkey, length);
    std::uint32_t psns = 1;
    Packet packet;
    auto make = [&](std::uint8_t op, const Octets &extension, std::size_t bytes) {
        packet = line.request(op, name + extension, pattern(bytes, random.next()));
    };
    if (victim.under_way != 0xff && !random.once_in(8)) {
        bool send = victim.under_way == kSendFirst;
        bool last = random.once_in(2);
        make(send ? (last ? kSendLast : kSendMiddle) : (last ? kWriteLast : kWriteMiddle), {},
             kMtu);
        if (last)
            victim.under_way = 0xff;
    } else {
        switch (random.below(reliable ? 10 : 6)) {
        case 0: make(kSendOnly, {}, random.below(kMtu + 1)); break;
        case 1: make(kSendOnlyImm, word(0x1234), random.below(kMtu + 1)); break;
        case 2: make(kWriteOnly, reth(prey->address(offset), prey->mr->rkey, 100), 100); break;
        case 3:
            make(kWriteOnlyImm, reth(prey->address(offset), prey->mr->rkey, 9) + word(1), 9);
            break;
        case 4: make(victim.under_way = kSendFirst, {}, kMtu); break;
        case 5:
            make(victim.under_way = kWriteFirst,
                 reth(prey->address(offset), prey->mr->rkey,
                      kMtu * static_cast<std::uint32_t>(2 + random.below(3))),
                 kMtu);
            break;
        case 6:
        case 7:
            make(kReadRequest, target, 0);
            psns = std::max(1U, (length + kMtu - 1) / kMtu);
            break;
        case 8:
            make(random.one_of<std::uint8_t>({kFetchAdd, kCompareSwap}),
                 atomic_eth(prey->address(offset), prey->mr->rkey, random.next(), 0), 0);
            break;
        default:
            if (xrc)
                make(kSendOnlyInv, word(prey->mr->rkey), 8);
            else
                make(kAtomicWrite, reth(prey->address(offset), prey->mr->rkey, 8), 8);
            break;
        }
    }
    packet.ack = random.once_in(2);
    line.psn = psn_add(line.psn, psns);
    return packet;
}

/// To the victim's newest request, or to one before it.
Packet Fuzz::valid_response(Victim &victim)
{
    Line &line = *victim.line;
    std::uint32_t psn = psn_add(victim.asked, -static_cast<std::int64_t>(random.below(3)));
    std::uint32_t msn = static_cast<std::uint32_t>(random.below(8));
    std::uint8_t nak = random.one_of<std::uint8_t>(
        {kNakSequence, kNakSequence, kRnrNak, static_cast<std::uint8_t>(kRnrNak | 1), kNakAccess,
         kNakInvalid, kNakOperation, kNakInvalidRd});
    std::uint8_t credit = static_cast<std::uint8_t>(random.below(32));
    switch (random.below(8)) {
    case 0: return line.ack_of(psn, msn, nak);
    case 1:
        return line.response(kAtomicAck, psn, aeth(credit, msn) + atomic_ack_eth(random.next()));
    case 2:
        return line.response(kReadOnly, psn, aeth(credit, msn), pattern(random.below(kMtu + 1), 1));
    case 3: return line.response(kReadFirst, psn, aeth(credit, msn), pattern(kMtu, 1));
    case 4: return line.response(kReadMiddle, psn, {}, pattern(kMtu, 1));
    case 5:
        return line.response(kReadLast, psn, aeth(credit, msn),
                             pattern(std::min(kMtu, victim.asked_length), 1));
    default: return line.ack_of(psn, msn, credit);
    }
}

/// To QP 1: 0 to 4,096 bytes, each second time those of a MAD, and each opcode in its turn.
Packet Fuzz::datagram_to_gsi(Victim &victim)
{
    const bool mad = random.once_in(2);
    const std::uint8_t op = victim.line->service() | (random.once_in(3) ? kSendOnlyImm : kSendOnly);
    Octets head = deth(0x80010000, 1);
    Packet packet = victim.line->request(kSendOnly, head,
                                         pattern(mad ? 256 : random.below(4097), random.next()));
    packet.qpn = 1;
    packet.opcode = random.once_in(2) ? op : static_cast<std::uint8_t>(gsi_opcode++);
    if (packet.opcode == (kUd | kSendOnlyImm))
        packet.extension = head + word(1);
    // A header of a class that has an agent, else the MAD goes no further.
    if (mad && !random.once_in(4)) {
        const Octets header{1, random.one_of<std::uint8_t>({3, 4, 7}), 2, random.byte()};
        std::copy(header.begin(), header.end(), packet.payload.begin());
        packet.payload[17] = static_cast<std::uint8_t>(random.once_in(4) ? random.byte()
                                                                         : 0x10 + random.below(12));
    }
    gsi_sent++;
    return packet;
}

Packet Fuzz::valid_datagram(Victim &victim)
{
    if (random.once_in(4))
        return datagram_to_gsi(victim);
    Octets head = deth(calm().qkey, kPeerQpn);
    bool imm = random.once_in(3);
    Packet packet = victim.line->request(imm ? kSendOnlyImm : kSendOnly,
                                         imm ? head + word(1) : head,
                                         pattern(random.below(900), random.next()));
    packet.ack = false;
    victim.line->psn++;
    return packet;
}

Packet Fuzz::valid(Victim &victim)
{
    if (victim.type == IBV_QPT_UD)
        return valid_datagram(victim);
    if (victim.type == IBV_QPT_XRC_SEND || (victim.asks && !random.once_in(4)))
        return valid_response(victim);
    return valid_request(victim);
}

/// Numbers near those that code compares with.
std::uint32_t edge(Random &random, std::uint32_t value)
{
    switch (random.below(8)) {
    case 0: return 0;
    case 1: return ~0U;
    case 2: return 0x80000000U;
    case 3: return 0x7fffffffU;
    case 4: return value + 1;
    case 5: return value - 1;
    case 6: return value ^ 1U << random.below(32);
    default: return static_cast<std::uint32_t>(random.next());
    }
}

/// A 32 bit word of the extended headers, or how long they are.
void Fuzz::mutate_extension(Packet &packet)
{
    Octets &bytes = packet.extension;
    if (random.once_in(4)) {
        bytes.resize(random.below(40));
        return;
    }
    if (bytes.size() < 4)
        return;
    std::size_t at = random.below(bytes.size() / 4) * 4;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; i++)
        value = value << 8 | bytes[at + i];
    Octets changed = word(edge(random, value));
    std::copy(changed.begin(), changed.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
}

void Fuzz::mutate(Packet &packet)
{
    const Victim &other = victims[random.below(victims.size())];
    switch (random.below(22)) {
    case 0: packet.opcode = random.byte(); break;
    case 1:
    case 2:
        packet.opcode = static_cast<std::uint8_t>((packet.opcode & 0xe0) | random.below(32));
        break;
    case 3:
    case 4: packet.psn = psn_add(packet.psn, static_cast<std::int64_t>(random.below(9)) - 4); break;
    case 5: packet.psn = edge(random, packet.psn) & kMask24; break;
    case 6: packet.qpn = other.line->qp.number(); break;
    case 7:
        packet.qpn = random.one_of<std::uint32_t>({0, 1, kMask24, packet.qpn ^ 0x800000});
        break;
    case 8: packet.pkey = random.one_of<std::uint16_t>({0, 0x7fff, 0x8000, 0x8001, 0xfffe}); break;
    case 9: packet.pad = static_cast<std::uint8_t>(random.below(4)); break;
    case 10: packet.version = static_cast<std::uint8_t>(random.below(16)); break;
    case 11:
        packet.payload.resize(random.one_of<std::size_t>(
            {0, 1, 3, 8, kMtu - 1, kMtu, kMtu + 1, 2 * kMtu, 4096, 4100, 8000}));
        break;
    case 12: packet.payload.resize(random.below(600)); break;
    case 13: packet.cut = random.below(60); break;
    case 14: packet.udp_more = static_cast<std::int32_t>(random.below(100)) - 50; break;
    case 15: packet.icrc_error = 1U << random.below(32); break;
    case 16: packet.ip_options.resize(4 * random.below(11), 1); break;
    case 17: packet.fragment = static_cast<std::uint16_t>(random.next()); break;
    case 18:
        packet.solicited ^= random.once_in(2);
        packet.migrated ^= random.once_in(2);
        packet.fecn ^= random.once_in(2);
        packet.becn ^= random.once_in(2);
        packet.ack ^= random.once_in(2);
        packet.reserved_byte = random.byte();
        packet.reserved_seven = random.byte();
        break;
    case 19:
        packet.tos = random.byte();
        packet.ttl = random.one_of<std::uint8_t>({0, 1, 255});
        packet.udp_checksum = true;
        packet.udp_checksum_error = random.once_in(2);
        break;
    default: mutate_extension(packet); break;
    }
}

/// Random bytes behind good headers, as many of them as the dice say.
Octets Fuzz::garbage(const Victim &victim)
{
    Packet packet = victim.line->request(random.byte());
    Octets bytes = victim.line->frame(packet);
    std::size_t udp = victim.line->route().source[0] ? 54 : 34;
    std::size_t from = random.one_of<std::size_t>({14, udp, udp + 8, udp + 8});
    bytes.resize(std::max(from, bytes.size() + random.below(300)) - random.below(12));
    for (std::size_t i = from; i < bytes.size(); i++)
        bytes[i] = random.byte();
    return bytes;
}

/// Mostly an address on the link or off it; with IPv6 also link-local ones.
void Fuzz::forge(Address &source)
{
    const bool v6 = source[0] != 0;
    switch (random.below(4)) {
    case 0: source[15] ^= 1 + random.below(255); break;
    case 1: source[v6 ? random.below(8) : 12] ^= 1 + random.below(255); break;
    case 2:
        if (v6)
            source = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, random.byte(), random.byte()};
        else
            source[13] ^= 1 + random.below(255);
        break;
    default: break;
    }
}

Octets Fuzz::frame(Victim &victim)
{
    if (random.once_in(12))
        return garbage(victim);
    std::uint32_t psn = victim.line->psn;
    std::uint8_t under_way = victim.under_way;
    Packet packet = valid(victim);
    if (random.once_in(3)) {
        for (std::size_t n = 1 + random.below(3); n; n--)
            mutate(packet);
        // Mostly it is dropped, and the sequence goes on where it was.
        if (!random.once_in(4)) {
            victim.line->psn = psn;
            victim.under_way = under_way;
        }
    }
    const Route honest = victim.line->route();
    if (packet.qpn == 1)
        forge(victim.line->route().source);
    Octets bytes = victim.line->frame(packet);
    victim.line->route() = honest;
    if (!random.once_in(12))
        return bytes;
    for (std::size_t n = 1 + random.below(4); n; n--)
        bytes[14 + random.below(bytes.size() - 14)] ^= 1U << random.below(8);
    if (!random.once_in(4)) {
        repair_ip(bytes);
        repair_icrc(bytes);
    }
    return bytes;
}

// ---- rounds ----

void Fuzz::throw_away(ibv_cq *cq)
{
    std::array<ibv_wc, 64> wcs{};
    int n = 0;
    while ((n = ibv_poll_cq(cq, wcs.size(), wcs.data())) > 0)
        completions += static_cast<std::uint64_t>(n);
    ASSERT_EQ(n, 0);
}

/// What the victims say tells where they are.
void Fuzz::learn()
{
    while (auto came = peer.receive(vt::Millis(0))) {
        answers++;
        ASSERT_TRUE(came->icrc_ok);
        ASSERT_TRUE(came->ip_checksum_ok);
        std::size_t index = came->packet.qpn - kVictimQpn;
        if (index >= victims.size())
            continue;
        Victim &victim = victims[index];
        std::uint8_t op = came->packet.opcode & 0x1f;
        if (op == kAck) {
            std::uint8_t kind = came->syndrome() & 0x60;
            naks[kind ? came->syndrome() & 0x67 : 0]++;
            victim.line->psn = psn_add(came->packet.psn, kind ? 0 : 1);
            if (kind)
                victim.under_way = 0xff;
        } else if (op < kReadFirst || op > kAtomicAck) {
            victim.asked = came->packet.psn;
            victim.asked_op = op;
            if (op == kReadRequest)
                victim.asked_length = came->number(came->packet.extension.size() - 4, 4);
        }
    }
}

void Fuzz::batch()
{
    for (std::size_t i = 0; i < victims.size(); i++) {
        if (victims[i].line->qp.state() != IBV_QPS_RTS)
            revive(i);
        feed(victims[i]);
    }
    for (std::size_t i = 0; i < 16; i++) {
        srq->try_post(i, {prey->slot(random.below(kSlot))});
        xsrq->try_post(i, {prey->slot(random.below(kSlot))});
    }
    learn();
    std::vector<Octets> frames;
    while (frames.size() < kBatch) {
        Octets bytes = frame(victims[random.below(victims.size())]);
        // Ethernet's own limits are those of the socket.
        if (bytes.size() >= 15 && bytes.size() <= 9000)
            frames.push_back(std::move(bytes));
    }
    peer.send_all(frames);
    sent += frames.size();
    learn();
    throw_away(end.send_cq.get());
    throw_away(end.recv_cq.get());
    while (end.context.next_event(vt::Millis(0)))
        continue;
}

void Fuzz::bystanders_work()
{
    looks++;
    ASSERT_TRUE(prey->unharmed());
    std::size_t length = 1 + random.below(4096);
    vt::fill(left_memory.bytes(0, length), looks);
    right.qp->post_recv(1, {right_memory.sge(0, 4096)});
    left.qp->post(
        {vt::SendWr::send({left_memory.sge(0, length)}).id(2),
         vt::SendWr::write({left_memory.sge(0, length)}, vt::remote(right_memory, 4096)).id(3),
         vt::SendWr::read({left_memory.sge(4096, length)}, vt::remote(right_memory, 4096)).id(4)});
    ASSERT_TRUE(vt::is(right.recv_cq.one(), 1, IBV_WC_RECV));
    std::vector<ibv_wc> wcs = left.send_cq.wait(3);
    ASSERT_TRUE(vt::is(wcs[0], 2, IBV_WC_SEND));
    ASSERT_TRUE(vt::is(wcs[1], 3, IBV_WC_RDMA_WRITE));
    ASSERT_TRUE(vt::is(wcs[2], 4, IBV_WC_RDMA_READ));
    ASSERT_TRUE(vt::filled(right_memory.bytes(0, length), looks));
    ASSERT_TRUE(vt::filled(left_memory.bytes(4096, length), looks));

    Octets data = pattern(200, looks);
    Octets where = reth(right_memory.address(8192), right_memory.rkey(), 200);
    bystander->send(bystander->request(kWriteOnly, where, data));
    bystander->msn = psn_add(bystander->msn, 1);
    ASSERT_TRUE(bystander->gets(bystander->ack(bystander->psn)));
    bystander->psn = psn_add(bystander->psn, 1);
    bystander->send(bystander->request(kReadRequest, where));
    bystander->msn = psn_add(bystander->msn, 1);
    ASSERT_TRUE(bystander->gets(bystander->from_device(
        kReadOnly, bystander->psn, aeth(bystander->credits(), bystander->msn), data)));
    bystander->psn = psn_add(bystander->psn, 1);
}

TEST_F(Fuzz, OthersDoNotNotice)
{
    const std::uint64_t seed = vt::variable_number("ROX_SEED", std::random_device{}());
    const std::uint64_t packets = vt::variable_number("ROX_PACKETS", 20000);
    std::printf("ROX_SEED=%llu ROX_PACKETS=%llu\n", static_cast<unsigned long long>(seed),
                static_cast<unsigned long long>(packets));
    RecordProperty("seed", std::to_string(seed));
    SCOPED_TRACE("ROX_SEED=" + std::to_string(seed));
    random = Random(seed);

    left.qp = std::make_unique<vt::Qp>(left.pd.get(), left.send_cq.get(), left.recv_cq.get());
    right.qp = std::make_unique<vt::Qp>(right.pd.get(), right.send_cq.get(), right.recv_cq.get());
    vt::connect(left.context, *left.qp, right.context, *right.qp);
    bystander = std::make_unique<Line>(right, peer);
    bystander->skip_other_qps();
    make_victims();

    vt::Stopwatch watch;
    std::uint64_t said = 0;
    for (std::size_t n = 0; sent < packets; n++) {
        ASSERT_NO_FATAL_FAILURE(batch());
        ASSERT_NO_THROW(cm.connects()) << "after " << sent << " packets";
        if (n % kLookEvery == 0) {
            learn();
            ASSERT_NO_FATAL_FAILURE(bystanders_work()) << "after " << sent << " packets";
            // The limit is for what happens between two looks.
            alarm(30 * static_cast<unsigned>(vt::patience_factor()));
            if (sent >= said + kSayEvery) {
                said = sent;
                std::printf("%llu packets, %lld s\n", static_cast<unsigned long long>(sent),
                            static_cast<long long>(watch.elapsed().count() / 1000));
            }
        }
    }
    ASSERT_NO_FATAL_FAILURE(bystanders_work());
    std::printf(
        "%llu packets in %lld ms, %llu answers, %llu completions, %llu QPs revived, "
        "%llu looks at the others\n",
        static_cast<unsigned long long>(sent), static_cast<long long>(watch.elapsed().count()),
        static_cast<unsigned long long>(answers), static_cast<unsigned long long>(completions),
        static_cast<unsigned long long>(revived), static_cast<unsigned long long>(looks));
    for (auto [syndrome, count] : naks)
        std::printf("syndrome %02x: %llu\n", static_cast<unsigned>(syndrome),
                    static_cast<unsigned long long>(count));
    // It would be no test if nothing got through.
    EXPECT_GT(answers, sent / 10);
    EXPECT_GT(completions, sent / 100);
    EXPECT_GT(gsi_sent, sent / 50);
    EXPECT_TRUE(gsi_opcode >= 256 || packets < 20000) << "not every opcode has come to QP 1";
}

} // namespace
