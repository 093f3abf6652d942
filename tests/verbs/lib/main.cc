// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// main() of every test program. It limits the time of each test.
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include <unistd.h>

#include <gtest/gtest.h>

#include "clock.h"
#include "context.h"
#include "diagnose.h"

namespace {

const unsigned kSecondsPerTest = 30 * static_cast<unsigned>(vt::patience_factor());

/// Not async-signal-safe, but the program ends here anyway.
void too_long(int)
{
    signal(SIGALRM, SIG_DFL);
    alarm(kSecondsPerTest / 4);
    std::printf("a test did not end within %u s%s\n", kSecondsPerTest,
                vt::state_of_everything().c_str());
    std::fflush(stdout);
    _exit(3);
}

class Watchdog : public testing::EmptyTestEventListener {
    void OnTestStart(const testing::TestInfo &) override { alarm(kSecondsPerTest); }
    void OnTestEnd(const testing::TestInfo &) override { alarm(0); }
};

} // namespace

int main(int argc, char **argv)
{
    testing::InitGoogleTest(&argc, argv);
    setvbuf(stdout, nullptr, _IOLBF, 0);
    signal(SIGALRM, too_long);
    testing::UnitTest::GetInstance()->listeners().Append(new Watchdog);
    std::printf("devices: %s and %s\n", vt::device_a().c_str(), vt::device_b().c_str());
    return RUN_ALL_TESTS();
}
