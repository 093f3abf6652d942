// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// A control group of this test's own, below the one in ROX_CGROUP (tests/hostile/run).
#pragma once

#include <cstdint>
#include <string>

namespace hostile {

class Cgroup {
public:
    explicit Cgroup(const std::string &name);
    /// Its processes have ended.
    ~Cgroup();
    Cgroup(const Cgroup &) = delete;
    Cgroup &operator=(const Cgroup &) = delete;

    void set(const std::string &file, const std::string &value);
    /// The calling process goes there.
    void enter() const;
    /// The number behind @p key in a file, or the first one.
    std::uint64_t number(const std::string &file, const std::string &key = "") const;

private:
    void write_to(const std::string &file, const std::string &value) const;

    std::string path_;
    bool limited_ = false; ///< in what it has of devices
};

} // namespace hostile
