/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "top/table.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

namespace rox::top {

namespace {

constexpr std::array<View, 5> views = {View::devices, View::qps, View::cqs, View::mrs,
                                       View::processes};
constexpr uint64_t wrap_32 = (uint64_t{1} << 32) - 1;
constexpr uint64_t wrap_24 = (uint64_t{1} << 24) - 1;
constexpr uint64_t wrap_64 = ~uint64_t{0};

double number(uint64_t value)
{
    return static_cast<double>(value);
}

/* Makes the rows of one view. */
class Maker {
public:
    Maker(const Sample &now, const Sample *before, const Filter &filter)
        : now_(now), before_(before), filter_(filter),
          seconds_(before != nullptr ? now.seconds - before->seconds : 0)
    {}

    std::vector<Row> rows(View view)
    {
        for (const DeviceSample &device : now_.devices) {
            const DeviceSample *earlier = earlier_device(device);

            switch (view) {
            case View::devices: add_device(device, earlier); break;
            case View::qps: add_qps(device, earlier); break;
            case View::cqs: add_cqs(device, earlier); break;
            case View::mrs: add_mrs(device); break;
            case View::processes: count_objects(device, earlier); break;
            }
        }
        if (view == View::processes)
            add_processes();
        return std::move(rows_);
    }

private:
    /* What a process uses and does. */
    struct Use {
        double qps = 0, cqs = 0, mrs = 0, memory = 0, posted = 0, done = 0, received = 0;
    };

    /* The same device: an index is not used again soon after a device went. */
    const DeviceSample *earlier_device(const DeviceSample &device) const
    {
        if (before_ == nullptr)
            return nullptr;
        for (const DeviceSample &earlier : before_->devices)
            if (earlier.device.index == device.device.index)
                return &earlier;
        return nullptr;
    }

    template <typename Object>
    static const Object *earlier_object(const std::vector<Object> *objects, const Object &object)
    {
        if (objects != nullptr)
            for (const Object &earlier : *objects)
                if (earlier.number == object.number && earlier.pid == object.pid)
                    return &earlier;
        return nullptr;
    }

    /* Per second, of a counter that wraps at a power of two. */
    Cell rate(uint64_t now, std::optional<uint64_t> before, uint64_t wrap) const
    {
        if (!before || seconds_ <= 0)
            return {};
        return number((now - *before) & wrap) / seconds_;
    }

    /* The rate of a field of the driver; empty if there is no such field. */
    Cell field_rate(const RdmaObject &object, const RdmaObject *earlier, const char *name,
                    uint64_t wrap) const
    {
        if (earlier == nullptr || !object.driver.contains(name) || !earlier->driver.contains(name))
            return {};
        return rate(number_in(object.driver, name), number_in(earlier->driver, name), wrap);
    }

    static Cell field(const RdmaObject &object, const char *name)
    {
        if (!object.driver.contains(name))
            return {};
        return number(number_in(object.driver, name));
    }

    /* How far one field is ahead of another. */
    static Cell distance(const RdmaObject &object, const char *ahead, const char *behind,
                         uint64_t wrap)
    {
        if (!object.driver.contains(ahead) || !object.driver.contains(behind))
            return {};
        const uint64_t value = (number_in(object.driver, ahead) -
                                number_in(object.driver, behind)) &
                               wrap;
        /* The fields are read one after the other: the second may have gone past the first. */
        return value > wrap / 2 ? 0.0 : number(value);
    }

    Cell counter_rate(const DeviceSample &device, const DeviceSample *earlier,
                      std::initializer_list<const char *> names) const
    {
        double sum = 0;
        bool any = false;

        if (earlier == nullptr)
            return {};
        for (const char *name : names) {
            const auto now = device.counters.find(name), before = earlier->counters.find(name);

            if (now == device.counters.end() || before == earlier->counters.end())
                continue;
            const Cell cell = rate(now->second, before->second, wrap_64);
            if (const auto *value = std::get_if<double>(&cell)) {
                sum += *value;
                any = true;
            }
        }
        return any ? Cell(sum) : Cell();
    }

