/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * The switch between the members of a network: rox-run's that name the same socket by --join.
 */
#ifndef ROX_TOOLS_RUN_HUB_HPP
#define ROX_TOOLS_RUN_HUB_HPP

#include "lib/file.hpp"
#include "run/frames.hpp"
#include "run/job.hpp"

#include <bitset>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <sys/un.h>

namespace rox::run {

/// What a member sends first.
struct Hello {
    char magic[8];
    uint32_t nodes; ///< so many numbers it needs, one after the other
    uint32_t first; ///< the first of them, 0: any
};

/// What the hub answers. Frames follow, each with its offload_size bytes before it.
struct Welcome {
    char magic[8];
    uint32_t first; ///< 0: there are no such numbers
};

/// It changes with what is said after it.
constexpr char join_magic[8] = {'r', 'o', 'x', 'r', 'u', 'n', '0', '1'};

/// The address of a socket by an open folder and its name there: paths may be longer than addresses
/// can be. @throw std::runtime_error if the name alone is
sockaddr_un socket_address(int folder, const std::string &name);

/// The numbers of a network's nodes, from 1 on.
class Numbers {
public:
    /// Takes the lowest free ones, or those from @p first on if that is not 0. @return the first
    std::optional<unsigned> take(unsigned count, unsigned first);
    void give_back(unsigned count, unsigned first);

private:
    bool are_free(unsigned count, unsigned first) const;

    std::bitset<most_nodes + 1> taken_;
};

/// Bytes on their way to a member. It holds a bounded number of them, and drops what is more, as a
/// switch does.
class SendQueue {
public:
    /// Sends frames, or keeps what the socket does not take. @return false if the socket has ended
    bool send(int socket, std::span<const unsigned char> frames);
    /// Sends what is there. @return false if the socket has ended
    bool flush(int socket);
    bool empty() const { return begin_ == bytes_.size(); }

private:
    static constexpr size_t most = size_t{4} << 20;

    std::vector<unsigned char> bytes_;
    size_t begin_ = 0;
};

/// Passes frames on between its members. It ends with the last one, and its socket with it.
class Hub {
public:
    /**
     * Makes the socket. Who may join is who may make files in the folder.
     * @param folder open, and not shared with the open folder of a member, for the lock is its own
     * @throw std::system_error
     */
    Hub(int folder, std::string name);
    Hub(const Hub &) = delete;
    Hub &operator=(const Hub &) = delete;
    ~Hub() = default;

    /// Works until there is nobody any more.
    void serve();

private:
    using Clock = std::chrono::steady_clock;

    struct Port {
        explicit Port(int socket) : socket(socket) {}

        File socket;
        FrameReader reader{offload_size + least_frame};
        SendQueue queue;
        unsigned first = 0, nodes = 0; ///< 0: it is no member yet
        Clock::time_point since = Clock::now();
        bool ended = false;
    };

    void wait();
    void admit();
    void handle(Port &port, short events);
    void greet(Port &port);
    void receive(Port &port);
    void pass_on(Port &from);
    Port *target(Port &from, const unsigned char *frame);
    void deliver(Port &from, Port *to, std::span<const unsigned char> frames);
    void remove_ended();
    bool may_end();
    void remove_socket() const;

    int folder_;
    std::string name_;
    File listener_;
    uint64_t device_ = 0, inode_ = 0; ///< of the socket's file
    std::vector<std::unique_ptr<Port>> ports_;
    std::unordered_map<uint64_t, Port *> places_; ///< where Ethernet addresses are
    Numbers numbers_;
    Clock::time_point alone_ = Clock::now();
    bool full_ = false; ///< there is no file descriptor for one more
};

} // namespace rox::run

#endif // ROX_TOOLS_RUN_HUB_HPP
