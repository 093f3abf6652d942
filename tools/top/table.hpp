/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Tables of devices, QPs, CQs, MRs and processes, made from two samples.
 */
#ifndef ROX_TOP_TABLE_HPP
#define ROX_TOP_TABLE_HPP

#include "top/sample.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace rox::top {

enum class View { devices, qps, cqs, mrs, processes };

enum class Unit {
    text,
    number,    ///< an identifier, which is not abbreviated
    count,     ///< 12.3k
    bytes,     ///< 12.3Ki
    rate,      ///< per second
    byte_rate, ///< bytes per second
};

struct Column {
    const char *name; ///< in JSON and for --sort
    const char *title;
    Unit unit;
    int width;
};

/// Empty: the kernel does not tell, or it is a rate and there is no earlier sample.
using Cell = std::variant<std::monostate, double, std::string>;

struct Row {
    std::string key; ///< names the same object in all samples
    std::vector<Cell> cells;
};

struct Table {
    View view = View::devices;
    std::vector<Row> rows;
};

/// Which rows to show. Empty members let all pass.
struct Filter {
    std::string process; ///< a PID or a part of its name
    std::optional<uint64_t> qp;
};

const std::vector<Column> &columns_of(View view);
const char *view_name(View view);
std::optional<View> view_of(const std::string &name);
/// The index of a column; nothing if the view has none of that name.
std::optional<size_t> column_index(View view, const std::string &name);
/// The column whose history is drawn, and by which rows are sorted at first.
size_t main_column(View view);

/// Rates are those between the two samples; without an earlier one they are empty.
Table make_table(View view, const Sample &now, const Sample *before, const Filter &filter);
/// Sorts by a column: texts upwards, numbers downwards, or the other way round.
void sort_table(Table &table, size_t column, bool reverse);

/// The last values of a column of each row, as blocks of eight heights.
class History {
public:
    explicit History(size_t length) : length_(length) {}

    /// Adds the values of a table. Rows that it lacks are forgotten.
    void add(const Table &table, size_t column);
    /// The line of blocks of a row; the highest one is the largest value of all rows.
    std::string line(const std::string &key) const;
    void clear() { values_.clear(); }

private:
    size_t length_;
    std::map<std::string, std::deque<double>> values_;
};

/// The text of a cell, at most as wide as its column.
std::string cell_text(const Cell &cell, Unit unit);
/// A table with its titles.
std::string as_text(const Table &table, const History *history = nullptr);
/// What of a text in UTF-8 fits in so many columns of a terminal.
std::string cut_to_width(const std::string &text, int columns);
/// All tables as one line of JSON.
std::string as_json(const Sample &now, const Sample *before, const Filter &filter);

} // namespace rox::top

#endif // ROX_TOP_TABLE_HPP
