// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// A control group for a test, below that in ROX_CGROUP (tests/hostile/run).
#pragma once

#include <cstdint>
#include <string>

namespace hostile {

class Cgroup {
public:
    explicit Cgroup(const std::string &name);
    /// All its processes must have ended.
    ~Cgroup();
    Cgroup(const Cgroup &) = delete;
    Cgroup &operator=(const Cgroup &) = delete;

    void set(const std::string &file, const std::string &value);
    /// Moves the calling process into the group.
    void enter() const;
    /// The number after @p key in a file, or the first number.
    std::uint64_t number(const std::string &file, const std::string &key = "") const;

private:
    void write_to(const std::string &file, const std::string &value) const;

    std::string path_;
    bool limited_ = false; ///< has a limit for RDMA devices
};

} // namespace hostile
