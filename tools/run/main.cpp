/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* rox-run: runs a command in a kernel of its own that has an RDMA device. */
#include "run/arguments.hpp"
#include "run/caller.hpp"
#include "run/image.hpp"
#include "run/inside.hpp"
#include "run/machine.hpp"
#include "run/messages.hpp"
#include "run/networks.hpp"
#include "run/relay.hpp"
#include "run/user_mode.hpp"
#include "run/virtual_machine.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <unistd.h>

namespace {

using namespace rox::run;

/// Folders by their real names, as the command finds them.
std::vector<std::string> real_folders(const std::vector<std::string> &named)
{
    std::vector<std::string> real;

    real.reserve(named.size());
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
        print_line("User Mode Linux cannot run here: " + obstacle);
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
        print_line("there is no libibverbs (Debian's package is libibverbs1): RDMA programs find "
                   "no device");
        return;
    }
    job.provider = provider->file;
    job.provider_target = provider->target;
    if (verbose)
        print_line(fmt::format("provider {} for {}", provider->file, provider->library));
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
            print_line(fmt::format("node{} of {} network at {}", job.address,
                                   first ? "a new" : "the", arguments.join));
    }
    hold_signals();
    settings.networks = networks.sockets();
    settings.writable = job.writable;
    if (choice.qemu.empty())
        return std::make_unique<UserMode>(choice.image, settings);
    auto machine = std::make_unique<VirtualMachine>(choice.image, settings, choice.qemu);
    if (arguments.verbose)
        print_line(
            fmt::format("{}, {}", choice.qemu, machine->accelerated() ? "with KVM" : "emulated"));
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
    check_writable(job);
    const unsigned memory = arguments.memory != 0 ? arguments.memory : default_memory();
    const unsigned cpus = number_of_cpus(choice, arguments.cpus);
    if (arguments.verbose)
        print_line(fmt::format("{} with {} MiB, {} CPUs", choice.image.kernel(), memory, cpus));
    const auto machine = start(arguments, choice, {memory, cpus, arguments.kernel, {}, {}}, job);
    return relay(*machine, job, terminal, {arguments.timeout, arguments.verbose, arguments.log});
}

} // namespace

int main(int argc, char **argv)
{
    int status = status_failed;

    try {
        const bool inside = is_inside();
        const Parsed parsed = parse(argc, argv, inside);
        const Arguments &arguments = parsed.arguments;

        if (parsed.status)
            status = *parsed.status;
        else
            status = inside ? run_on_node(arguments.node, arguments.command) : run(arguments);
    } catch (const std::exception &error) {
        print_line(error.what());
        status = status_failed;
    }
    // Threads may still read standard input.
    std::fflush(nullptr);
    _exit(status);
}
