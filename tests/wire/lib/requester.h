// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// A reliable connection with the device as requester.
#pragma once

#include "line.h"

namespace wire {

/// Target of WRITEs. The peer has no memory there; it only checks the address.
constexpr vt::Remote kRemote{0x123456789abcdef0, 0x55667788};

class RcRequester : public WireTest {
protected:
    void SetUp() override
    {
        WireTest::SetUp();
        open();
    }

    /// An expected packet of the device with AckReq set.
    Packet asking(std::uint8_t op, std::uint32_t psn, Octets extension = {}, Octets payload = {})
    {
        Packet packet = line->from_device(op, psn, std::move(extension), std::move(payload));
        packet.ack = true;
        return packet;
    }
    vt::SendWr send(std::size_t length, std::uint64_t id = 1)
    {
        return vt::SendWr::send({local.sge(0, length)}).id(id);
    }
    /// The expected packets of a SEND or WRITE of the content of @c local. Only the last one has
    /// AckReq (the standard leaves it open for the others).
    std::vector<Packet> message(bool write, std::uint32_t psn, std::size_t length)
    {
        std::vector<Packet> packets;
        std::size_t count = std::max<std::size_t>(1, (length + kMtu - 1) / kMtu);
        for (std::size_t i = 0; i < count; i++) {
            std::size_t from = i * kMtu;
            std::size_t to = std::min(length, from + kMtu);
            bool last = i == count - 1;
            std::uint8_t op = count == 1 ? kSendOnly
                              : !i       ? kSendFirst
                              : last     ? kSendLast
                                         : kSendMiddle;
            packets.push_back(line->from_device(
                write ? op + kWriteFirst : op, psn_add(psn, static_cast<std::int64_t>(i)),
                write && !i
                    ? reth(kRemote.address, kRemote.rkey, static_cast<std::uint32_t>(length))
                    : Octets{},
                {local.data() + from, local.data() + to}));
            packets.back().ack = last;
        }
        return packets;
    }
    void comes(const std::vector<Packet> &packets)
    {
        for (std::size_t i = 0; i < packets.size(); i++)
            ASSERT_TRUE(line->gets(packets[i])) << "packet " << i;
    }
    void acknowledge(std::uint32_t psn) { line->send(line->ack_of(psn, ++answered)); }
    std::uint32_t psn() const { return line->device_psn; }

    /// Checks that the work request completes with @p status and the QP goes to ERR.
    void failed(ibv_wc_status status, std::uint64_t id = 1)
    {
        ASSERT_TRUE(vt::is_error(end.send_cq.one(), id, status));
        ASSERT_TRUE(line->qp.reaches(IBV_QPS_ERR));
    }

    vt::Buffer local = end.buffer(1 << 16);
    std::uint32_t answered = 0;
};

/// A READ of three packets, and the peer's answer to it.
class RcResponses : public RcRequester {
protected:
    void SetUp() override
    {
        RcRequester::SetUp();
        data = pattern(600, 3);
    }
    /// READ of 600 bytes: three packets.
    void ask()
    {
        line->qp.post(vt::SendWr::read({local.sge(0, 600)}, kRemote).id(1));
        ASSERT_TRUE(line->gets(rest_from(0)));
    }
    Packet rest_from(std::uint32_t packet)
    {
        return asking(kReadRequest, psn_add(psn(), packet),
                      reth(kRemote.address + packet * kMtu, kRemote.rkey, 600 - packet * kMtu));
    }
    Packet piece(std::uint8_t op, std::uint32_t packet)
    {
        std::size_t to = std::min<std::size_t>(600, (packet + 1) * kMtu);
        return line->response(op, psn_add(psn(), packet),
                              op == kReadMiddle ? Octets{} : aeth(kNoCredits, 1),
                              {data.begin() + packet * kMtu, data.begin() + static_cast<long>(to)});
    }
    void done()
    {
        ASSERT_TRUE(vt::is(end.send_cq.one(), 1, IBV_WC_RDMA_READ));
        ASSERT_TRUE(vt::filled(local.bytes(0, 600), 3));
        ASSERT_EQ(peer.drain(), 0U);
    }

    Octets data;
};

} // namespace wire
