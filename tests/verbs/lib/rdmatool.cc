// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "rdmatool.h"

#include <sys/utsname.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "diagnose.h"
#include "error.h"

namespace vt {

namespace {

/// Parses the program's JSON: lists of objects with members that are numbers, strings or lists.
/// An object within an object becomes a record of its own.
class Reader {
public:
    explicit Reader(const std::string &text) : text_(text) {}

    Records read()
    {
        while (at_ < text_.size()) {
            if (text_[at_] == '{')
                records_.emplace_back();
            if (text_[at_] == '"')
                member();
            else
                at_++;
        }
        return std::move(records_);
    }

private:
    void skip_blanks()
    {
        while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])))
            at_++;
    }

    std::string until(const char *stops)
    {
        std::size_t end = std::min(text_.find_first_of(stops, at_), text_.size());
        std::string part = text_.substr(at_, end - at_);
        at_ = end;
        return part;
    }

    std::string quoted()
    {
        at_++;
        std::string part = until("\"");
        at_++;
        return part;
    }

    void member()
    {
        std::string name = quoted();
        skip_blanks();
        if (at_ >= text_.size() || text_[at_] != ':' || records_.empty())
            return;
        at_++;
        skip_blanks();
        if (text_[at_] == '"')
            records_.back().set(name, quoted());
        else if (text_[at_] == '[' && text_.find('{', at_) > text_.find(']', at_))
            records_.back().set(name, until("]"));
        else if (text_[at_] != '[' && text_[at_] != '{')
            records_.back().set(name, until(",} \n"));
    }

    const std::string &text_;
    std::size_t at_ = 0;
    Records records_;
};

} // namespace

const std::string &Record::text(const std::string &field) const
{
    auto found = fields_.find(field);
    if (found != fields_.end())
        return found->second;
    std::string all;
    for (const auto &[name, value] : fields_)
        all += " " + name + "=" + value;
    fail("rdma prints no " + field + ", only" + all);
}

std::uint64_t Record::number(const std::string &field) const
{
    const std::string &value = text(field);
    char *end = nullptr;
    std::uint64_t number = std::strtoull(value.c_str(), &end, 0);
    if (value.empty() || *end)
        fail(field + " is no number: " + value);
    return number;
}

bool Record::lists(const std::string &field, std::uint64_t value) const
{
    const std::string &list = text(field);
    for (std::size_t at = 0; at < list.size();) {
        std::size_t end = std::min(list.find_first_of("[,]", at), list.size());
        if (end > at && std::strtoull(list.substr(at, end - at).c_str(), nullptr, 0) == value)
            return true;
        at = end + 1;
    }
    return false;
}

testing::AssertionResult shows(const Record &record,
                               std::initializer_list<std::pair<const char *, std::uint64_t>> wanted)
{
    std::string wrong;
    for (const auto &[field, value] : wanted)
        if (record.number(field) != value)
            wrong += std::string(" ") + field + " is " + record.text(field) + ", not " +
                     std::to_string(value) + ";";
    return wrong.empty() ? testing::AssertionSuccess() : testing::AssertionFailure() << wrong;
}

Records rdma_tool(const std::string &arguments)
{
    std::string output;
    int status = shell("exec rdma -j -dd " + arguments, &output);
    if (status)
        fail("rdma " + arguments + ": status " + std::to_string(status) + ", " + output);
    return Reader(output).read();
}

Record rdma_record(const std::string &arguments)
{
    Records records = rdma_tool(arguments);
    if (records.size() != 1)
        fail("rdma " + arguments + " prints " + std::to_string(records.size()) + " objects");
    return records.front();
}

Record port_counters(const std::string &device)
{
    return rdma_record("statistic show link " + device + "/1");
}

bool rdma_shows_drivers()
{
    utsname name{};
    return uname(&name) != 0 || std::string(name.release).find("-rox-uml-") == std::string::npos;
}

std::uint64_t port_counter(const std::string &device, const std::string &name)
{
    return port_counters(device).number(name);
}

Records with(const Records &records, const std::string &field, std::uint64_t value)
{
    Records found;
    for (const Record &record : records)
        if (record.has(field) && record.number(field) == value)
            found.push_back(record);
    return found;
}

} // namespace vt
