// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A simulated network: senders share one bottleneck, a queue that drops and marks packets. Each
// packet that gets through is acknowledged, each lost one is found after the round trip.
#pragma once

#include "cc.hpp"

#include <deque>
#include <memory>
#include <queue>
#include <random>
#include <vector>

// What lies between senders and receivers.
struct Path {
    u64 rate;                  // of the bottleneck, in bytes a second
    u64 round_trip;            // without queue, in ns
    u64 limit = ~0ULL;         // bytes that the queue holds; more are dropped
    u64 mark_from = ~0ULL;     // bytes in the queue from which on packets are marked with CE
    u64 mark_all = ~0ULL;      // ... and from which on all are
    double mark_most = 1;      // share of marked packets just below mark_all
    bool mark_leaving = false; // marks what leaves the queue, not what comes
    double loss = 0;           // share of packets lost at random
    u64 jitter = 0;            // maximum of what is added to each round trip, in ns
    u64 stall_each = 0;        // mean time between two times in which the sender's host has no CPU
    u64 stall_most = 0; // ... and how long one is at most; what comes meanwhile comes at its end
    u64 cnp_interval = 50 * kUsec; // min_time_between_cnps
};

class Network;

class Sender {
public:
    Sender(Network &network, u32 payload, u64 start, u64 bytes);
    virtual ~Sender() = default;

    virtual void start() = 0;
    virtual void wake() { transmit(); }
    virtual void acked(u32 bytes, u64 round_trip) = 0;
    virtual void lost(u32 bytes) = 0;
    virtual void cnp() {}
    virtual void transmit() = 0;

    u64 delivered = 0; // bytes that were acknowledged
    u64 finished = 0;  // when all were; 0: not yet
    u64 begins;
    u64 cnps = 0;

protected:
    friend class Network;
    void send(u32 bytes);

    Network &network_;
    u32 payload_;
    u64 total_; // bytes to send
    u64 left_;  // ... that are not in flight or delivered
    u32 in_flight_ = 0;
    u64 wake_at_ = 0;
    u64 cnp_allowed_ = 0; // the receiver sends no CNP before this
};

class Network {
public:
    static constexpr u32 kHeaders = 64;

    explicit Network(const Path &path, unsigned int seed = 1) : path_(path), random_(seed) {}

    template <typename Kind, typename... Args>
    Kind &add(Args &&...args)
    {
        auto sender = std::make_unique<Kind>(*this, std::forward<Args>(args)...);
        Kind &added = *sender;
        senders_.push_back(std::move(sender));
        events_.push({added.begins, kStart, 0, &added, 0});
        return added;
    }

    // Runs until @until or until all senders have finished.
    void run(u64 until);

    u64 now() const { return now_; }
    u64 drops() const { return drops_; }
    // Bytes in the queue.
    u64 queue() const { return busy_until_ > now_ ? (busy_until_ - now_) * path_.rate / kSec : 0; }
    void wake_at(Sender &sender, u64 at) { events_.push({at, kWake, 0, &sender, 0}); }
    void packet(Sender &sender, u32 bytes);
    const std::vector<std::unique_ptr<Sender>> &senders() const { return senders_; }

private:
    enum Kind { kStart, kWake, kAcked, kLost, kCnp };
    struct Event {
        u64 at;
        Kind kind;
        u32 bytes;
        Sender *sender;
        u64 sent;
        bool operator<(const Event &other) const { return at > other.at; }
    };

    bool marks(u64 queue);
    u64 seen(u64 at);
    void marked(Sender &sender, u64 arrives);
    double chance() { return std::uniform_real_distribution<>()(random_); }
    void happens(const Event &event);

    Path path_;
    std::mt19937_64 random_;
    std::vector<std::unique_ptr<Sender>> senders_;
    std::priority_queue<Event> events_;
    u64 now_ = 0;
    u64 busy_until_ = 0;
    u64 drops_ = 0;
    u64 stall_from_ = 0, stall_to_ = 0;
};

// A sender of rox.
class Rox : public Sender {
public:
    Rox(Network &network, const rox_cc_link &link, u64 start = 0, u64 bytes = ~0ULL,
        u32 mtu = 1024);

    void start() override;
    void acked(u32 bytes, u64 round_trip) override;
    void lost(u32 bytes) override;
    void cnp() override;
    void transmit() override;

    rox_cc cc{};
    u32 longest_burst = ROX_CC_BURST_MAX;
    u64 slowest = ~0ULL; // minimum and maximum of the rate
    u64 fastest = 0;

private:
    void look();
    const rox_cc_link &link_;
};

// A TCP sender with CUBIC (RFC 9438), acknowledged for each packet.
class Cubic : public Sender {
public:
    explicit Cubic(Network &network, u64 start = 0, u64 bytes = ~0ULL)
        : Sender(network, 1448, start, bytes)
    {}

    void start() override { transmit(); }
    void acked(u32 bytes, u64 round_trip) override;
    void lost(u32 bytes) override;
    void transmit() override;

private:
    void grow(double pkts);
    double window_ = 10, threshold_ = 1e9, max_ = 0, reno_ = 0;
    u64 epoch_ = 0, recovered_ = 0, round_trip_ = 0;
};

// Jain's index: 1 if all are equal.
double jain(const std::vector<double> &shares);
