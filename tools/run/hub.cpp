/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "run/hub.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rox::run {
namespace {

using namespace std::chrono_literals;

/// Who has said nothing until then is no member, and the folder's lock is nobody's who joins.
constexpr auto patience = 10s;
/// How often the hub looks whether that is so.
constexpr int pause_ms = 20;
/// More places of Ethernet addresses than that are not kept: their frames go to all.
constexpr size_t most_places = 4096;
constexpr size_t address_size = 6;

[[noreturn]] void complain(const std::string &what)
{
    throw std::system_error(errno, std::generic_category(), what);
}

uint64_t ethernet_address(const unsigned char *at)
{
    uint64_t address = 0;

    std::memcpy(&address, at, address_size);
    return address;
}

bool is_multicast(const unsigned char *address)
{
    return (address[0] & 1) != 0;
}

/// Who may make files in a folder may use its socket, which is open as a path. The folder's group
/// may if the socket's file can be of that group, too.
void give_rights(int folder, int file)
{
    struct stat status {};

    if (fstat(folder, &status) != 0)
        complain("the folder of the socket");
    const bool all = (status.st_mode & S_IWOTH) != 0;
    mode_t mode = S_IRUSR | S_IWUSR;
    if (all)
        mode |= S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH;
    else if ((status.st_mode & S_IWGRP) != 0 &&
             fchownat(file, "", static_cast<uid_t>(-1), status.st_gid, AT_EMPTY_PATH) == 0)
        mode |= S_IRGRP | S_IWGRP;
    // Files that are open as paths have no other way.
    if (chmod(fmt::format("/proc/self/fd/{}", file).c_str(), mode) != 0)
        complain("the rights of the socket");
}

} // namespace

sockaddr_un socket_address(int folder, const std::string &name)
{
    const std::string path = fmt::format("/proc/self/fd/{}/{}", folder, name);
    sockaddr_un address{};

    if (path.size() >= sizeof(address.sun_path))
        throw std::runtime_error(fmt::format("'{}' is too long a name for a socket", name));
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, path.size());
    return address;
}

bool Numbers::are_free(unsigned count, unsigned first) const
{
    if (first + count - 1 > most_nodes)
        return false;
    for (unsigned number = first; number < first + count; number++)
        if (taken_.test(number))
            return false;
    return true;
}

std::optional<unsigned> Numbers::take(unsigned count, unsigned first)
{
    if (count == 0 || count > most_nodes || first > most_nodes)
        return {};
    unsigned found = std::max(first, 1U);
    while (first == 0 && found <= most_nodes && !are_free(count, found))
        found++;
    if (!are_free(count, found))
        return {};
    for (unsigned number = found; number < found + count; number++)
        taken_.set(number);
    return found;
}

void Numbers::give_back(unsigned count, unsigned first)
{
    for (unsigned number = first; number < first + count; number++)
        taken_.reset(number);
}

bool SendQueue::send(int socket, std::span<const unsigned char> frames)
{
    if (empty()) {
        const ssize_t sent = ::send(socket, frames.data(), frames.size(),
                                    MSG_DONTWAIT | MSG_NOSIGNAL);

        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        // The rest may begin within a frame, so it has to be kept.
        frames = frames.subspan(sent > 0 ? static_cast<size_t>(sent) : 0);
        bytes_.assign(frames.begin(), frames.end());
        begin_ = 0;
    } else if (bytes_.size() - begin_ + frames.size() <= most) {
        bytes_.insert(bytes_.end(), frames.begin(), frames.end());
    }
    return true;
}

bool SendQueue::flush(int socket)
{
    while (!empty()) {
        const ssize_t sent = ::send(socket, bytes_.data() + begin_, bytes_.size() - begin_,
                                    MSG_DONTWAIT | MSG_NOSIGNAL);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno != EAGAIN)
            return false;
        if (sent < 0)
            break;
        begin_ += static_cast<size_t>(sent);
    }
    if (begin_ > most / 2 || empty()) {
        bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<ptrdiff_t>(begin_));
        begin_ = 0;
    }
    return true;
}

Hub::Hub(int folder, std::string name)
    : folder_(folder), name_(std::move(name)),
      listener_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0))
{
    const sockaddr_un address = socket_address(folder_, name_);
    struct stat status {};

    if (!listener_.ok())
        complain("a socket");
    const mode_t before = umask(077);
    const int bound = bind(listener_.get(), reinterpret_cast<const sockaddr *>(&address),
                           sizeof(address));
    umask(before);
    const File file(bound == 0 ? openat(folder_, name_.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC)
                               : -1);
    if (!file.ok() || fstat(file.get(), &status) != 0)
        complain(name_);
    // Somebody may have put another one there.
    if (!S_ISSOCK(status.st_mode))
        throw std::system_error(EEXIST, std::generic_category(), name_);
    give_rights(folder_, file.get());
    if (listen(listener_.get(), most_nodes) != 0)
        complain(name_);
    device_ = status.st_dev;
    inode_ = status.st_ino;
}

void Hub::serve()
{
    do {
        wait();
        remove_ended();
    } while (!may_end());
    remove_socket();
    flock(folder_, LOCK_UN);
}

