// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "network.hpp"

#include <algorithm>
#include <cmath>

Sender::Sender(Network &network, u32 payload, u64 start, u64 bytes)
    : begins(start), network_(network), payload_(payload), total_(bytes), left_(bytes)
{}

void Sender::send(u32 bytes)
{
    while (bytes) {
        const u32 packet = std::min(bytes, payload_);
        bytes -= packet;
        left_ -= packet;
        in_flight_ += packet;
        network_.packet(*this, packet);
    }
}

// ---- the network ----

bool Network::marks(u64 queue)
{
    if (queue < path_.mark_from)
        return false;
    if (queue >= path_.mark_all)
        return true;
    const double part = double(queue - path_.mark_from) / double(path_.mark_all - path_.mark_from);
    return chance() < part * path_.mark_most;
}

// The receiver's side of DCQCN: a CNP at once, then one at the end of each interval in which a
// marked packet came.
void Network::marked(Sender &sender, u64 arrives)
{
    const u64 sent = std::max(arrives, sender.cnp_allowed_);
    if (sent - arrives > path_.cnp_interval)
        return;
    sender.cnp_allowed_ = sent + path_.cnp_interval;
    events_.push({sent + path_.round_trip / 2, kCnp, 0, &sender, now_});
}

// When the sender's host sees what comes at @at. Packets come in order, but for jitter.
u64 Network::seen(u64 at)
{
    if (!path_.stall_each)
        return at;
    while (at >= stall_to_) {
        stall_from_ = stall_to_ - u64(std::log(1 - chance()) * double(path_.stall_each));
        stall_to_ = stall_from_ + u64(chance() * double(path_.stall_most)) + 1;
    }
    return at < stall_from_ ? at : stall_to_;
}

void Network::packet(Sender &sender, u32 bytes)
{
    const u32 size = bytes + kHeaders;
    const u64 before = queue();
    const u64 jitter = path_.jitter ? u64(chance() * double(path_.jitter)) : 0;
    if (before + size > path_.limit) {
        drops_++;
        events_.push({now_ + before * kSec / path_.rate + path_.round_trip * 5 / 4, kLost, bytes,
                      &sender, now_});
        return;
    }
    busy_until_ = std::max(busy_until_, now_) + size * kSec / path_.rate;
    if (path_.loss > 0 && chance() < path_.loss) {
        events_.push({seen(busy_until_ + path_.round_trip) + path_.round_trip / 4 + jitter, kLost,
                      bytes, &sender, now_});
        return;
    }
    if (marks(before))
        marked(sender, (path_.mark_leaving ? now_ : busy_until_) + path_.round_trip / 2);
    events_.push({seen(busy_until_ + path_.round_trip + jitter), kAcked, bytes, &sender, now_});
}

void Network::happens(const Event &event)
{
    Sender &sender = *event.sender;
    switch (event.kind) {
    case kStart: sender.start(); break;
    case kWake:
        if (sender.wake_at_ == event.at)
            sender.wake_at_ = 0;
        sender.wake();
        break;
    case kAcked:
        sender.acked(event.bytes, now_ - event.sent);
        sender.in_flight_ -= event.bytes;
        sender.delivered += event.bytes;
        if (sender.delivered == sender.total_)
            sender.finished = now_;
        sender.transmit();
        break;
    case kLost:
        sender.lost(event.bytes);
        sender.in_flight_ -= event.bytes;
        sender.left_ += event.bytes;
        sender.transmit();
        break;
    case kCnp:
        sender.cnps++;
        sender.cnp();
        break;
    }
}

void Network::run(u64 until)
{
    while (!events_.empty() && events_.top().at <= until) {
        const Event event = events_.top();
        events_.pop();
        now_ = event.at;
        happens(event);
    }
    if (!events_.empty())
        now_ = until;
}

// ---- rox ----

Rox::Rox(Network &network, const rox_cc_link &link, u64 start, u64 bytes, u32 mtu)
    : Sender(network, mtu, start, bytes), link_(link)
{}

void Rox::look()
{
    if (!cc.rate)
        return;
    slowest = std::min<u64>(slowest, cc.rate);
    fastest = std::max<u64>(fastest, cc.rate);
}

void Rox::start()
{
    rox_cc_init(&link_, &cc, payload_, network_.now());
    transmit();
}

void Rox::transmit()
{
    const u64 now = network_.now();
    while (left_) {
        u32 quota = rox_cc_quota(&cc, in_flight_, now);
        quota = std::min(quota, longest_burst);
        quota = std::min<u64>(quota - quota % payload_, left_);
        if (!quota)
            break;
        send(quota);
        rox_cc_sent(&link_, &cc, quota, now);
        look();
    }
    if (left_ && cc.next > now && in_flight_ < cc.window && !wake_at_) {
        wake_at_ = cc.next;
        network_.wake_at(*this, cc.next);
    }
}

void Rox::acked(u32 bytes, u64 round_trip)
{
    const rox_cc_ack ack = {bytes, in_flight_, round_trip};
    if (link_.ops->acked)
        link_.ops->acked(&link_, &cc, &ack, network_.now());
    look();
}

void Rox::lost(u32 bytes)
{
    if (link_.ops->loss)
        link_.ops->loss(&link_, &cc, bytes, network_.now());
    look();
}

void Rox::cnp()
{
    if (link_.ops->cnp)
        link_.ops->cnp(&link_, &cc, network_.now());
    look();
}

// ---- CUBIC ----

void Cubic::grow(double pkts)
{
    if (window_ < threshold_) {
        window_ += pkts;
        return;
    }
    const double beta = 0.7, t = double(network_.now() + round_trip_ - epoch_) / double(kSec);
    const double k = std::cbrt(max_ * (1 - beta) / 0.4);
    const double target = std::clamp(0.4 * std::pow(t - k, 3) + max_, window_, 1.5 * window_);
    reno_ += pkts / window_ * (reno_ < max_ ? 3 * (1 - beta) / (1 + beta) : 1);
    window_ += pkts * (target - window_) / window_;
    window_ = std::max(window_, reno_);
}

void Cubic::acked(u32 bytes, u64 round_trip)
{
    round_trip_ = round_trip;
    if (in_flight_ * 2 >= window_ * payload_)
        grow(double(bytes) / payload_);
}

// One reduction for all losses of a round trip.
void Cubic::lost(u32)
{
    if (network_.now() < recovered_)
        return;
    recovered_ = network_.now() + round_trip_;
    max_ = window_ < max_ ? window_ * 0.85 : window_;
    window_ = std::max(window_ * 0.7, 2.0);
    threshold_ = reno_ = window_;
    epoch_ = network_.now();
}

void Cubic::transmit()
{
    while (left_ && in_flight_ + payload_ <= window_ * payload_)
        send(std::min<u64>(payload_, left_));
}

double jain(const std::vector<double> &shares)
{
    double sum = 0, squares = 0;
    for (double share : shares) {
        sum += share;
        squares += share * share;
    }
    return sum * sum / (double(shares.size()) * squares);
}
