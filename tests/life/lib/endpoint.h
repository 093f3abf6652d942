// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// One end of an RC connection with all its objects, and memory for both ends.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <infiniband/verbs.h>

namespace life {

/// Thrown if a verb fails that should not.
struct Trouble {
    std::string what;
    int error;
};

/// What the peer needs to know. It is sent in host byte order, because both are on one machine.
struct Address {
    ibv_gid gid;
    std::uint64_t base;
    std::uint32_t rkey;
    std::uint32_t qpn;
    std::uint32_t psn;
};

struct Options {
    std::string device;
    std::string address; ///< the GID to use, as an IP address; empty: an IPv4 address. With
                         ///< "%NETDEV" behind it: that of this netdev of the same namespace
    bool v6 = false;     ///< an IPv6 address
    bool events = false; ///< sleep until completions come
    int timeout = 14;    ///< local ACK timeout, 4.096 us times 2 to this power
    int retries = 7;
};

/// The parts of an endpoint's memory, as offsets into it.
namespace layout {
constexpr std::size_t kBlock = 64 * 1024; ///< of one WRITE or READ
constexpr std::size_t kMessage = 4000;    ///< of one SEND
constexpr std::size_t kSlots = 8;         ///< most messages outstanding
constexpr std::size_t kReceives = 4 * kSlots;
constexpr std::size_t kSource = 0; ///< the same constant bytes at every endpoint
constexpr std::size_t kSourceSize = 4 * kBlock;
constexpr std::size_t kWritten = kSource + kSourceSize; ///< target of the peer's WRITEs
constexpr std::size_t kRead = kWritten + kSlots * kBlock;
constexpr std::size_t kReceived = kRead + kSlots * kBlock;
constexpr std::size_t kWords = kReceived + kReceives * 4096;
constexpr std::size_t kConsumed = kWords;     ///< number of our messages that the peer has consumed
constexpr std::size_t kCounter = kWords + 64; ///< target of the peer's fetch-and-adds
constexpr std::size_t kFetched = kWords + 128; ///< kSlots results of our atomics
constexpr std::size_t kSize = kWords + 4096;
} // namespace layout

class Endpoint {
public:
    explicit Endpoint(const Options &options);

    Address address() const;
    void connect(const Address &peer);

    ibv_cq *cq() const { return cq_.get(); }
    ibv_context *context() const { return context_.get(); }
    std::uint8_t *at(std::size_t offset) const { return memory_.get() + offset; }
    const Address &peer() const { return peer_; }

    void post_receive(std::uint64_t slot);
    /// Posts a work request for @p length bytes at @p local. @p remote is an offset in the peer's
    /// memory, for opcodes with a remote address.
    void post_send(std::uint64_t id, ibv_wr_opcode opcode, std::size_t local, std::size_t length,
                   std::size_t remote, std::uint32_t immediate = 0);
    /// Writes @p value into the word at @p remote in the peer's memory.
    void post_word(std::uint64_t id, std::uint64_t value, std::size_t remote);

    /// Arms the CQ and sleeps until a completion or an asynchronous event, at most @p millis.
    /// Returns at once if Options::events is not set.
    void wait(int millis);
    /// Reads all asynchronous events. True if the device was removed.
    bool device_gone();

private:
    template <typename T, int (*Destroy)(T *)>
    struct Deleter {
        void operator()(T *object) const { Destroy(object); }
    };
    template <typename T, int (*Destroy)(T *)>
    using Owner = std::unique_ptr<T, Deleter<T, Destroy>>;
    struct Unmap {
        void operator()(std::uint8_t *memory) const;
    };

    void create_qp();
    void initialise_qp();
    void choose_gid();
    void post(ibv_send_wr &request);

    Options options_;
    std::unique_ptr<std::uint8_t, Unmap> memory_;
    Owner<ibv_context, ibv_close_device> context_;
    Owner<ibv_comp_channel, ibv_destroy_comp_channel> channel_;
    Owner<ibv_pd, ibv_dealloc_pd> pd_;
    Owner<ibv_cq, ibv_destroy_cq> cq_;
    Owner<ibv_mr, ibv_dereg_mr> mr_;
    Owner<ibv_qp, ibv_destroy_qp> qp_;
    ibv_gid gid_{};
    int gid_index_ = -1;
    ibv_mtu mtu_ = IBV_MTU_1024;
    std::uint32_t psn_ = 0;
    Address peer_{};
    bool gone_ = false;
};

} // namespace life
