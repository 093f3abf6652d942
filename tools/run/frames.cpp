/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "run/frames.hpp"

#include <cstdint>
#include <cstring>

#include <arpa/inet.h>

namespace rox::run {

void put_length(unsigned char *at, size_t length)
{
    const uint32_t ordered = htonl(static_cast<uint32_t>(length));

    std::memcpy(at, &ordered, sizeof(ordered));
}

std::span<unsigned char> FrameReader::room()
{
    // At most one frame has not come as a whole, so this moves little.
    std::memmove(bytes_.data(), bytes_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    return std::span(bytes_).subspan(end_);
}

std::span<const unsigned char> FrameReader::next()
{
    uint32_t length = 0;

    if (broken_ || end_ - begin_ < length_size)
        return {};
    std::memcpy(&length, bytes_.data() + begin_, sizeof(length));
    length = ntohl(length);
    broken_ = length < least_ || length > most_frame;
    if (broken_ || end_ - begin_ < length_size + length)
        return {};
    const std::span frame(bytes_.data() + begin_, length_size + length);
    begin_ += frame.size();
    return frame;
}

} // namespace rox::run