    std::string process_name(uint64_t pid) const
    {
        const auto found = now_.processes.find(pid);

        return found != now_.processes.end() ? found->second : "";
    }

    static Cell pid_cell(const RdmaObject &object)
    {
        return object.pid != 0 ? Cell(number(object.pid)) : Cell();
    }

    std::string owner(const RdmaObject &object) const
    {
        return object.pid != 0 ? process_name(object.pid) : "[" + object.kernel_user + "]";
    }

    bool wanted(const RdmaObject &object) const
    {
        return filter_.process.empty() || std::to_string(object.pid) == filter_.process ||
               owner(object).find(filter_.process) != std::string::npos;
    }

    bool wanted_qp(const RdmaQp &qp) const
    {
        return wanted(qp) && (!filter_.qp || *filter_.qp == qp.number);
    }

    void add(std::string key, std::vector<Cell> cells)
    {
        rows_.push_back({std::move(key), std::move(cells)});
    }

    static double memory_of(const DeviceSample &device)
    {
        double sum = 0;

        for (const RdmaMr &mr : device.mrs)
            sum += number(mr.length);
        return sum;
    }

    void add_device(const DeviceSample &device, const DeviceSample *earlier)
    {
        const auto per_second = [&](std::initializer_list<const char *> names) {
            return counter_rate(device, earlier, names);
        };
        const RdmaPort port = device.device.ports.empty() ? RdmaPort() : device.device.ports[0];

        add(device.device.name,
            {device.device.name, port.netdev.empty() ? std::string("-") : port.netdev,
             std::string(port.active ? "active" : "down"), per_second({"tx_bytes"}),
             per_second({"rx_bytes"}), per_second({"tx_packets"}), per_second({"rx_packets"}),
             per_second({"retransmitted_packets"}), per_second({"local_ack_timeout_err"}),
             per_second({"rnr_nak_sent"}), per_second({"rx_early_kept"}),
             per_second({"rx_dropped", "tx_dropped"}), number(device.qps.size()),
             number(device.cqs.size()), number(device.mrs.size()), memory_of(device)});
    }

    void add_qps(const DeviceSample &device, const DeviceSample *earlier)
    {
        for (const RdmaQp &qp : device.qps) {
            if (!wanted_qp(qp))
                continue;
            const RdmaObject *old = earlier_object(earlier != nullptr ? &earlier->qps : nullptr,
                                                   qp);
            const Cell rnr = qp.driver.contains("rnr_wait")
                                 ? Cell(std::string(number_in(qp.driver, "rnr_wait") != 0 ? "yes"
                                                                                          : "no"))
                                 : Cell();

            add(fmt::format("{} {}", device.device.name, qp.number),
                {device.device.name,
                 number(qp.number),
                 std::string(qp_type_name(qp.type)),
                 std::string(qp_state_name(qp.state)),
                 pid_cell(qp),
                 owner(qp),
                 qp.peer != 0 ? Cell(number(qp.peer)) : Cell(),
                 field_rate(qp, old, "sq_posted", wrap_32),
                 field_rate(qp, old, "sq_oldest", wrap_32),
                 field_rate(qp, old, "rq_taken", wrap_32),
                 field_rate(qp, old, "sent_psn", wrap_24),
                 distance(qp, "sq_posted", "sq_oldest", wrap_32),
                 distance(qp, "rq_posted", "rq_taken", wrap_32),
                 field(qp, "window"),
                 field(qp, "in_flight"),
                 distance(qp, "credit_ssn", "ssn", wrap_24),
                 field(qp, "timeouts"),
                 field(qp, "retries_left"),
                 rnr,
                 field(qp, "early_bytes")});
        }
    }

    void add_cqs(const DeviceSample &device, const DeviceSample *earlier)
    {
        for (const RdmaCq &cq : device.cqs) {
            if (!wanted(cq))
                continue;
            const RdmaObject *old = earlier_object(earlier != nullptr ? &earlier->cqs : nullptr,
                                                   cq);
            const std::string armed = text_in(cq.driver, "armed");

            add(fmt::format("{} {}", device.device.name, cq.number),
                {device.device.name, number(cq.number), pid_cell(cq), owner(cq),
                 field_rate(cq, old, "produced", wrap_32), number(cq.entries),
                 distance(cq, "produced", "consumed", wrap_32), number(cq.users),
                 armed.empty() ? Cell() : Cell(armed)});
        }
    }

