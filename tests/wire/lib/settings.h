// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// The files of congestion control of the device under test.
#pragma once

#include <map>
#include <string>

namespace wire {

/// Changes files in /sys/class/infiniband/DEVICE/cc. The destructor restores them.
class Settings {
public:
    Settings() = default;
    ~Settings();
    Settings(const Settings &) = delete;
    Settings &operator=(const Settings &) = delete;

    /// Writes a file. 0 or an errno value.
    int set(const std::string &name, const std::string &value);
    /// The first line of a file; "" if it has none.
    static std::string get(const std::string &name);

private:
    std::map<std::string, std::string> before_;
};

} // namespace wire
