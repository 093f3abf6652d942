/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "run/arguments.hpp"
#include "run/job.hpp"
#include "run/machine.hpp"

#include <cstdlib>

#include <CLI/CLI.hpp>

namespace rox::run {
namespace {

void declare_network(CLI::App &app, Arguments &arguments)
{
    app.add_option("--nodes", arguments.nodes,
                   "so many network namespaces, node1 and so on, a device each")
        ->check(CLI::Range(1U, most_nodes))
        ->option_text("N");
    app.add_option("--link", arguments.link,
                   "how the nodes are joined: \"mtu 9000 delay 1ms loss 1% rate 1gbit\"")
        ->option_text("TEXT");
    CLI::Option *const join = app.add_option(
        "--join", arguments.join, "one network with all rox-run's that name this socket");
    join->option_text("PATH")->check(
        [](const std::string &path) { return path.empty() ? "no path" : std::string(); });
    app.add_option("--number", arguments.number,
                   "be nodeN of that network; default: the first that is free")
        ->check(CLI::Range(1U, most_nodes))
        ->needs(join)
        ->option_text("N");
    app.add_flag("--net", arguments.net,
                 "a way out to the host's network, by passt, for the first node");
    app.add_option("-n,--node", arguments.node,
                   "within a command of rox-run only: run this one on that node")
        ->option_text("NODE");
}

void declare(CLI::App &app, Arguments &arguments)
{
    constexpr unsigned least_memory = 64, most_memory = 1 << 20, most_cpus = 64;

    app.add_option("--write", arguments.writable,
                   "what the command changes in this folder stays; may be repeated")
        ->allow_extra_args(false)
        ->option_text("DIR");
    app.add_flag("--user", arguments.user, "run the command as you; default: as root inside");
    declare_network(app, arguments);
    app.add_option("--timeout", arguments.timeout, "end it after so many seconds, with status 124")
        ->check(CLI::PositiveNumber)
        ->option_text("SECONDS");
    app.add_option("--memory", arguments.memory,
                   "MiB for kernel and command; default: half of what is free, up to 2048")
        ->check(CLI::Range(least_memory, most_memory))
        ->option_text("MIB");
    app.add_option("--cpus", arguments.cpus, "so many CPUs; default: the host's, but 2 to 4")
        ->check(CLI::Range(1U, most_cpus))
        ->option_text("N");
    app.add_flag("--vm", arguments.vm, "in QEMU; default: only where User Mode Linux cannot run")
        ->envname("ROX_RUN_VM");
    app.add_option("--kernel-log", arguments.log, "write the kernel's log to this file")
        ->option_text("FILE");
    app.add_option("--kernel-argument", arguments.kernel,
                   "one more for the kernel's command line; may be repeated")
        ->allow_extra_args(false)
        ->option_text("TEXT");
    app.add_flag("-v,--verbose", arguments.verbose, "say what happens");
    app.footer("Exit status: the command's, 128 + N if signal N ended it; 122 the kernel panicked, "
               "123 it was out of\n"
               "memory, 124 time limit, 125 rox-run failed, 126 the command cannot be run, 127 "
               "there is none.");
}

/// True if an option was given, and not by the environment.
bool is_given(const CLI::Option &option)
{
    return option.count() != 0 &&
           (option.get_envname().empty() || std::getenv(option.get_envname().c_str()) == nullptr);
}

/// Refuses options that mean nothing where rox-run runs.
void judge(const CLI::App &app, bool inside)
{
    for (const CLI::Option *option : app.get_options()) {
        const std::string name = option->get_name();

        if (!is_given(*option) || option == app.get_help_ptr())
            continue;
        if (inside && name != "--node")
            throw CLI::ValidationError(name, "means nothing within a command of rox-run");
        if (!inside && name == "--node")
            throw CLI::ValidationError(
                name, "is for within a command of rox-run; --nodes N makes so many nodes");
    }
}

/// What follows the options.
std::vector<std::string> command_of(const CLI::App &app)
{
    std::vector<std::string> command = app.remaining();

    // What is no option ends the options, also what looks like one.
    if (!command.empty() && command[0] == "--")
        command.erase(command.begin());
    else if (!command.empty() && command[0].starts_with('-'))
        throw CLI::ExtrasError("rox-run", {command[0]});
    if (command.empty())
        throw CLI::RequiredError("a command");
    return command;
}

} // namespace

Parsed parse(int argc, const char *const *argv, bool inside)
{
    Parsed parsed;
    CLI::App app("Runs a command with an RDMA device, in a kernel of its own: no root, no module, "
                 "no virtual machine.",
                 "rox-run");

    declare(app, parsed.arguments);
    app.prefix_command();
    try {
        app.parse(argc, argv);
        judge(app, inside);
        parsed.arguments.command = command_of(app);
    } catch (const CLI::ParseError &error) {
        parsed.status = app.exit(error) == 0 ? 0 : status_failed;
    }
    return parsed;
}

} // namespace rox::run