    void add_mrs(const DeviceSample &device)
    {
        for (const RdmaMr &mr : device.mrs) {
            const std::string type = text_in(mr.driver, "type");

            if (wanted(mr))
                add(fmt::format("{} {}", device.device.name, mr.number),
                    {device.device.name, number(mr.number), pid_cell(mr), owner(mr),
                     number(mr.length), type.empty() ? Cell() : Cell(type)});
        }
    }

    static double value_or_zero(const Cell &cell)
    {
        const auto *value = std::get_if<double>(&cell);

        return value != nullptr ? *value : 0;
    }

    void count_objects(const DeviceSample &device, const DeviceSample *earlier)
    {
        for (const RdmaQp &qp : device.qps) {
            const RdmaObject *old = earlier_object(earlier != nullptr ? &earlier->qps : nullptr,
                                                   qp);
            Use &use = uses_[{qp.pid, owner(qp)}];

            use.qps++;
            use.posted += value_or_zero(field_rate(qp, old, "sq_posted", wrap_32));
            use.done += value_or_zero(field_rate(qp, old, "sq_oldest", wrap_32));
            use.received += value_or_zero(field_rate(qp, old, "rq_taken", wrap_32));
        }
        for (const RdmaCq &cq : device.cqs)
            uses_[{cq.pid, owner(cq)}].cqs++;
        for (const RdmaMr &mr : device.mrs) {
            Use &use = uses_[{mr.pid, owner(mr)}];

            use.mrs++;
            use.memory += number(mr.length);
        }
    }

    void add_processes()
    {
        for (const auto &[who, use] : uses_) {
            RdmaObject owner_object;
            const auto per_second = [&](double value) {
                return before_ != nullptr ? Cell(value) : Cell();
            };

            owner_object.pid = who.first;
            if (filter_.process.empty() || std::to_string(who.first) == filter_.process ||
                who.second.find(filter_.process) != std::string::npos)
                add(fmt::format("{} {}", who.first, who.second),
                    {pid_cell(owner_object), who.second, use.qps, use.cqs, use.mrs, use.memory,
                     per_second(use.posted), per_second(use.done), per_second(use.received)});
        }
    }

