/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * A packet socket on a netdev.
 */
#ifndef ROX_TOOLS_CAPTURE_HPP
#define ROX_TOOLS_CAPTURE_HPP

#include "cap/pcap.hpp"
#include "lib/file.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace rox::cap {

struct Packet {
    Time time;
    Bytes bytes;
};

/// Throws std::system_error.
class PacketSocket {
public:
    /// @p index: of the netdev; @p buffer: bytes of packets that may wait
    PacketSocket(unsigned index, int buffer);

    int get() const { return file_.get(); }
    /// The next packet that waits, until the next call; nothing if there is none.
    std::optional<Packet> next();
    /// Packets that did not find room in the buffer.
    uint64_t lost();

private:
    File file_;
    std::vector<std::byte> bytes_;
    uint64_t lost_ = 0;
};

} // namespace rox::cap

#endif // ROX_TOOLS_CAPTURE_HPP
