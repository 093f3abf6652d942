// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// A reliable connection with the device as responder.
#pragma once

#include "line.h"

namespace wire {

class RcResponder : public WireTest {
protected:
    void SetUp() override
    {
        WireTest::SetUp();
        open();
    }

    Octets at(std::size_t offset, std::uint32_t length) const
    {
        return reth(target.address(offset), target.rkey(), length);
    }

    /// Checks that the device executes and acknowledges @p packet.
    void accepted(const Packet &packet, std::uint32_t messages = 1)
    {
        line->msn = psn_add(line->msn, messages);
        ASSERT_TRUE(line->answers(packet, line->ack(packet.psn)));
        line->psn = psn_add(packet.psn, 1);
    }

    /// Checks that @p packet ends the connection: the NAK has the expected PSN, the QP goes to ERR,
    /// and @p event is raised (-1: the case itself checks a receive completion instead).
    void refused(const Packet &packet, std::uint8_t syndrome, int event)
    {
        ASSERT_TRUE(line->answers(packet, line->nak(syndrome, line->psn)));
        ASSERT_TRUE(line->qp.reaches(IBV_QPS_ERR));
        if (event >= 0)
            end.context.wait_event(static_cast<ibv_event_type>(event), line->qp.get());
        // A QP in ERR does not respond (10.3.1, table of states).
        line->send(line->request(kWriteOnly, reth(0, 0, 0)));
        ASSERT_EQ(peer.drain(), 0U);
    }
    void invalid(const Packet &packet) { refused(packet, kNakInvalid, IBV_EVENT_QP_REQ_ERR); }
    void no_access(const Packet &packet) { refused(packet, kNakAccess, IBV_EVENT_QP_ACCESS_ERR); }

    Packet read_answer(std::uint8_t op, std::uint32_t psn, Octets payload)
    {
        return line->from_device(op, psn,
                                 op == kReadMiddle ? Octets{} : aeth(line->credits(), line->msn),
                                 std::move(payload));
    }

    /// Checks all responses to a READ of @p length bytes, which are @p data.
    void read_answered(std::uint32_t psn, std::size_t length, const Octets &data)
    {
        std::size_t count = std::max<std::size_t>(1, (length + kMtu - 1) / kMtu);
        for (std::size_t i = 0; i < count; i++) {
            std::uint8_t op = count == 1       ? kReadOnly
                              : i == 0         ? kReadFirst
                              : i == count - 1 ? kReadLast
                                               : kReadMiddle;
            std::size_t from = i * kMtu;
            std::size_t to = std::min(length, from + kMtu);
            ASSERT_TRUE(line->gets(read_answer(op, psn_add(psn, static_cast<std::int64_t>(i)),
                                               {data.begin() + static_cast<std::ptrdiff_t>(from),
                                                data.begin() + static_cast<std::ptrdiff_t>(to)})))
                << "response " << i;
        }
    }
};

} // namespace wire
