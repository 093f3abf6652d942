/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Tables as text, as JSON, and the history of a column as blocks. */
#include "top/table.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace rox::top {

namespace {

using Json = nlohmann::ordered_json;

/* A number with three digits and a prefix: k, M, ... of 1000, or Ki, Mi, ... of 1024. */
std::string abbreviated(double value, double step)
{
    static constexpr std::array<const char *, 6> of_1000 = {"k", "M", "G", "T", "P", "E"};
    static constexpr std::array<const char *, 6> of_1024 = {"Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
    const auto &prefixes = step > 1000 ? of_1024 : of_1000;
    size_t power = 0;

    if (value < step)
        return value == std::floor(value) || value >= 100 ? fmt::format("{:.0f}", value)
                                                          : fmt::format("{:.1f}", value);
    while (value >= step && power < prefixes.size()) {
        value /= step;
        power++;
    }
    return fmt::format("{:.{}f}{}", value, value < 100 ? 1 : 0, prefixes[power - 1]);
}

/* A string of UTF-8 with the process' control characters taken out. */
std::string printable(const std::string &text)
{
    std::string clean = text;

    std::ranges::replace_if(
        clean, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }, '?');
    return clean;
}

Json value_of(const Cell &cell, Unit unit)
{
    if (const auto *text = std::get_if<std::string>(&cell))
        return *text;
    const auto *number = std::get_if<double>(&cell);
    if (number == nullptr)
        return nullptr;
    if (unit == Unit::rate || unit == Unit::byte_rate)
        return *number;
    return static_cast<uint64_t>(*number);
}

Json rows_of(const Table &table)
{
    const std::vector<Column> &columns = columns_of(table.view);
    Json rows = Json::array();

    for (const Row &row : table.rows) {
        Json object = Json::object();

        for (size_t i = 0; i < columns.size(); i++)
            object[columns[i].name] = value_of(row.cells[i], columns[i].unit);
        rows.push_back(std::move(object));
    }
    return rows;
}

/* A line without white space at its end. */
std::string right_trimmed(std::string line)
{
    line.erase(line.find_last_not_of(' ') + 1);
    return line;
}

std::string padded(const std::string &text, const Column &column)
{
    const std::string cut = text.substr(0, static_cast<size_t>(column.width));

    return column.unit == Unit::text ? fmt::format("{:<{}} ", cut, column.width)
                                     : fmt::format("{:>{}} ", cut, column.width);
}

} // namespace

std::string cell_text(const Cell &cell, Unit unit)
{
    const auto *number = std::get_if<double>(&cell);

    if (const auto *text = std::get_if<std::string>(&cell))
        return printable(*text);
    if (number == nullptr)
        return "-";
    switch (unit) {
    case Unit::number: return fmt::format("{:.0f}", *number);
    case Unit::bytes:
    case Unit::byte_rate: return abbreviated(*number, 1024);
    default: return abbreviated(*number, 1000);
    }
}

std::string cut_to_width(const std::string &text, int columns)
{
    size_t end = 0;

    for (; end < text.size(); end++) {
        const bool begins = (static_cast<unsigned char>(text[end]) & 0xc0U) != 0x80U;

        if (begins && columns-- <= 0)
            break;
    }
    return text.substr(0, end);
}

std::string as_text(const Table &table, const History *history)
{
    const std::vector<Column> &columns = columns_of(table.view);
    std::string text, line;

    for (const Column &column : columns)
        line += padded(column.title, column);
    text = right_trimmed(line) + "\n";
    for (const Row &row : table.rows) {
        line.clear();
        for (size_t i = 0; i < columns.size(); i++)
            line += padded(cell_text(row.cells[i], columns[i].unit), columns[i]);
        if (history != nullptr)
            line += history->line(row.key);
        text += right_trimmed(line) + "\n";
    }
    return text;
}

std::string as_json(const Sample &now, const Sample *before, const Filter &filter)
{
    Json all = Json::object();

    all["interval"] = before != nullptr ? Json(now.seconds - before->seconds) : Json(nullptr);
    for (const View view : {View::devices, View::qps, View::cqs, View::mrs, View::processes})
        all[view_name(view)] = rows_of(make_table(view, now, before, filter));
    return all.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

void History::add(const Table &table, size_t column)
{
    std::map<std::string, std::deque<double>> values;

    for (const Row &row : table.rows) {
        std::deque<double> line = std::move(values_[row.key]);
        const auto *value = std::get_if<double>(&row.cells[column]);

        line.push_back(value != nullptr ? *value : 0);
        if (line.size() > length_)
            line.pop_front();
        values[row.key] = std::move(line);
    }
    values_ = std::move(values);
}

std::string History::line(const std::string &key) const
{
    static constexpr std::array<const char *, 9> blocks = {" ", "▁", "▂", "▃", "▄",
                                                           "▅", "▆", "▇", "█"};
    const auto found = values_.find(key);
    double largest = 0;
    std::string text;

    for (const auto &[row, values] : values_)
        for (const double value : values)
            largest = std::max(largest, value);
    if (found == values_.end() || largest <= 0)
        return "";
    for (const double value : found->second) {
        const double height = std::ceil(value / largest * (blocks.size() - 1));

        text += blocks[std::min(static_cast<size_t>(height), blocks.size() - 1)];
    }
    return text;
}

} // namespace rox::top
