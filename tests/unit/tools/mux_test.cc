/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What rox-run and the first process of a virtual machine have in place of pipes: several streams
 * over one. Both ends run here, each in a thread, and the test has the sockets. */
#include "run/mux.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace rox::run {
namespace {

constexpr int patience_ms = 20000;

/// Two ends of a socket. The second one is the mux's.
struct Pair {
    Pair()
    {
        int ends[2];

        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        mine = ends[0];
        other = ends[1];
    }
    Pair(const Pair &) = delete;
    Pair &operator=(const Pair &) = delete;
    ~Pair()
    {
        close(mine);
        close(other);
    }
    int mine, other;
};

/// One end of the link, with three streams.
struct End {
    explicit End(int link) : link(link)
    {
        carrier = std::thread([this] {
            Mux(this->link, {streams[0].other, streams[1].other, streams[2].other}).run();
        });
    }
    End(const End &) = delete;
    End &operator=(const End &) = delete;
    ~End()
    {
        shutdown(link, SHUT_RDWR);
        // So that nothing waits for its reader.
        for (const Pair &stream : streams)
            shutdown(stream.mine, SHUT_RDWR);
        carrier.join();
    }
    int link;
    std::array<Pair, 3> streams;
    std::thread carrier;
};

class MuxTest : public testing::Test {
protected:
    MuxTest() { signal(SIGPIPE, SIG_IGN); }

    int here(size_t stream) const { return near_.streams[stream].mine; }
    int there(size_t stream) const { return far_.streams[stream].mine; }

    void end_link() const { shutdown(link_.mine, SHUT_RDWR); }

