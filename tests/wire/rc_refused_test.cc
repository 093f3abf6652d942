// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Requests of a reliable connection that are in order and still must not be carried out: IBTA
/// volume 1, 9.7.4.1 (validation of keys and lengths), 9.9.3 (responder's errors).
#include "lib/responder.h"

using namespace wire;
using vt::is_error;

namespace {

// ---- keys: 9.7.4.1, "R_Key validation" (class C: NAK "remote access error") ----

class RcKeys : public RcResponder {
protected:
    /// WRITE, READ and both ATOMICs of that memory: all refused, nothing changed.
    void all_refused(std::uint64_t va, std::uint32_t rkey, std::uint32_t length = 8)
    {
        for (std::uint8_t op : {kWriteOnly, kReadRequest, kFetchAdd, kCompareSwap, kAtomicWrite}) {
            SCOPED_TRACE(int(op));
            open();
            bool atomic = op == kFetchAdd || op == kCompareSwap;
            Octets payload = op == kWriteOnly || op == kAtomicWrite ? pattern(8, 1) : Octets{};
            std::uint32_t bytes = op == kReadRequest ? length : 8;
            no_access(line->request(op, atomic ? atomic_eth(va, rkey, 1, 0) : reth(va, rkey, bytes),
                                    payload));
        }
    }
};

TEST_F(RcKeys, WrongOnes)
{
    for (std::uint32_t rkey :
         {target.rkey() ^ 1, target.rkey() ^ 0x100, target.rkey() ^ 0x80000000, 0U, ~0U}) {
        SCOPED_TRACE(rkey);
        all_refused(target.address(), rkey);
    }
    EXPECT_TRUE(vt::all(target.bytes(0, 64), 0));
}

TEST_F(RcKeys, ThoseOfDeregisteredMemory)
{
    vt::Memory memory(4096);
    vt::MrHandle mr = vt::reg_mr(end.pd.get(), memory.data(), memory.size());
    std::uint32_t rkey = mr->rkey;
    mr.reset();
    all_refused(reinterpret_cast<std::uintptr_t>(memory.data()), rkey);
    EXPECT_TRUE(vt::all(memory.bytes(), 0));
}

TEST_F(RcKeys, ThoseOfAnotherProtectionDomain)
{
    vt::Pd pd = vt::alloc_pd(end.context.get());
    {
        vt::Buffer other(pd.get(), 4096);
        all_refused(other.address(), other.rkey());
        EXPECT_TRUE(vt::all(other.bytes(), 0));
    }
}

TEST_F(RcKeys, OutOfBounds)
{
    vt::Buffer small = end.buffer(4096);
    for (std::uint64_t va :
         {small.address() - 8, small.address() + 4096, 8UL, ~7UL, small.address() ^ (1UL << 63)}) {
        SCOPED_TRACE(va);
        all_refused(va, small.rkey());
    }
    // The last byte of it, or an end beyond 2^64.
    for (auto [va, length] : {std::pair{small.address(1), 4096U},
                              {small.address(4095), 2U},
                              {small.address(), 4097U},
                              {small.address(), 0x80000000U},
                              {~0ULL, 2U}}) {
        open();
        no_access(line->request(kReadRequest, reth(va, small.rkey(), length)));
        open();
        no_access(line->request(kWriteFirst, reth(va, small.rkey(), std::max(length, kMtu + 1)),
                                pattern(kMtu, 1)));
    }
    EXPECT_TRUE(vt::all(small.bytes(), 0));
}

TEST_F(RcKeys, WithoutTheRight)
{
    vt::Buffer deaf = end.buffer(4096, IBV_ACCESS_LOCAL_WRITE);
    all_refused(deaf.address(), deaf.rkey());
    vt::Buffer readable = end.buffer(4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    open();
    no_access(
        line->request(kWriteOnly, reth(readable.address(), readable.rkey(), 8), pattern(8, 1)));
    open();
    no_access(line->request(kFetchAdd, atomic_eth(readable.address(), readable.rkey(), 1, 0)));
    vt::Buffer writable = end.buffer(4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    open();
    no_access(line->request(kReadRequest, reth(writable.address(), writable.rkey(), 8)));
    open();
    no_access(line->request(kCompareSwap, atomic_eth(writable.address(), writable.rkey(), 1, 0)));
    EXPECT_TRUE(vt::all(readable.bytes(), 0));
    EXPECT_TRUE(vt::all(writable.bytes(), 0));
}

// 9.7.4.1: of a request for no bytes the key is not looked at.
TEST_F(RcKeys, NobodyLooksAtTheKeyOfNothing)
{
    accepted(line->request(kWriteOnly, reth(~0ULL, 0xdeadbeef, 0)));
    line->send(line->request(kReadRequest, reth(123, 0xdeadbeef, 0)));
    line->msn++;
    read_answered(line->psn, 0, {});
    line->psn++;
    EXPECT_TRUE(line->alive());
}

// The region goes between the packets of a message.
TEST_F(RcKeys, DeregisteredInTheMiddleOfAWrite)
{
    vt::Memory memory(4096);
    vt::MrHandle mr = vt::reg_mr(end.pd.get(), memory.data(), memory.size());
    Octets data = pattern(kMtu, 1);
    accepted(line->request(
                 kWriteFirst,
                 reth(reinterpret_cast<std::uintptr_t>(memory.data()), mr->rkey, 2 * kMtu), data),
             0);
    mr.reset();
    no_access(line->request(kWriteLast, {}, data));
    EXPECT_TRUE(vt::filled({memory.data(), kMtu}, 1));
    EXPECT_TRUE(vt::all({memory.data() + kMtu, kMtu}, 0));
}

// ---- lengths: 9.7.4.1 (class C: NAK "invalid request") ----

class RcLengths : public RcResponder {
protected:
    /// @p prepare opens a message or does nothing.
    template <typename Prepare, typename Make>
    void each_invalid(std::initializer_list<std::size_t> lengths, Prepare prepare, Make make)
    {
        for (std::size_t length : lengths) {
            SCOPED_TRACE(length);
            open();
            post(1);
            prepare();
            invalid(make(length));
            EXPECT_TRUE(is_error(end.recv_cq.one(), 0, IBV_WC_WR_FLUSH_ERR));
        }
    }
};

// FIRST and MIDDLE have a full payload, LAST at least one byte, and nothing has more than the PMTU.
TEST_F(RcLengths, OfPacketsOfASend)
{
    auto nothing = [] {};
    auto first = [&] {
        line->receives = 0;
        accepted(line->request(kSendFirst, {}, pattern(kMtu, 1)), 0);
    };
    each_invalid({0, 1, 4, 255, 257, 260, 1024}, nothing,
                 [&](auto n) { return line->request(kSendFirst, {}, pattern(n, 1)); });
    each_invalid({257, 260, 4096}, nothing,
                 [&](auto n) { return line->request(kSendOnly, {}, pattern(n, 1)); });
    each_invalid({0, 1, 255, 257, 512}, first,
                 [&](auto n) { return line->request(kSendMiddle, {}, pattern(n, 1)); });
    each_invalid({0, 257, 512}, first,
                 [&](auto n) { return line->request(kSendLast, {}, pattern(n, 1)); });
}

// The RETH says how much comes: 9.7.4.1.
TEST_F(RcLengths, OfAWriteThatAreNotWhatItsHeaderSays)
{
    auto nothing = [] {};
    each_invalid({0, 7, 9, 256}, nothing,
                 [&](auto n) { return line->request(kWriteOnly, at(0, 8), pattern(n, 1)); });
    each_invalid({255, 256}, nothing, [&](auto n) {
        return line->request(kWriteFirst, at(0, static_cast<std::uint32_t>(n)), pattern(kMtu, 1));
    });
    auto first = [&] {
        accepted(line->request(kWriteFirst, at(0, 2 * kMtu), pattern(kMtu, 1)), 0);
    };
    each_invalid({1, 255, 0, 257}, first,
                 [&](auto n) { return line->request(kWriteLast, {}, pattern(n, 1)); });
    each_invalid({256}, first,
                 [&](auto n) { return line->request(kWriteMiddle, {}, pattern(n, 1)); });
    EXPECT_TRUE(vt::all(target.bytes(2 * kMtu, 1024), 0));
}

// 9.7.4.1: no message is longer than 2^31 bytes.
TEST_F(RcLengths, BeyondTwoGibibytes)
{
    for (std::uint32_t length : {0x80000001U, ~0U}) {
        open();
        invalid(line->request(kWriteFirst, at(0, length), pattern(kMtu, 1)));
        open();
        invalid(line->request(kReadRequest, at(0, length)));
    }
}

// 9.4.5: the address of an ATOMIC is a multiple of eight.
TEST_F(RcLengths, AtomicsThatAreNotAligned)
{
    for (std::size_t offset : {1, 2, 4, 7})
        for (std::uint8_t op : {kFetchAdd, kCompareSwap}) {
            open();
            invalid(line->request(op, atomic_eth(target.address(offset), target.rkey(), ~0ULL, 0)));
        }
    EXPECT_TRUE(vt::all(target.bytes(0, 32), 0));
}

TEST_F(RcLengths, AtomicWritesOfOtherThanEightBytes)
{
    for (std::uint32_t length : {0, 4, 7, 9, 16}) {
        open();
        invalid(line->request(kAtomicWrite, at(0, length), pattern(length, 1)));
        open();
        invalid(line->request(kAtomicWrite, at(0, 8), pattern(length, 1)));
    }
    open();
    invalid(line->request(kAtomicWrite, at(4, 8), pattern(8, 1)));
    EXPECT_TRUE(vt::all(target.bytes(0, 32), 0));
}

// READs and ATOMICs have no payload. Whether one that has is dropped as malformed or is an invalid
// request the specification does not say clearly; it is not carried out in any case, and if it
// was dropped the request as it should be is.
TEST_F(RcLengths, ReadsAndAtomicsWithPayload)
{
    for (std::uint8_t op : {kReadRequest, kFetchAdd, kCompareSwap}) {
        SCOPED_TRACE(int(op));
        open();
        Octets extension = op == kReadRequest ? at(0, 8)
                                              : atomic_eth(target.address(), target.rkey(), 1, 0);
        line->send(line->request(op, extension, pattern(4, 1)));
        auto came = peer.receive(vt::Millis(0));
        if (came) {
            EXPECT_EQ(came->syndrome(), kNakInvalid);
        } else {
            EXPECT_TRUE(line->alive());
        }
    }
    EXPECT_EQ(target.word(0), 0U);
}

// 9.9.3, "local length error": NAK "invalid request", and the receive says why.
TEST_F(RcLengths, SendThatIsLongerThanItsReceive)
{
    post(1, 100);
    line->receives = 0;
    refused(line->request(kSendOnly, {}, pattern(101, 1)), kNakInvalid, -1);
    EXPECT_TRUE(is_error(end.recv_cq.one(), 0, IBV_WC_LOC_LEN_ERR));
    EXPECT_TRUE(vt::all(inbox.bytes(100, 100), 0));
    open();
    post(1, kMtu);
    line->receives = 0;
    accepted(line->request(kSendFirst, {}, pattern(kMtu, 1)), 0);
    refused(line->request(kSendLast, {}, pattern(1, 1)), kNakInvalid, -1);
    EXPECT_TRUE(is_error(end.recv_cq.one(), 0, IBV_WC_LOC_LEN_ERR));
    EXPECT_TRUE(vt::all(inbox.bytes(kMtu, 100), 0));
}

// 9.9.3: what is wrong with the responder's own receive is NAKed "remote operational error".
TEST_F(RcResponder, ReceiveWhoseMemoryIsGoneIsAnOperationalError)
{
    ibv_sge bad = inbox.sge(0, 100);
    bad.lkey ^= 1;
    line->qp.post_recv(3, {bad});
    refused(line->request(kSendOnly, {}, pattern(10, 1)), kNakOperation, -1);
    EXPECT_TRUE(is_error(end.recv_cq.one(), 3, IBV_WC_LOC_PROT_ERR));
}

} // namespace