    const Sample &now_;
    const Sample *before_;
    const Filter &filter_;
    double seconds_;
    std::vector<Row> rows_;
    std::map<std::pair<uint64_t, std::string>, Use> uses_;
};

} // namespace

const std::vector<Column> &columns_of(View view)
{
    static const std::map<View, std::vector<Column>> all = {
        {View::devices,
         {{"device", "DEVICE", Unit::text, 10},
          {"netdev", "NETDEV", Unit::text, 10},
          {"state", "STATE", Unit::text, 6},
          {"tx_bytes", "TX B/s", Unit::byte_rate, 7},
          {"rx_bytes", "RX B/s", Unit::byte_rate, 7},
          {"tx_packets", "TX p/s", Unit::rate, 6},
          {"rx_packets", "RX p/s", Unit::rate, 6},
          {"retransmitted", "RETR/s", Unit::rate, 6},
          {"timeouts", "TOUT/s", Unit::rate, 6},
          {"rnr_naks", "RNR/s", Unit::rate, 6},
          {"early", "EARLY/s", Unit::rate, 7},
          {"dropped", "DROP/s", Unit::rate, 6},
          {"qps", "QPS", Unit::count, 5},
          {"cqs", "CQS", Unit::count, 5},
          {"mrs", "MRS", Unit::count, 5},
          {"memory", "MEMORY", Unit::bytes, 7}}},
        {View::qps,
         {{"device", "DEVICE", Unit::text, 8},     {"qp", "QP", Unit::number, 8},
          {"type", "TYPE", Unit::text, 7},         {"state", "STATE", Unit::text, 5},
          {"pid", "PID", Unit::number, 7},         {"process", "PROCESS", Unit::text, 15},
          {"peer_qp", "PEER QP", Unit::number, 8}, {"posted", "POST/s", Unit::rate, 6},
          {"done", "DONE/s", Unit::rate, 6},       {"received", "RECV/s", Unit::rate, 6},
          {"packets", "PSN/s", Unit::rate, 6},     {"send_queue", "SQ", Unit::count, 5},
          {"receive_queue", "RQ", Unit::count, 5}, {"window", "WINDOW", Unit::count, 6},
          {"in_flight", "FLIGHT", Unit::count, 6}, {"credits", "CREDIT", Unit::count, 6},
          {"timeouts", "TOUTS", Unit::count, 5},   {"retries_left", "RETRY", Unit::count, 5},
          {"rnr", "RNR", Unit::text, 3},           {"early_bytes", "EARLY B", Unit::bytes, 7}}},
        {View::cqs,
         {{"device", "DEVICE", Unit::text, 10},
          {"cq", "CQ", Unit::number, 8},
          {"pid", "PID", Unit::number, 7},
          {"process", "PROCESS", Unit::text, 15},
          {"completions", "CQE/s", Unit::rate, 7},
          {"entries", "ENTRIES", Unit::count, 7},
          {"depth", "DEPTH", Unit::count, 6},
          {"users", "USERS", Unit::count, 6},
          {"armed", "ARMED", Unit::text, 9}}},
        {View::mrs,
         {{"device", "DEVICE", Unit::text, 10},
          {"mr", "MR", Unit::number, 8},
          {"pid", "PID", Unit::number, 7},
          {"process", "PROCESS", Unit::text, 15},
          {"length", "LENGTH", Unit::bytes, 8},
          {"type", "TYPE", Unit::text, 17}}},
        {View::processes,
         {{"pid", "PID", Unit::number, 7},
          {"process", "PROCESS", Unit::text, 15},
          {"qps", "QPS", Unit::count, 6},
          {"cqs", "CQS", Unit::count, 6},
          {"mrs", "MRS", Unit::count, 6},
          {"memory", "MEMORY", Unit::bytes, 7},
          {"posted", "POST/s", Unit::rate, 7},
          {"done", "DONE/s", Unit::rate, 7},
          {"received", "RECV/s", Unit::rate, 7}}},
    };

    return all.at(view);
}

const char *view_name(View view)
{
    switch (view) {
    case View::devices: return "devices";
    case View::qps: return "qps";
    case View::cqs: return "cqs";
    case View::mrs: return "mrs";
    case View::processes: return "processes";
    }
    return "?";
}

std::optional<View> view_of(const std::string &name)
{
    for (const View view : views)
        if (name == view_name(view))
            return view;
    return std::nullopt;
}

std::optional<size_t> column_index(View view, const std::string &name)
{
    const std::vector<Column> &columns = columns_of(view);
    const auto found = std::ranges::find_if(
        columns, [&](const Column &column) { return name == column.name; });

    return found != columns.end() ? std::optional(static_cast<size_t>(found - columns.begin()))
                                  : std::nullopt;
}

size_t main_column(View view)
{
    static const std::map<View, const char *> names = {{View::devices, "tx_bytes"},
                                                       {View::qps, "done"},
                                                       {View::cqs, "completions"},
                                                       {View::mrs, "length"},
                                                       {View::processes, "done"}};

    return *column_index(view, names.at(view));
}

Table make_table(View view, const Sample &now, const Sample *before, const Filter &filter)
{
    return {view, Maker(now, before, filter).rows(view)};
}

void sort_table(Table &table, size_t column, bool reverse)
{
    const bool texts = columns_of(table.view)[column].unit == Unit::text ||
                       columns_of(table.view)[column].unit == Unit::number;
    const bool upwards = texts != reverse;

    std::ranges::stable_sort(table.rows, [&](const Row &a, const Row &b) {
        return upwards ? a.cells[column] < b.cells[column] : b.cells[column] < a.cells[column];
    });
}

} // namespace rox::top
