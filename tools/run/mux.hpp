/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Several streams over one: between rox-run and the first process of a virtual machine, which have
 * only a serial port of virtio for each other.
 *
 * It carries messages: a head (`Mux::Head`), then bytes. A side sends no more bytes of a stream
 * than the other one has room for, so that none waits for another, and all that is sent arrives
 * in the order in which it was taken from the sockets.
 */
#ifndef ROX_TOOLS_RUN_MUX_HPP
#define ROX_TOOLS_RUN_MUX_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rox::run {

/// One end of the link.
class Mux {
public:
    /**
     * @p link: a file descriptor, which this closes no more than the sockets
     * @p sockets: stream sockets, the streams by their number; both ends have as many
     */
    Mux(int link, std::vector<int> sockets);

    /// Passes on what comes, until the link ends and what has come by it is with its reader.
    /// The process ignores SIGPIPE.
    void run();

private:
    enum Kind : uint32_t {
        data,   ///< `size` bytes follow
        end,    ///< the stream's sender has no more
        refuse, ///< the stream's reader wants no more
        room,   ///< for so many bytes more
        kinds,
    };
    /// Both ends are of one processor.
    struct Head {
        uint32_t kind, stream, size;
    };
    struct Stream {
        int socket;
        std::string incoming;   ///< from the link, for the socket
        size_t credit;          ///< so many bytes the other end has room for
        bool read_open = true;  ///< the socket may have more for the link
        bool write_open = true; ///< the socket takes more
        bool incoming_ended = false;
    };

    bool wait();
    void pass_on(size_t number, short events);
    void send(Kind kind, size_t stream, uint32_t size, std::string_view bytes = {});
    bool send_out();
    bool receive();
    void take(const Head &head, std::string_view bytes);
    void read_socket(size_t number);
    void write_socket(size_t number);
    void refuse_more(size_t number);
    bool is_behind() const;

    int link_;
    bool linked_ = true;
    std::vector<Stream> streams_;
    std::string in_, out_; ///< of the link: what has come, what is to be sent
};

} // namespace rox::run

#endif // ROX_TOOLS_RUN_MUX_HPP
