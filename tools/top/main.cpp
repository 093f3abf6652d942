/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* roxtop: a live table of RDMA devices, QPs, CQs, MRs and processes. */
#include "lib/program.hpp"
#include "top/screen.hpp"
#include "top/table.hpp"

#include <chrono>
#include <cstdio>
#include <thread>

#include <fmt/format.h>
#include <unistd.h>

namespace {

using namespace rox;
using namespace rox::top;

struct Arguments {
    std::string device, view = "devices", sort;
    ScreenOptions options;
    bool json = false, once = false;
};

double seconds_now()
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

void wait_for(double seconds)
{
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

void declare(CLI::App &app, Arguments &arguments)
{
    app.add_option("device", arguments.device, "an RDMA device; default: all");
    app.add_option("-v,--view", arguments.view, "which table")
        ->check(CLI::IsMember({"devices", "qps", "cqs", "mrs", "processes"}));
    app.add_option("-s,--sort", arguments.sort, "the column to sort by, by its name in --json");
    app.add_flag("-r,--reverse", arguments.options.reverse, "sort the other way round");
    app.add_option("-i,--interval", arguments.options.interval, "seconds between two samples (1)")
        ->check(CLI::Range(0.05, 3600.0));
    app.add_option("-p,--process", arguments.options.filter.process,
                   "only what belongs to this PID, or to processes with this in their name");
    app.add_option("-q,--qp", arguments.options.filter.qp, "only the QP with this number");
    app.add_flag("-j,--json", arguments.json, "print all tables, one line of JSON for each sample");
    app.add_flag("-1,--once", arguments.once,
                 "print once, with the rates of one interval, and end");
    app.footer("Keys: 1 to 5 or Tab: table; < and >: column to sort by; r: reverse; /: process;\n"
               "      + and -: interval; Space: pause; q: quit.");
}

/* Prints a sample and its rates. */
void print(const Arguments &arguments, const Sample &now, const Sample &before)
{
    const ScreenOptions &options = arguments.options;

    if (arguments.json) {
        fmt::print("{}", as_json(now, &before, options.filter));
    } else {
        Table table = make_table(options.view, now, &before, options.filter);

        sort_table(table, options.sort.value_or(main_column(options.view)), options.reverse);
        fmt::print("{}", as_text(table));
    }
    std::fflush(stdout);
}

int show(Arguments &arguments)
{
    const Tree files;
    KernelRdmaNetlink netlink;
    const auto sample = [&] {
        return take_sample(netlink, files, seconds_now(), arguments.device);
    };

    if (!netlink.works())
        throw std::runtime_error("the kernel has no RDMA subsystem (rox-doctor says more)");
    arguments.options.view = *view_of(arguments.view);
    if (!arguments.sort.empty()) {
        arguments.options.sort = column_index(arguments.options.view, arguments.sort);
        if (!arguments.options.sort)
            throw CLI::ValidationError("--sort", "there is no such column in this table");
    }
    Sample before = sample();
    if (!arguments.device.empty() && before.devices.empty())
        throw std::runtime_error("there is no RDMA device " + arguments.device);
    /* Without keys nobody could end the screen, and reading them would not wait. */
    if (!arguments.json && !arguments.once && isatty(STDOUT_FILENO) != 0 &&
        isatty(STDIN_FILENO) != 0)
        return run_screen(arguments.options, sample);
    do {
        wait_for(arguments.options.interval);
        Sample now = sample();
        print(arguments, now, before);
        before = std::move(now);
    } while (!arguments.once && std::ferror(stdout) == 0);
    return 0;
}

} // namespace

int main(int argc, char **argv)
{
    constexpr int failure_status = 1;
    constexpr rox::Program program{
        .name = "roxtop",
        .description = "A live table of RDMA devices, QPs, CQs, MRs and processes.",
        .failure_status = failure_status};

    return rox::run_program<Arguments>(program, argc, argv, declare, show);
}
