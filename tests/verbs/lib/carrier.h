/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * How packets go between two QPs of one device.
 */
#pragma once

#include <fstream>
#include <string>

namespace vt {

/** While it lives, packets between QPs of one device are real ones, too: over lo. */
class OverTheWire {
public:
    OverTheWire()
    {
        std::ifstream(kParameter) >> before_;
        set("N");
    }
    ~OverTheWire() { set(before_); }
    OverTheWire(const OverTheWire &) = delete;
    OverTheWire &operator=(const OverTheWire &) = delete;

private:
    static constexpr const char *kParameter = "/sys/module/rox/parameters/loopback";

    static void set(const std::string &value) { std::ofstream(kParameter) << value; }

    std::string before_;
};

} // namespace vt
