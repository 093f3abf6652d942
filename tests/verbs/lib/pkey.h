// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Changes of P_Key tables, as an administrator makes them.
#pragma once

#include <map>
#include <string>

#include "context.h"

namespace vt {

/// Writes @p text to the sysfs file that changes a device's P_Key table. 0 or an errno value.
int write_pkey(const std::string &device, const std::string &text);

/// The table of a device. The destructor restores changed entries.
class PkeyTable {
public:
    explicit PkeyTable(Context &context) : context_(context) {}
    ~PkeyTable();
    PkeyTable(const PkeyTable &) = delete;
    PkeyTable &operator=(const PkeyTable &) = delete;

    std::uint16_t get(int index) const;
    /// Changes an entry and waits until the RDMA core has seen the change.
    void set(int index, std::uint16_t pkey);

private:
    void change(int index, std::uint16_t pkey);

    Context &context_;
    std::map<int, std::uint16_t> before_;
};

} // namespace vt
