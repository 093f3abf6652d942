// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Objects and counters as the `rdma` program reports them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace vt {

/// An object of the program's JSON output: its fields as text, lists included.
class Record {
public:
    bool has(const std::string &field) const { return fields_.contains(field); }
    /// The field. Fails, and prints the record, if it has none of that name.
    const std::string &text(const std::string &field) const;
    std::uint64_t number(const std::string &field) const;
    /// True if @p value is in the field's list.
    bool lists(const std::string &field, std::uint64_t value) const;
    void set(const std::string &field, const std::string &value) { fields_[field] = value; }

private:
    std::map<std::string, std::string> fields_;
};

using Records = std::vector<Record>;

/// True if the fields of @p record have the numbers in @p wanted; else says which do not.
testing::AssertionResult shows(
    const Record &record, std::initializer_list<std::pair<const char *, std::uint64_t>> wanted);

/// Runs `rdma -j -dd @p arguments`; fails if the program does.
Records rdma_tool(const std::string &arguments);
/// The same for output of exactly one record.
Record rdma_record(const std::string &arguments);
/// All counters of a device's port.
Record port_counters(const std::string &device);
/// One of them.
std::uint64_t port_counter(const std::string &device, const std::string &name);
/// False on User Mode Linux: its kernel pads attributes, and the program prints nothing of what
/// drivers add.
bool rdma_shows_drivers();
/// The records whose @p field is @p value.
Records with(const Records &records, const std::string &field, std::uint64_t value);

} // namespace vt
