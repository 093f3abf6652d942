/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "run/mux.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace rox::run {
namespace {

/// What a stream may have under way, what is read at a time, and what waits for the link.
constexpr size_t window = size_t{1} << 18, chunk = 32768, most_out = 4 * chunk;

void set_nonblocking(int fd)
{
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

bool is_for_now(int error)
{
    return error == EAGAIN || error == EINTR;
}

} // namespace

Mux::Mux(int link, std::vector<int> sockets) : link_(link)
{
    set_nonblocking(link);
    for (const int socket : sockets) {
        set_nonblocking(socket);
        streams_.push_back({socket, {}, window});
    }
}

void Mux::run()
{
    // Who started the other end waits for something to come.
    send(room, 0, 0);
    while (linked_ && wait()) {
    }
    linked_ = false;
    for (size_t i = 0; i < streams_.size(); i++) {
        shutdown(streams_[i].socket, SHUT_RD);
        streams_[i].incoming_ended = true;
        write_socket(i);
    }
    while (is_behind() && wait()) {
    }
}

/// Whether something that has come is not with its reader yet.
bool Mux::is_behind() const
{
    return std::any_of(streams_.begin(), streams_.end(), [](const Stream &stream) {
        return stream.write_open && !stream.incoming.empty();
    });
}

/// Waits for something to do, and does it. @return false if nothing more can come
bool Mux::wait()
{
    std::vector<pollfd> entries;

    for (const Stream &stream : streams_) {
        const bool reads = linked_ && stream.read_open && stream.credit > 0 &&
                           out_.size() < most_out;
        const bool writes = stream.write_open && !stream.incoming.empty();

        // Who is waited for in vain would be reported as hung up again and again.
        entries.push_back({reads || writes ? stream.socket : -1,
                           static_cast<short>((reads ? POLLIN : 0) | (writes ? POLLOUT : 0)), 0});
    }
    entries.push_back(
        {linked_ ? link_ : -1, static_cast<short>(POLLIN | (out_.empty() ? 0 : POLLOUT)), 0});
    if (poll(entries.data(), entries.size(), -1) < 0)
        return errno == EINTR;
    for (size_t i = 0; i < streams_.size(); i++)
        if (entries[i].revents != 0)
            pass_on(i, entries[i].events);
    if (entries.back().revents != 0 && linked_ && !receive())
        linked_ = false;
    if (linked_ && !out_.empty() && !send_out())
        linked_ = false;
    return true;
}

void Mux::pass_on(size_t number, short events)
{
    if ((events & POLLIN) != 0)
        read_socket(number);
    if ((events & POLLOUT) != 0)
        write_socket(number);
}

void Mux::send(Kind kind, size_t stream, uint32_t size, std::string_view bytes)
{
    const Head head{kind, static_cast<uint32_t>(stream), size};

    out_.append(reinterpret_cast<const char *>(&head), sizeof(head)).append(bytes);
}

/// @return false if the link has ended
bool Mux::send_out()
{
    const ssize_t sent = write(link_, out_.data(), out_.size());

    if (sent < 0)
        return is_for_now(errno);
    out_.erase(0, static_cast<size_t>(sent));
    return true;
}

/// @return false if the link has ended
bool Mux::receive()
{
    char buffer[chunk];
    const ssize_t got = read(link_, buffer, sizeof(buffer));
    size_t at = 0;

    if (got <= 0)
        return got < 0 && is_for_now(errno);
    in_.append(buffer, static_cast<size_t>(got));
    while (in_.size() - at >= sizeof(Head)) {
        Head head;

        std::memcpy(&head, in_.data() + at, sizeof(head));
        const size_t size = head.kind == data ? head.size : 0;
        if (head.kind >= kinds || head.stream >= streams_.size() || size > window)
            return false;
        if (in_.size() - at < sizeof(head) + size)
            break;
        take(head, std::string_view(in_).substr(at + sizeof(head), size));
        at += sizeof(head) + size;
    }
    in_.erase(0, at);
    return true;
}

void Mux::take(const Head &head, std::string_view bytes)
{
    Stream &stream = streams_[head.stream];

    switch (head.kind) {
    case data:
        if (stream.write_open)
            stream.incoming.append(bytes);
        break;
    case end: stream.incoming_ended = true; break;
    case refuse:
        stream.read_open = false;
        // Who writes to it is told so.
        shutdown(stream.socket, SHUT_RD);
        break;
    default: stream.credit += head.size;
    }
    write_socket(head.stream);
}

/// From a socket to the link.
void Mux::read_socket(size_t number)
{
    Stream &stream = streams_[number];
    char buffer[chunk];
    const ssize_t got = read(stream.socket, buffer, std::min(sizeof(buffer), stream.credit));

    if (got < 0 && is_for_now(errno))
        return;
    if (got <= 0) {
        stream.read_open = false;
        send(end, number, 0);
        return;
    }
    stream.credit -= static_cast<size_t>(got);
    send(data, number, static_cast<uint32_t>(got), {buffer, static_cast<size_t>(got)});
}

/// From the link to a socket.
void Mux::write_socket(size_t number)
{
    Stream &stream = streams_[number];

    if (!stream.write_open)
        return;
    if (!stream.incoming.empty()) {
        const ssize_t sent = ::send(stream.socket, stream.incoming.data(), stream.incoming.size(),
                                    MSG_NOSIGNAL);

        if (sent < 0 && !is_for_now(errno)) {
            refuse_more(number);
            return;
        }
        if (sent > 0) {
            stream.incoming.erase(0, static_cast<size_t>(sent));
            send(room, number, static_cast<uint32_t>(sent));
        }
    }
    if (stream.incoming_ended && stream.incoming.empty()) {
        stream.write_open = false;
        shutdown(stream.socket, SHUT_WR);
    }
}

/// The socket's reader has gone.
void Mux::refuse_more(size_t number)
{
    Stream &stream = streams_[number];

    stream.write_open = false;
    stream.incoming.clear();
    send(refuse, number, 0);
}

} // namespace rox::run
