/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * The module parameter loopback: packets between two QPs of one device.
 */
#pragma once

#include <fstream>
#include <string>

namespace vt {

/** Switches the parameter off while it lives: such packets are sent as frames over lo, too. */
class LoopbackOff {
public:
    LoopbackOff()
    {
        std::ifstream(kParameter) >> before_;
        set("N");
    }
    ~LoopbackOff() { set(before_); }
    LoopbackOff(const LoopbackOff &) = delete;
    LoopbackOff &operator=(const LoopbackOff &) = delete;

private:
    static constexpr const char *kParameter = "/sys/module/rox/parameters/loopback";

    static void set(const std::string &value) { std::ofstream(kParameter) << value; }

    std::string before_;
};

} // namespace vt
