/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* rox-doctor: says why RDMA by rox does not work, and what mends it. */
#include "doctor/real.hpp"
#include "doctor/report.hpp"
#include "lib/program.hpp"

#include <cstdio>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace {

using namespace rox;
using namespace rox::doctor;

struct Arguments {
    Options options;
    std::vector<std::string> only;
    bool json = false, brief = false, no_self_test = false;
};

std::vector<std::string> check_names()
{
    std::vector<std::string> names;

    for (const auto &check : all_checks())
        names.emplace_back(check->name());
    return names;
}

void declare(CLI::App &app, Arguments &arguments)
{
    app.add_option("device", arguments.options.device, "an RDMA device; default: all of rox");
    app.add_option("-g,--gid-index", arguments.options.gid_index,
                   "judge this GID index, which a program shall use");
    app.add_option("-p,--peer", arguments.options.peer, "also measure the MTU to this address");
    app.add_option("--only", arguments.only, "run only these checks, separated by commas")
        ->delimiter(',')
        ->allow_extra_args(false) // the next word is the device
        ->option_text("CHECK,...")
        ->check(CLI::IsMember(check_names()));
    app.add_flag("--no-self-test", arguments.no_self_test, "send nothing");
    app.add_flag("-q,--quiet", arguments.brief, "print warnings and problems only");
    app.add_flag("-j,--json", arguments.json, "print JSON");
    app.footer(fmt::format("Checks: {}\n", fmt::join(check_names(), " ")) +
               "Below each finding are the commands that mend it.\n"
               "Exit status: 0 if no problem was found, 1 if there is one, 2 for wrong usage.");
}

int examine_host(Arguments &arguments)
{
    constexpr int problem_status = 1;
    const Tree files;
    KernelRdmaNetlink netlink;
    RealCommands commands;
    RealNetwork network;
    VerbsSelfTest self_test;
    arguments.options.self_test = !arguments.no_self_test;
    const Host host{files, netlink, commands, network, self_test, this_process()};
    const Report report = examine(host, arguments.options, arguments.only);

    fmt::print("{}", arguments.json ? as_json(report) : as_text(report, arguments.brief));
    return worst(report) == Level::problem ? problem_status : 0;
}

} // namespace

int main(int argc, char **argv)
{
    constexpr rox::Program program{
        .name = "rox-doctor",
        .description = "Says why RDMA by rox does not work, and what mends it.",
        .failure_status = rox::usage_status};

    return rox::run_program<Arguments>(program, argc, argv, declare, examine_host);
}
