/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* rox-run: runs a command in a kernel of its own that has an RDMA device. */
#include "run/caller.hpp"
#include "run/image.hpp"
#include "run/inside.hpp"
#include "run/machine.hpp"
#include "run/networks.hpp"
#include "run/relay.hpp"
#include "run/user_mode.hpp"
#include "run/virtual_machine.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

namespace {

using namespace rox::run;

struct Arguments {
    std::vector<std::string> command, writable, kernel;
    std::string link, node, log, join;
    unsigned nodes = 1, number = 0, memory = 0, cpus = 0;
    double timeout = 0;
    bool net = false, user = false, vm = false, verbose = false;
};

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
                   "within a command of rox-run: run this one on that node")
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

/// Folders by their real names, as the command finds them.
std::vector<std::string> real_folders(const std::vector<std::string> &named)
{
    std::vector<std::string> real;

    for (const auto &folder : named)
        real.push_back(std::filesystem::canonical(folder));
    return real;
}

/// In which kernel the command runs.
struct Choice {
    Image image;
    std::string qemu; ///< QEMU's program; empty: User Mode Linux
    unsigned most_cpus;
};

Choice choose(const Arguments &arguments, const Image &image)
{
    constexpr unsigned most_virtual_cpus = 64;
    const std::string obstacle = arguments.vm ? std::string() : user_mode_obstacle(image),
                      qemu = find_qemu();

    if (!arguments.vm && obstacle.empty())
        return {image, "", image.most_cpus()};
    if (!obstacle.empty() && arguments.verbose)
        fmt::print(stderr, "rox-run: User Mode Linux cannot run here: {}\n", obstacle);
    const std::string why = obstacle.empty()
                                ? ""
                                : fmt::format("User Mode Linux cannot run here ({}), and ",
                                              obstacle);
    if (qemu.empty())
        throw std::runtime_error(why +
                                 "there is no qemu-system-x86_64 for --vm (Debian's package is "
                                 "qemu-system-x86)");
    if (!image.virtual_machine().is_complete())
        throw std::runtime_error(
            fmt::format("{}there is no kernel for --vm in {} (Debian's package is rox-run-vm)", why,
                        image.virtual_machine().folder));
    return {image.virtual_machine(), qemu, most_virtual_cpus};
}

unsigned number_of_cpus(const Choice &choice, unsigned wanted)
{
    if (wanted > choice.most_cpus)
        throw std::runtime_error(
            fmt::format("--cpus: {} has at most {}", choice.image.kernel(), choice.most_cpus));
    return wanted != 0 ? wanted : default_cpus(choice.most_cpus);
}

/// The provider for the libibverbs that the command finds. It may have one of its own elsewhere, or
/// need none.
void take_provider(Job &job, const Image &image, bool verbose)
{
    const auto provider = find_provider(image, "");

    if (!provider) {
        fmt::print(stderr, "rox-run: there is no libibverbs (Debian's package is libibverbs1): "
                           "RDMA programs find no device\n");
        return;
    }
    job.provider = provider->file;
    job.provider_target = provider->target;
    if (verbose)
        fmt::print(stderr, "rox-run: provider {} for {}\n", provider->file, provider->library);
}

/// A kernel that has the networks of the job. They are closed here, so that they end with it.
std::unique_ptr<Machine> start(const Arguments &arguments, const Choice &choice,
                               MachineSettings settings, Job &job)
{
    Networks networks;

    if (arguments.net)
        networks.go_out(job);
    if (!arguments.join.empty()) {
        const bool first = networks.join(job, arguments.join, arguments.number);

        if (arguments.verbose)
            fmt::print(stderr, "rox-run: node{} of {} network at {}\n", job.address,
                       first ? "a new" : "the", arguments.join);
    }
    hold_signals();
    settings.networks = networks.sockets();
    settings.writable = job.writable;
    if (choice.qemu.empty())
        return std::make_unique<UserMode>(choice.image, settings);
    auto machine = std::make_unique<VirtualMachine>(choice.image, settings, choice.qemu);
    if (arguments.verbose)
        fmt::print(stderr, "rox-run: {}, {}\n", choice.qemu,
                   machine->accelerated() ? "with KVM" : "emulated");
    return machine;
}

int run(const Arguments &arguments)
{
    const Image image = find_image();
    const Choice choice = choose(arguments, image);
    Terminal terminal;
    Job job;

    job.arguments = arguments.command;
    job.nodes = arguments.nodes;
    job.link = parse_link(arguments.link);
    take_caller(job);
    if (arguments.user)
        take_user(job);
    take_streams(job, terminal.wanted());
    job.writable = real_folders(arguments.writable);
    job.writable.insert(job.writable.begin(), job.folder);
    job.program = std::filesystem::read_symlink("/proc/self/exe");
    job.programs = image.programs();
    take_provider(job, image, arguments.verbose);
    const unsigned memory = arguments.memory != 0 ? arguments.memory : default_memory();
    const unsigned cpus = number_of_cpus(choice, arguments.cpus);
    if (arguments.verbose)
        fmt::print(stderr, "rox-run: {} with {} MiB, {} CPUs\n", choice.image.kernel(), memory,
                   cpus);
    const auto machine = start(arguments, choice, {memory, cpus, arguments.kernel, {}, {}}, job);
    return relay(*machine, job, terminal, {arguments.timeout, arguments.verbose, arguments.log});
}

/// Parses the options before the command. @return an exit status, or -1
int parse(CLI::App &app, Arguments &arguments, int argc, char **argv)
{
    app.prefix_command();
    try {
        app.parse(argc, argv);
        arguments.command = app.remaining();
        // What is no option ends the options, also what looks like one.
        if (!arguments.command.empty() && arguments.command[0] == "--")
            arguments.command.erase(arguments.command.begin());
        else if (!arguments.command.empty() && arguments.command[0].starts_with('-'))
            throw CLI::ExtrasError("rox-run", {arguments.command[0]});
        if (arguments.command.empty())
            throw CLI::RequiredError("a command");
        return -1;
    } catch (const CLI::ParseError &error) {
        return app.exit(error) == 0 ? 0 : status_failed;
    }
}

} // namespace

int main(int argc, char **argv)
{
    Arguments arguments;
    CLI::App app("Runs a command with an RDMA device, in a kernel of its own: no root, no module, "
                 "no virtual machine.",
                 "rox-run");
    int status = status_failed;

    try {
        declare(app, arguments);
        status = parse(app, arguments, argc, argv);
        if (status < 0)
            status = is_inside() ? run_on_node(arguments.node, arguments.command) : run(arguments);
    } catch (const std::exception &error) {
        fmt::print(stderr, "rox-run: {}\n", error.what());
        status = status_failed;
    }
    // Threads may still read standard input.
    std::fflush(nullptr);
    _exit(status);
}
