/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Ethernet frames in a stream of bytes, each with its length before it: 4 bytes, the most
 * significant first, as passt has them.
 */
#ifndef ROX_TOOLS_RUN_FRAMES_HPP
#define ROX_TOOLS_RUN_FRAMES_HPP

#include <cstddef>
#include <span>
#include <vector>

namespace rox::run {

/// The bytes of a length.
constexpr size_t length_size = 4;
/// Between members of a network there is a virtio_net_hdr before each frame: it says how a frame of
/// many packets is cut into them.
constexpr size_t offload_size = 10;
/// An Ethernet header.
constexpr size_t least_frame = 14;
/// As much as IP can have, an Ethernet header with a VLAN, and how it is cut.
constexpr size_t most_frame = offload_size + least_frame + 4 + 65535;

/// Writes a length.
void put_length(unsigned char *at, size_t length);

/// Cuts a stream into frames.
class FrameReader {
public:
    /// @p least: what each frame has at least
    explicit FrameReader(size_t least = least_frame) : bytes_(buffer_size), least_(least) {}

    /// Room for the bytes that come next. What next() has returned is gone after this.
    std::span<unsigned char> room();
    /// So many bytes are in the room.
    void filled(size_t count) { end_ += count; }
    /// The next frame, its length before it. Empty: the rest of it has not come.
    std::span<const unsigned char> next();
    /// Whether a length came that no frame has. There are no frames then any more.
    bool broken() const { return broken_; }

private:
    static constexpr size_t buffer_size = size_t{1} << 18;

    std::vector<unsigned char> bytes_;
    size_t least_, begin_ = 0, end_ = 0;
    bool broken_ = false;
};

} // namespace rox::run

#endif // ROX_TOOLS_RUN_FRAMES_HPP
