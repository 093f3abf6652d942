// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// A thread that connects QPs, sends through them for a while, takes all down, and begins anew.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "flow.h"

namespace soak {

/// What a lane does all its life.
struct Trade {
    const char *what;
    ibv_qp_type type;
    bool by_cm;
    bool events; ///< sleeps on completion channels instead of polling
    bool back;   ///< from the second device to the first
    bool local;  ///< from the first device to itself
};

class Lane {
public:
    /// @p number tells lanes apart; each life has up to @p pairs of QPs.
    Lane(unsigned number, const Trade &trade, unsigned pairs, Totals &totals);
    void start();
    /// When it has ended.
    void join() { thread_.join(); }

    const Trade &trade() const { return trade_; }
    std::uint64_t rounds() const { return rounds_; }
    /// Why it ended too early, or "".
    const std::string &problem() const { return problem_; }

private:
    void run();
    void live();
    std::unique_ptr<Flow> connected();
    std::unique_ptr<Flow> connect();
    std::unique_ptr<Flow> connect_by_cm();
    void connect_all();
    void register_something();
    void round();
    bool take(Side &side);
    void rest();

    unsigned number_;
    const Trade &trade_;
    unsigned pairs_;
    Totals &totals_;
    hostile::Chance chance_;
    std::thread thread_;
    std::string problem_;
    std::atomic<std::uint64_t> rounds_{};
    std::uint64_t lives_ = 0;
    std::uint64_t flows_made_ = 0;

    // Of one life, in the order in which they need each other.
    std::vector<std::unique_ptr<vt::Context>> contexts_; ///< from, to
    std::vector<std::shared_ptr<Side>> sides_;
    std::vector<std::unique_ptr<Flow>> flows_;
};

} // namespace soak
