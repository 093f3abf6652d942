// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// A thread of the load: it connects QPs, sends messages for a while, destroys everything, and
/// repeats.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "flow.h"

namespace soak {

/// The kind of load of a lane.
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
    /// @p number identifies the lane, which has up to @p pairs of QPs at a time.
    Lane(unsigned number, const Trade &trade, unsigned pairs, Totals &totals);
    void start();
    /// Waits for its end.
    void join() { thread_.join(); }

    const Trade &trade() const { return trade_; }
    std::uint64_t rounds() const { return rounds_; }
    /// The error that ended it, or "".
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

    // The objects of one cycle, each after those that it uses.
    std::vector<std::unique_ptr<vt::Context>> contexts_; ///< from, to
    std::vector<std::shared_ptr<Side>> sides_;
    std::vector<std::unique_ptr<Flow>> flows_;
};

} // namespace soak
