/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The network of several rox-run's: frames in a stream, the hub, who becomes it, and when it ends.
 * The members are this test's sockets. And what the way out makes of the host's resolver and
 * routes. */
#include "run/frames.hpp"
#include "run/hub.hpp"
#include "run/join.hpp"
#include "run/passt.hpp"

#include <algorithm>
#include <atomic>
#include <bitset>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

namespace rox::run {
namespace {

using Bytes = std::vector<unsigned char>;

/// A frame of a stream: its length, and @p size bytes that begin with a number.
Bytes framed(size_t size, unsigned char first)
{
    Bytes bytes(length_size + size, 0);

    put_length(bytes.data(), size);
    bytes[length_size] = first;
    return bytes;
}

void feed(FrameReader &reader, std::span<const unsigned char> bytes)
{
    const auto room = reader.room();

    ASSERT_GE(room.size(), bytes.size());
    std::memcpy(room.data(), bytes.data(), bytes.size());
    reader.filled(bytes.size());
}

TEST(RunFrames, TheLengthIsBigEndian)
{
    EXPECT_EQ(framed(0x0102, 7)[2], 1);
    EXPECT_EQ(framed(0x0102, 7)[3], 2);
}

TEST(RunFrames, ComeAsTheyWereWhereverTheStreamIsCut)
{
    Bytes stream;

    for (const auto &frame : {framed(14, 1), framed(5000, 2), framed(60, 3)})
        stream.insert(stream.end(), frame.begin(), frame.end());
    for (const size_t piece : {size_t{1}, size_t{3}, size_t{17}, size_t{1000}, stream.size()}) {
        FrameReader reader;
        std::vector<std::pair<size_t, int>> seen;

        for (size_t at = 0; at < stream.size(); at += piece) {
            feed(reader, std::span(stream).subspan(at, std::min(piece, stream.size() - at)));
            for (auto frame = reader.next(); !frame.empty(); frame = reader.next())
                seen.emplace_back(frame.size() - length_size, frame[length_size]);
        }
        EXPECT_EQ(seen, (std::vector<std::pair<size_t, int>>{{14, 1}, {5000, 2}, {60, 3}}))
            << piece;
        EXPECT_FALSE(reader.broken());
    }
}

TEST(RunFrames, ALongStreamGoesThroughABoundedBuffer)
{
    const Bytes frame = framed(most_frame, 9);
    FrameReader reader;

    for (int i = 0; i < 100; i++) {
        feed(reader, std::span(frame).first(frame.size() / 2));
        EXPECT_TRUE(reader.next().empty());
        feed(reader, std::span(frame).subspan(frame.size() / 2));
        EXPECT_EQ(reader.next().size(), frame.size());
    }
}

TEST(RunFrames, ALengthThatNoFrameHasBreaksTheStream)
{
    for (const size_t length : {size_t{0}, least_frame - 1, most_frame + 1, size_t{0xffffffff}}) {
        FrameReader reader;
        unsigned char bytes[64] = {};

        put_length(bytes, length);
        feed(reader, bytes);
        EXPECT_TRUE(reader.next().empty());
        EXPECT_TRUE(reader.broken()) << length;
    }
}

TEST(RunNumbers, TheLowestThatAreFreeInARow)
{
    Numbers numbers;

    EXPECT_EQ(numbers.take(1, 0), 1U);
    EXPECT_EQ(numbers.take(3, 0), 2U);
    EXPECT_EQ(numbers.take(1, 0), 5U);
    numbers.give_back(3, 2);
    EXPECT_EQ(numbers.take(4, 0), 6U);
    EXPECT_EQ(numbers.take(2, 0), 2U);
    EXPECT_EQ(numbers.take(1, 0), 4U);
}

TEST(RunNumbers, ThoseThatAreWantedOrNone)
{
    Numbers numbers;

    EXPECT_EQ(numbers.take(2, 7), 7U);
    EXPECT_FALSE(numbers.take(1, 8));
    EXPECT_FALSE(numbers.take(3, 5));
    EXPECT_FALSE(numbers.take(2, most_nodes));
    EXPECT_EQ(numbers.take(1, most_nodes), most_nodes);
    EXPECT_FALSE(numbers.take(0, 0));
    EXPECT_FALSE(numbers.take(most_nodes + 1, 0));
    EXPECT_FALSE(numbers.take(0xffffffff, 0xffffffff));
    EXPECT_FALSE(numbers.take(most_nodes, 0));
    EXPECT_EQ(numbers.take(6, 0), 1U);
}

/// What the other end of a socket can read at once.
size_t available(int socket)
{
    static Bytes buffer(1 << 20);
    size_t sum = 0;

    for (ssize_t got; (got = recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT)) > 0;)
        sum += static_cast<size_t>(got);
    return sum;
}

TEST(RunQueue, ASlowMemberLosesWholeFramesAndNobodyWaits)
{
    int ends[2];
    SendQueue queue;
    const Bytes frame = framed(60000, 1);
    size_t received = 0;

    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    for (int i = 0; i < 1000; i++)
        ASSERT_TRUE(queue.send(ends[0], frame));
    while (!queue.empty()) {
        received += available(ends[1]);
        ASSERT_TRUE(queue.flush(ends[0]));
    }
    received += available(ends[1]);
    EXPECT_EQ(received % frame.size(), 0U);
    EXPECT_LT(received, 8U << 20);
    EXPECT_GT(received, 1U << 20);
    close(ends[1]);
    EXPECT_FALSE(queue.send(ends[0], frame));
    close(ends[0]);
}

/// A folder for the socket, and members.
class RunJoin : public testing::Test {
protected:
    void SetUp() override
    {
        char name[] = "/tmp/rox-join-test.XXXXXX";

        folder = mkdtemp(name);
        path = folder + "/net";
    }
    void TearDown() override
    {
        members.clear();
        EXPECT_TRUE(has_ended());
        std::filesystem::remove_all(folder);
    }

