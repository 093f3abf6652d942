/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * What rox-run and the first process of its kernel tell each other.
 *
 * They talk over sockets that the kernel has as /dev/hostpipe0 and so on, see `Pipe`; the kernel of
 * a virtual machine has one serial port that carries them all, see `Mux`. First rox-run sends the
 * job: its length in 4 bytes, then fields "NAME=VALUE" that each end with a zero byte. Then both
 * send messages.
 */
#ifndef ROX_TOOLS_RUN_JOB_HPP
#define ROX_TOOLS_RUN_JOB_HPP

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rox::run {

/// The pipes, by their number. Those to networks are there only if the job needs them, see
/// `Job::join_pipe`.
enum Pipe : int { control_pipe, input_pipe, output_pipe, error_pipe, first_network_pipe };

/// So many nodes can be in one network, also in that of several rox-run's.
constexpr unsigned most_nodes = 64;

/// What a node is called: its network namespace, and its host's name in a network of several.
inline std::string node_name(unsigned node)
{
    return "node" + std::to_string(node);
}

/// What a virtual machine calls the folder of `Job::writable` with that index, and the root.
inline std::string writable_tag(size_t index)
{
    return "write" + std::to_string(index);
}
constexpr const char *root_tag = "host";

/// Where a standard stream of the command leads to.
enum class Stream : char {
    pipe = 'p',     ///< to rox-run, by the pipe of that number
    terminal = 't', ///< to rox-run's terminal, by a terminal of its own
    file = 'f',     ///< from a file of the host: input only
    output = 'o',   ///< standard error: where standard output leads to
    closed = 'c',
};

struct Limit {
    int resource;
    uint64_t soft, hard;
};

/// The properties of the links between nodes.
struct Link {
    uint32_t mtu = 9000;
    uint64_t delay_ns = 0, jitter_ns = 0;
    double loss = 0;   ///< percent
    uint64_t rate = 0; ///< bytes a second, 0: as fast as can be

    bool shaped() const { return delay_ns != 0 || jitter_ns != 0 || loss != 0 || rate != 0; }
};

/// What is to be done. Paths are the host's.
struct Job {
    std::vector<std::string> arguments, environment;
    std::string folder;                ///< the working folder
    std::vector<std::string> writable; ///< folders whose changes stay
    unsigned umask = 022;
    uint64_t ignored = 0; ///< signals that the command ignores, a bit each
    std::vector<Limit> limits;
    uint32_t uid = 0, gid = 0;
    std::vector<uint32_t> groups;
    std::string hostname;
    std::string mhz;             ///< of the host's CPU
    std::string provider;        ///< the file of the provider, empty: there is none
    std::string provider_target; ///< where libibverbs looks for it
    std::string program;         ///< rox-run itself
    std::string programs;        ///< a folder of programs that may be missing, empty: none
    Stream streams[3] = {Stream::pipe, Stream::pipe, Stream::pipe};
    std::string input_file; ///< if standard input is a file
    uint64_t input_offset = 0;
    std::string termios; ///< of the terminal, empty: the terminal passes bytes as they are
    uint16_t rows = 0, columns = 0;
    unsigned nodes = 1;
    Link link;
    unsigned address = 1; ///< of the first node, in the network
    /// The number of the pipe to the other rox-run's of the network, and of that to passt; 0: none.
    int join_pipe = 0, way_out_pipe = 0;
    bool way_out6 = false; ///< passt has IPv6, too
    std::string resolver;  ///< the text of /etc/resolv.conf, empty: it stays as it is
};

/// What rox-run sends after the job.
struct Order {
    enum Kind : uint32_t { signal, window, resume } kind;
    uint32_t first,
        second; ///< signal: its number, and 1 for the whole job; window: rows and columns
};

/// What the first process sends.
struct Report {
    enum Kind : uint32_t {
        started, ///< everything is ready, the command starts
        stopped, ///< the command was stopped by the signal `value`
        ended,   ///< its status as wait() has it; all it has written was sent
        missing, ///< it could not be started: errno
        failed,  ///< there is no world for it; `value` bytes of text follow
        over,    ///< the command has ended with this status; `ended` follows what it has written
    } kind;
    uint32_t value;
    uint64_t offset; ///< ended: how far it has read an input that is a file
};

std::string encode(const Job &job);
/// The job of a text that encode() has made; nothing if it is none.
std::optional<Job> decode(std::string_view text);

} // namespace rox::run

#endif // ROX_TOOLS_RUN_JOB_HPP