    /// As many bytes as come until the end, or so many.
    static std::string read_up_to(int fd, size_t size)
    {
        std::string text(size, '\0');
        size_t have = 0;

        while (have < size) {
            pollfd entry{fd, POLLIN, 0};

            EXPECT_GT(poll(&entry, 1, patience_ms), 0) << have << " of " << size << " bytes came";
            const ssize_t got = entry.revents != 0 ? read(fd, text.data() + have, size - have) : 0;
            if (got <= 0)
                break;
            have += static_cast<size_t>(got);
        }
        text.resize(have);
        return text;
    }
    static void put(int fd, const std::string &text)
    {
        EXPECT_EQ(send(fd, text.data(), text.size(), MSG_NOSIGNAL),
                  static_cast<ssize_t>(text.size()));
    }
    static std::string numbers(size_t size, unsigned seed)
    {
        std::string text;

        for (size_t i = 0; i < size; i++)
            text += static_cast<char>((i * seed) >> 3);
        return text;
    }

private:
    Pair link_;
    End near_{link_.mine}, far_{link_.other};
};

TEST_F(MuxTest, CarriesAllStreamsBothWays)
{
    for (size_t i = 0; i < 3; i++) {
        put(here(i), "to " + std::to_string(i));
        put(there(i), "from " + std::to_string(i));
    }
    for (size_t i = 0; i < 3; i++) {
        EXPECT_EQ(read_up_to(there(i), 4), "to " + std::to_string(i));
        EXPECT_EQ(read_up_to(here(i), 6), "from " + std::to_string(i));
    }
}

TEST_F(MuxTest, MegabytesArriveAsTheyWere)
{
    constexpr size_t size = 5'000'000;
    std::array<std::thread, 3> senders;

    for (size_t i = 0; i < 3; i++)
        senders[i] = std::thread([this, i] { put(here(i), numbers(size, 3 + i)); });
    for (size_t i = 0; i < 3; i++)
        EXPECT_TRUE(read_up_to(there(i), size) == numbers(size, 3 + i)) << "stream " << i;
    for (auto &sender : senders)
        sender.join();
}

/// What nobody reads stays with its sender, and the memory of the mux is bounded.
TEST_F(MuxTest, AStreamThatNobodyReadsKeepsNoOther)
{
    const std::string text(65536, 'x');
    size_t taken = 0;

    fcntl(here(0), F_SETFL, O_NONBLOCK);
    for (pollfd entry{here(0), POLLOUT, 0}; poll(&entry, 1, 500) > 0;) {
        const ssize_t sent = send(here(0), text.data(), text.size(), MSG_NOSIGNAL);

        taken += sent > 0 ? static_cast<size_t>(sent) : 0;
        ASSERT_LT(taken, size_t{4} << 20);
    }
    put(here(1), "goes on");
    EXPECT_EQ(read_up_to(there(1), 7), "goes on");
    EXPECT_EQ(read_up_to(there(0), taken), std::string(taken, 'x'));
}

TEST_F(MuxTest, TheEndOfAStreamArrivesBehindItsBytes)
{
    put(here(0), "last words");
    shutdown(here(0), SHUT_WR);
    EXPECT_EQ(read_up_to(there(0), 100), "last words");
    // The other direction goes on.
    put(there(0), "answer");
    EXPECT_EQ(read_up_to(here(0), 6), "answer");
}

TEST_F(MuxTest, AReaderThatHasGoneIsToldToTheWriter)
{
    shutdown(there(0), SHUT_RD);
    for (int i = 0; i < patience_ms; i++) {
        if (send(here(0), "x", 1, MSG_NOSIGNAL) < 0)
            break;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(send(here(0), "x", 1, MSG_NOSIGNAL), -1);
    EXPECT_EQ(errno, EPIPE);
    put(here(1), "goes on");
    EXPECT_EQ(read_up_to(there(1), 7), "goes on");
}

/// The order in which the sockets got the bytes is that in which they arrive.
TEST_F(MuxTest, WhatComesLaterArrivesLater)
{
    for (int i = 0; i < 200; i++) {
        int left = 1;

        put(here(0), "output");
        // As the first process does it before it reports the end: settle_output().
        while (ioctl(here(0), TIOCOUTQ, &left) == 0 && left > 0)
            std::this_thread::yield();
        put(here(1), "ended");
        EXPECT_EQ(read_up_to(there(1), 5), "ended");
        char buffer[6];
        EXPECT_EQ(recv(there(0), buffer, sizeof(buffer), MSG_DONTWAIT), 6) << i;
    }
}

TEST_F(MuxTest, WhatHasComeIsReadAfterTheLinkHasEnded)
{
    put(here(0), "before");
    EXPECT_EQ(read_up_to(there(0), 3), "bef");
    end_link();
    EXPECT_EQ(read_up_to(there(0), 100), "ore");
    EXPECT_EQ(read_up_to(there(1), 100), "");
    EXPECT_EQ(read_up_to(here(0), 100), "");
}

/// rox-run waits for that before it has anything to say to a virtual machine.
TEST(Mux, SaysSomethingWithoutBeingAsked)
{
    Pair link;
    End end(link.mine);
    pollfd entry{link.other, POLLIN, 0};

    EXPECT_EQ(poll(&entry, 1, patience_ms), 1);
    EXPECT_EQ(entry.revents, POLLIN);
}

TEST(Mux, NonsenseEndsTheLink)
{
    struct {
        uint32_t kind, stream, size;
    } const heads[] = {{99, 0, 0}, {0, 3, 1}, {0, 0, 1U << 30}};

    for (const auto &head : heads) {
        Pair link;
        End end(link.mine);

        ASSERT_EQ(write(link.other, &head, sizeof(head)), static_cast<ssize_t>(sizeof(head)));
        for (const Pair &stream : end.streams) {
            pollfd entry{stream.mine, POLLIN, 0};
            char byte = 0;

            ASSERT_GT(poll(&entry, 1, patience_ms), 0);
            EXPECT_EQ(read(stream.mine, &byte, 1), 0);
        }
    }
}

} // namespace
} // namespace rox::run