    unsigned join(unsigned nodes = 1, unsigned wanted = 0)
    {
        Membership member = join_network(path, nodes, wanted);

        founders += member.founder ? 1 : 0;
        members.push_back(std::move(member.socket));
        return member.first;
    }

    /// Whether the hub has gone, soon: the socket is removed.
    bool has_ended() const
    {
        for (int i = 0; i < 1000; i++) {
            if (!std::filesystem::exists(path))
                return true;
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        return false;
    }

    /// Sends a frame with Ethernet addresses that end with these numbers; 0xff: to all.
    void send_frame(size_t from, unsigned char to, unsigned char source, size_t size = 100)
    {
        Bytes frame(length_size + offload_size + size, source);
        unsigned char *const addresses = frame.data() + length_size + offload_size;

        put_length(frame.data(), offload_size + size);
        std::memset(addresses, to == 0xff ? 0xff : 0, 12);
        addresses[5] = to;
        addresses[6] = 2;
        addresses[11] = source;
        ASSERT_EQ(send(members[from]->get(), frame.data(), frame.size(), MSG_NOSIGNAL),
                  static_cast<ssize_t>(frame.size()));
    }

    /// The source of the next frame that a member gets; -1: none comes.
    int next_source(size_t member, int wait_ms = 10000)
    {
        const int fd = members[member]->get();
        pollfd entry{fd, POLLIN, 0};
        unsigned char header[length_size + offload_size + 12];

        if (poll(&entry, 1, wait_ms) != 1 ||
            recv(fd, header, sizeof(header), MSG_WAITALL) != sizeof(header))
            return -1;
        size_t size = 0;
        for (size_t i = 0; i < length_size; i++)
            size = size << 8 | header[i];
        Bytes rest(size + length_size - sizeof(header));
        if (!rest.empty() &&
            recv(fd, rest.data(), rest.size(), MSG_WAITALL) != static_cast<ssize_t>(rest.size()))
            return -1;
        return header[sizeof(header) - 1];
    }

    std::string folder, path;
    std::vector<std::unique_ptr<File>> members;
    int founders = 0;
};

TEST_F(RunJoin, NumbersAndOneHub)
{
    EXPECT_EQ(join(), 1U);
    EXPECT_EQ(join(4), 2U);
    EXPECT_EQ(join(), 6U);
    EXPECT_EQ(join(1, 20), 20U);
    EXPECT_EQ(founders, 1);
    EXPECT_THROW(join(1, 3), std::runtime_error);
    EXPECT_THROW(join(most_nodes), std::runtime_error);
    members.erase(members.begin() + 1);
    for (int i = 0; i < 1000 && join() != 2; i++) // soon the hub notices
        members.pop_back();
    EXPECT_EQ(members.size(), 4U);
}

TEST_F(RunJoin, FramesGoToAllAndThenToWhomTheyAreFor)
{
    for (int i = 0; i < 3; i++)
        join();
    send_frame(0, 0xff, 10);
    EXPECT_EQ(next_source(1), 10);
    EXPECT_EQ(next_source(2), 10);
    send_frame(1, 10, 11);
    EXPECT_EQ(next_source(0), 11);
    send_frame(0, 11, 10);
    EXPECT_EQ(next_source(1), 10);
    // The second one got neither; what comes next is this.
    send_frame(1, 99, 11);
    EXPECT_EQ(next_source(2), 11);
    EXPECT_EQ(next_source(0), 11);
    EXPECT_EQ(next_source(1, 50), -1);
}

TEST_F(RunJoin, AnAddressThatMovesIsFollowed)
{
    for (int i = 0; i < 3; i++)
        join();
    send_frame(0, 0xff, 10);
    EXPECT_EQ(next_source(1), 10);
    EXPECT_EQ(next_source(2), 10);
    send_frame(1, 0xff, 10);
    EXPECT_EQ(next_source(0), 10);
    EXPECT_EQ(next_source(2), 10);
    send_frame(2, 10, 12);
    EXPECT_EQ(next_source(1), 12);
    // Of one that has gone nothing is known any more.
    members[1].reset();
    int source = -1;
    for (int i = 0; i < 1000 && source != 12; i++) {
        send_frame(2, 10, 12);
        source = next_source(0, 10);
    }
    EXPECT_EQ(source, 12);
}

TEST_F(RunJoin, ManyFramesArriveInOrder)
{
    constexpr int count = 20000;

    join();
    join();
    std::thread sender([this] {
        for (int i = 0; i < count; i++)
            send_frame(0, 0xff, static_cast<unsigned char>(i % 251), 60 + i % 200);
    });
    for (int i = 0; i < count; i++)
        ASSERT_EQ(next_source(1), i % 251) << i;
    sender.join();
}

TEST_F(RunJoin, OneThatDoesNotReadHoldsUpNobody)
{
    for (int i = 0; i < 3; i++)
        join();
    for (int i = 0; i < 2000; i++) {
        send_frame(0, 0xff, 10, 9000);
        ASSERT_EQ(next_source(2), 10);
    }
}

TEST_F(RunJoin, TheOthersGoOnWithoutTheFirst)
{
    join();
    join();
    join();
    members.erase(members.begin());
    send_frame(0, 0xff, 5);
    EXPECT_EQ(next_source(1), 5);
}

TEST_F(RunJoin, NonsenseEndsOnlyItsSender)
{
    join();
    join();
    join();
    const unsigned char nonsense[64] = {0xff, 0xff};
    ASSERT_EQ(send(members[2]->get(), nonsense, sizeof(nonsense), MSG_NOSIGNAL), 64);
    char byte;
    EXPECT_EQ(recv(members[2]->get(), &byte, 1, 0), 0);
    send_frame(0, 0xff, 5);
    EXPECT_EQ(next_source(1), 5);
}

TEST_F(RunJoin, WhoSaysNoHelloIsNoMember)
{
    join();
    sockaddr_un address{};
    const File stranger(socket(AF_UNIX, SOCK_STREAM, 0));
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, path.size());
    ASSERT_EQ(
        connect(stranger.get(), reinterpret_cast<const sockaddr *>(&address), sizeof(address)), 0);
    ASSERT_EQ(send(stranger.get(), "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL), 18);
    char byte;
    EXPECT_LE(recv(stranger.get(), &byte, 1, 0), 0);
    EXPECT_EQ(join(), 2U);
}

TEST_F(RunJoin, TwentyAtOnceFindOneHub)
{
    std::vector<std::thread> threads;
    std::vector<Membership> all(20);
    std::atomic<int> made = 0;

    for (auto &member : all)
        threads.emplace_back([&] {
            member = join_network(path, 1, 0);
            made += member.founder ? 1 : 0;
        });
    for (auto &thread : threads)
        thread.join();
    EXPECT_EQ(made, 1);
    std::bitset<most_nodes + 1> numbers;
    for (const auto &member : all)
        numbers.set(member.first);
    EXPECT_EQ(numbers.count(), 20U);
    all.clear();
}

/// The network ends and begins again all the time, and nobody meets one that is about to end.
TEST_F(RunJoin, ComingAndGoing)
{
    std::vector<std::thread> threads;
    std::atomic<int> failed = 0;

    for (int i = 0; i < 4; i++)
        threads.emplace_back([&] {
            for (int j = 0; j < 50; j++)
                try {
                    join_network(path, 1, 0);
                } catch (const std::exception &error) {
                    ADD_FAILURE() << error.what();
                    failed++;
                }
        });
    for (auto &thread : threads)
        thread.join();
    EXPECT_EQ(failed, 0);
}

TEST_F(RunJoin, AStaleSocketIsReplaced)
{
    {
        const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY);
        Hub never_served(fd, "net");
        close(fd);
    }
    ASSERT_TRUE(std::filesystem::exists(path));
    EXPECT_EQ(join(), 1U);
    EXPECT_EQ(founders, 1);
}

TEST_F(RunJoin, WhatIsNoSocketStays)
{
    std::ofstream(path) << "text";
    EXPECT_THROW(join(), std::runtime_error);
    EXPECT_EQ(std::filesystem::file_size(path), 4U);
    std::filesystem::remove(path);
    path = folder + "/no/net";
    EXPECT_THROW(join(), std::system_error);
    path = folder + "/" + std::string(200, 'x');
    EXPECT_THROW(join(), std::runtime_error);
}

TEST_F(RunJoin, ALongPathIsNoMatter)
{
    path = folder;
    for (int i = 0; i < 10; i++)
        path += "/a-folder-with-a-long-name";
    std::filesystem::create_directories(path);
    path += "/net";
    EXPECT_EQ(join(), 1U);
}

TEST_F(RunJoin, TheFolderSaysWhoMayJoin)
{
    struct stat status {};

    for (const auto &[rights, wanted] : std::initializer_list<std::pair<int, int>>{
             {0700, 0600}, {0755, 0600}, {0775, 0660}, {0777, 0666}}) {
        chmod(folder.c_str(), static_cast<mode_t>(rights));
        join();
        ASSERT_EQ(stat(path.c_str(), &status), 0);
        EXPECT_EQ(status.st_mode & 0777, static_cast<mode_t>(wanted)) << rights;
        members.clear();
        ASSERT_TRUE(has_ended());
    }
}

/* Only root can give a folder to a group that it is not in. */
TEST_F(RunJoin, TheGroupOfTheFolderIsTheSockets)
{
    constexpr gid_t group = 12345;
    struct stat status {};

    if (geteuid() != 0)
        GTEST_SKIP() << "for root";
    ASSERT_EQ(chown(folder.c_str(), static_cast<uid_t>(-1), group), 0);
    chmod(folder.c_str(), 0770);
    join();
    ASSERT_EQ(stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_gid, group);
    EXPECT_EQ(status.st_mode & 0777, 0660U);
}

/// So many file descriptors of this process are open.
size_t open_files()
{
    const std::filesystem::directory_iterator files("/proc/self/fd");

    return static_cast<size_t>(std::distance(begin(files), end(files)));
}

TEST_F(RunJoin, TheHubHasNothingOfWhoStartsIt)
{
    int ends[2];
    const size_t before = open_files();

    ASSERT_EQ(pipe(ends), 0);
    join();
    close(ends[1]);
    char byte;
    // The hub has no end of the pipe, or this would wait.
    pollfd entry{ends[0], POLLIN, 0};
    ASSERT_EQ(poll(&entry, 1, 10000), 1);
    EXPECT_EQ(read(ends[0], &byte, 1), 0);
    close(ends[0]);
    EXPECT_EQ(open_files(), before + 1);
}

TEST(RunWayOut, ServersOfTheHostsLoopbackAreReachedByTheGateway)
{
    EXPECT_EQ(inner_resolver("nameserver 127.0.0.1\nsearch example.org\n", "", false),
              "nameserver 10.124.0.1\nsearch example.org\n");
    EXPECT_EQ(inner_resolver("", "", false), "nameserver 10.124.0.1\n");
    EXPECT_EQ(inner_resolver("# no server\noptions edns0\n", "", true),
              "nameserver 10.124.0.1\noptions edns0\n");
}

TEST(RunWayOut, OtherServersStay)
{
    const std::string text =
        "nameserver 192.0.2.53\nnameserver 2001:db8::53\nnameserver fe80::1%eth0\n";

    EXPECT_EQ(inner_resolver(text, "", true), "nameserver 192.0.2.53\nnameserver 2001:db8::53\n");
    EXPECT_EQ(inner_resolver(text, "", false), "nameserver 192.0.2.53\n");
    EXPECT_EQ(inner_resolver(text, "nameserver 192.0.2.99\n", false), "nameserver 192.0.2.53\n");
}

TEST(RunWayOut, WhomTheHostsResolverAsksIsAskedInItsPlace)
{
    EXPECT_EQ(inner_resolver("nameserver 127.0.0.53\nsearch a\n",
                             "nameserver 192.0.2.99\nsearch b\n", false),
              "nameserver 192.0.2.99\nsearch b\n");
}

TEST(RunWayOut, Ipv6IsThereWithADefaultRoute)
{
    const std::string none(32, '0'), tail = " 00000400 00000001 00000000 00000003     ";

    EXPECT_FALSE(has_way_out6(""));
    EXPECT_FALSE(has_way_out6(none + " 00 " + none + " 00 " + none + tail + "lo\n"));
    EXPECT_FALSE(has_way_out6(none + " 80 " + none + " 00 " + none + tail + "eth0\n"));
    EXPECT_TRUE(has_way_out6(none + " 00 " + none + " 00 " + none + tail + "lo\n" + none + " 00 " +
                             none + " 00 " + none + tail + "    eth0\n"));
}

} // namespace
} // namespace rox::run
