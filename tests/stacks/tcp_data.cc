// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/**
 * @file
 * A plain TCP program: the client sends bytes on several connections, the server sends them back,
 * the client compares. It knows nothing of rsockets: librspreload is put below it.
 *
 *   tcp_data PORT             server: as many connections as the client makes, then it ends
 *   tcp_data PORT ADDRESS     client
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr unsigned kConnections = 3;
constexpr std::size_t kSizes[] = {1, 100, 5000, 65536, 700001};

using Bytes = std::vector<std::uint8_t>;

template <typename Result>
Result need(Result result, const char *what)
{
    if (result < 0) {
        std::perror(what);
        std::exit(1);
    }
    return result;
}

[[noreturn]] void give_up(const char *why, unsigned connection, std::size_t size)
{
    std::fprintf(stderr, "tcp_data: %s (connection %u, %zu bytes)\n", why, connection, size);
    std::exit(1);
}

Bytes pattern(unsigned connection, std::size_t size)
{
    Bytes bytes(size);
    std::uint32_t state = connection * 7919 + static_cast<std::uint32_t>(size) + 1;
    for (auto &byte : bytes) {
        state = state * 1664525 + 1013904223;
        byte = static_cast<std::uint8_t>(state >> 24U);
    }
    return bytes;
}

void send_all(int socket, const Bytes &bytes)
{
    for (std::size_t done = 0; done < bytes.size();)
        done += need(send(socket, bytes.data() + done, bytes.size() - done, 0), "send");
}

Bytes receive(int socket, unsigned connection, std::size_t size)
{
    Bytes bytes(size);
    for (std::size_t done = 0; done < size;) {
        pollfd ready = {socket, POLLIN, 0};
        if (need(poll(&ready, 1, 20000), "poll") == 0)
            give_up("nothing came", connection, size);
        const ssize_t n = need(recv(socket, bytes.data() + done, size - done, 0), "recv");
        if (n == 0)
            give_up("the peer closed early", connection, size);
        done += static_cast<std::size_t>(n);
    }
    return bytes;
}

sockaddr_in address_of(const char *address, const char *port)
{
    sockaddr_in result = {};
    result.sin_family = AF_INET;
    result.sin_port = htons(static_cast<std::uint16_t>(std::atoi(port)));
    if (address != nullptr && inet_pton(AF_INET, address, &result.sin_addr) != 1)
        give_up("bad address", 0, 0);
    return result;
}

void serve(const char *port)
{
    const int one = 1;
    const int listener = need(socket(AF_INET, SOCK_STREAM, 0), "socket");
    const sockaddr_in here = address_of(nullptr, port);
    need(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), "SO_REUSEADDR");
    need(bind(listener, reinterpret_cast<const sockaddr *>(&here), sizeof(here)), "bind");
    need(listen(listener, kConnections), "listen");
    for (unsigned i = 0; i < kConnections; ++i) {
        const int connection = need(accept(listener, nullptr, nullptr), "accept");
        for (const std::size_t size : kSizes)
            send_all(connection, receive(connection, i, size));
        std::uint8_t more = 0;
        if (recv(connection, &more, 1, 0) > 0)
            give_up("more came than was sent", i, 1);
        close(connection);
    }
    close(listener);
}

void ask(const char *port, const char *address)
{
    const int one = 1;
    const sockaddr_in there = address_of(address, port);
    for (unsigned i = 0; i < kConnections; ++i) {
        const int connection = need(socket(AF_INET, SOCK_STREAM, 0), "socket");
        need(connect(connection, reinterpret_cast<const sockaddr *>(&there), sizeof(there)),
             "connect");
        need(setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)), "TCP_NODELAY");
        for (const std::size_t size : kSizes) {
            const Bytes sent = pattern(i, size);
            send_all(connection, sent);
            if (receive(connection, i, size) != sent)
                give_up("other bytes came back", i, size);
        }
        need(shutdown(connection, SHUT_RDWR), "shutdown");
        close(connection);
    }
    std::printf("tcp_data: %u connections\n", kConnections);
}

} // namespace

int main(int argc, char **argv)
{
    if (argc == 2)
        serve(argv[1]);
    else if (argc == 3)
        ask(argv[1], argv[2]);
    else
        return 2;
    return 0;
}
