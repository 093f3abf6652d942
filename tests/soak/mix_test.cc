// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// A mixed load for as long as one likes: all operations and services, over two devices in two
/// namespaces and on one device, with connections, registrations and CQs that come and go. Each
/// message has its number and a checksum. What happens to the network meanwhile is up to others
/// (tests/life/part-shake.sh); connections stand some seconds of it.
///
/// ROX_SECONDS: how long. ROX_LANES: threads, ROX_PAIRS: QP pairs of each at most. ROX_SEED repeats
/// the choices. ROX_PAUSE_MS: rest between the rounds of a lane, for a load that leaves room for
/// others.
#include <algorithm>
#include <fstream>
#include <iostream>

#include <csignal>
#include <unistd.h>

#include "lib/lane.h"

using namespace soak;

namespace {

constexpr std::array kTrades{
    Trade{"RC", IBV_QPT_RC, false, false, false, false},
    Trade{"RC on one device, events", IBV_QPT_RC, false, true, false, true},
    Trade{"UD", IBV_QPT_UD, false, false, false, false},
    Trade{"RC by the RDMA CM, events", IBV_QPT_RC, true, true, false, false},
    Trade{"UC back", IBV_QPT_UC, false, false, true, false},
    Trade{"RC back, events", IBV_QPT_RC, false, true, true, false},
    Trade{"RC by the RDMA CM on one device", IBV_QPT_RC, true, false, false, true},
    Trade{"UD on one device, events", IBV_QPT_UD, false, true, false, true},
};

volatile std::sig_atomic_t stop_asked;

unsigned number(const char *name, unsigned fallback)
{
    return static_cast<unsigned>(vt::variable_number(name, fallback));
}

/// The number is always in one piece: the file is as long as it was.
void tell_progress(const Totals &totals)
{
    static const std::string path = vt::variable("ROX_PROGRESS");
    std::string text = std::to_string(totals.all());
    if (!path.empty())
        std::ofstream(path, std::ios::in | std::ios::out | std::ios::ate).seekp(0)
            << std::string(20 - text.size(), '0') + text + "\n";
}

using Lanes = std::vector<std::unique_ptr<Lane>>;

bool all_are_under_way(const Lanes &lanes, const Totals &totals)
{
    return std::all_of(lanes.begin(), lanes.end(), [](auto &lane) { return lane->rounds() > 0; }) &&
           std::all_of(totals.operations.begin(), totals.operations.end(),
                       [](auto &count) { return count > 0; });
}

/// Waits, and tells how it goes; SIGTERM ends it sooner. On a slow machine it takes longer until
/// each lane has done something.
void watch_over(const Lanes &lanes, const Totals &totals, unsigned seconds)
{
    const vt::Deadline last(vt::Millis(1000) * seconds + 20 * vt::kPatience);
    vt::Deadline deadline(vt::Millis(1000) * seconds);
    vt::Stopwatch watch;
    auto told = watch.elapsed();
    while (!totals.stop && !last.passed() &&
           (!(deadline.passed() || stop_asked) || !all_are_under_way(lanes, totals))) {
        std::this_thread::sleep_for(vt::Millis(200));
        tell_progress(totals);
        if (watch.elapsed() - told < vt::Millis(60000))
            continue;
        told = watch.elapsed();
        std::cout << "# " << told.count() / 1000 << " s: " << totals.text() << std::endl;
    }
    std::cout << "# mixed load, " << watch.elapsed().count() / 1000 << " s" << std::endl;
}

TEST(Mix, AllThatIsSentIsRight)
{
    const unsigned seconds = number("ROX_SECONDS", 10);
    const unsigned lanes = number("ROX_LANES", kTrades.size());
    const unsigned pairs = number("ROX_PAIRS", 4);
    Lanes all;
    Totals totals;

    alarm(seconds + 8 * vt::kLongCaseSeconds);
    std::signal(SIGTERM, [](int) { stop_asked = 1; });
    for (unsigned i = 0; i < lanes; i++)
        all.push_back(std::make_unique<Lane>(i, kTrades[i % kTrades.size()], pairs, totals));
    for (auto &lane : all)
        lane->start();
    std::cout << "running" << std::endl;
    watch_over(all, totals, seconds);
    totals.stop = true;
    for (auto &lane : all)
        lane->join();
    for (auto &lane : all) {
        EXPECT_EQ(lane->problem(), "") << lane->trade().what;
        EXPECT_GT(lane->rounds(), 0U) << lane->trade().what;
    }
    EXPECT_GT(*std::min_element(totals.operations.begin(), totals.operations.end()), 0U);
    EXPECT_GT(totals.connections, 0U);
    std::cout << "# total: " << totals.text() << std::endl;
    std::cout << "# tried again: " << totals.repeats_text() << std::endl;
}

} // namespace
