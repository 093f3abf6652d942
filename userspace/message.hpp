/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * A uverbs command or response: the core's part, then the driver's part.
 */
#ifndef ROX_MESSAGE_HPP
#define ROX_MESSAGE_HPP

#include <array>
#include <cstddef>
#include <type_traits>

namespace rox {

/**
 * @tparam Core structure of the RDMA core, stored as bytes because it may end in a
 *	flexible array
 * @tparam Driver structure of <rdma/rox-abi.h>
 */
template <typename Core, typename Driver>
struct Message {
    alignas(alignof(Core)) std::array<std::byte, sizeof(Core)> core_bytes{};
    Driver driver{};

    Core *core() { return reinterpret_cast<Core *>(core_bytes.data()); }

    /// Bytes of both parts. There is no padding between them.
    static constexpr size_t size()
    {
        static_assert(std::is_standard_layout_v<Message>);
        static_assert(offsetof(Message, driver) == sizeof(Core));
        static_assert(sizeof(Message) == sizeof(Core) + sizeof(Driver));
        return sizeof(Message);
    }
};

} // namespace rox

#endif // ROX_MESSAGE_HPP