/// Waits for something to do, and does it.
void Hub::wait()
{
    std::vector<pollfd> entries;
    const size_t count = ports_.size();
    const bool greeting = std::any_of(ports_.begin(), ports_.end(),
                                      [](const auto &port) { return port->nodes == 0; });

    for (const auto &port : ports_)
        entries.push_back({port->socket.get(),
                           static_cast<short>(port->queue.empty() ? POLLIN : POLLIN | POLLOUT), 0});
    entries.push_back({full_ ? -1 : listener_.get(), POLLIN, 0});
    poll(entries.data(), entries.size(), count == 0 || greeting ? pause_ms : -1);
    for (size_t i = 0; i < count; i++)
        handle(*ports_[i], entries[i].revents);
    if (entries[count].revents != 0)
        admit();
}

/// Takes who wants to join.
void Hub::admit()
{
    for (;;) {
        const int socket = accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (socket < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        full_ = socket < 0 && errno != EAGAIN;
        if (socket < 0)
            return;
        ports_.push_back(std::make_unique<Port>(socket));
    }
}

void Hub::handle(Port &port, short events)
{
    if ((events & POLLOUT) != 0 && !port.queue.flush(port.socket.get()))
        port.ended = true;
    if ((events & (POLLIN | POLLHUP | POLLERR)) != 0 && !port.ended) {
        if (port.nodes == 0)
            greet(port);
        else
            receive(port);
    }
    if (port.nodes == 0 && Clock::now() - port.since > patience)
        port.ended = true;
}

/// Gives a new member its numbers.
void Hub::greet(Port &port)
{
    Hello hello{};
    Welcome welcome{};
    const ssize_t got = recv(port.socket.get(), &hello, sizeof(hello), 0);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    port.ended = got != sizeof(hello) ||
                 std::memcmp(hello.magic, join_magic, sizeof(join_magic)) != 0;
    if (port.ended)
        return;
    const auto first = numbers_.take(hello.nodes, hello.first);
    std::memcpy(welcome.magic, join_magic, sizeof(join_magic));
    welcome.first = first.value_or(0);
    if (first)
        port.first = *first, port.nodes = hello.nodes;
    const auto *const bytes = reinterpret_cast<const unsigned char *>(&welcome);
    port.ended = !port.queue.send(port.socket.get(), {bytes, sizeof(welcome)}) || !first;
}

void Hub::receive(Port &port)
{
    const auto room = port.reader.room();
    const ssize_t got = recv(port.socket.get(), room.data(), room.size(), 0);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    port.ended = got <= 0;
    if (port.ended)
        return;
    port.reader.filled(static_cast<size_t>(got));
    pass_on(port);
    port.ended |= port.reader.broken();
}

/// Delivers what has come as a whole. Frames in a row for the same member go together.
void Hub::pass_on(Port &from)
{
    std::span<const unsigned char> together;
    Port *to = nullptr;

    for (auto frame = from.reader.next(); !frame.empty(); frame = from.reader.next()) {
        Port *const next = target(from, frame.data() + length_size + offload_size);

        if (!together.empty() && next == to) {
            together = {together.data(), together.size() + frame.size()};
            continue;
        }
        deliver(from, to, together);
        together = frame;
        to = next;
    }
    deliver(from, to, together);
}

/// The member to which a frame goes; the sender itself: to nobody; nullptr: to all others.
Hub::Port *Hub::target(Port &from, const unsigned char *frame)
{
    const unsigned char *const source = frame + address_size;
    const auto place = places_.find(ethernet_address(source));

    if (place != places_.end())
        place->second = &from;
    else if (!is_multicast(source) && places_.size() < most_places)
        places_.emplace(ethernet_address(source), &from);
    const auto found = is_multicast(frame) ? places_.end() : places_.find(ethernet_address(frame));
    return found == places_.end() ? nullptr : found->second;
}

void Hub::deliver(Port &from, Port *to, std::span<const unsigned char> frames)
{
    if (frames.empty() || to == &from)
        return;
    for (const auto &port : ports_)
        if (port.get() != &from && port->nodes != 0 && !port->ended &&
            (to == nullptr || port.get() == to) && !port->queue.send(port->socket.get(), frames))
            port->ended = true;
}

void Hub::remove_ended()
{
    for (const auto &port : ports_) {
        if (!port->ended)
            continue;
        std::erase_if(places_, [&](const auto &place) { return place.second == port.get(); });
        numbers_.give_back(port->nodes, port->first);
        full_ = false;
    }
    std::erase_if(ports_, [](const auto &port) { return port->ended; });
    if (!ports_.empty())
        alone_ = Clock::now();
}

/// Whether there is nobody, and nobody comes: who joins has the lock of the folder until it is
/// connected. After a while the lock is somebody's who does not join.
bool Hub::may_end()
{
    if (!ports_.empty())
        return false;
    if (flock(folder_, LOCK_EX | LOCK_NB) != 0 && Clock::now() - alone_ < patience)
        return false;
    admit();
    if (!ports_.empty())
        flock(folder_, LOCK_UN);
    return ports_.empty();
}

void Hub::remove_socket() const
{
    struct stat status {};

    // Somebody may have put another one there.
    if (fstatat(folder_, name_.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        status.st_dev == device_ && status.st_ino == inode_)
        unlinkat(folder_, name_.c_str(), 0);
}

} // namespace rox::run
