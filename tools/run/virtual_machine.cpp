/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "run/virtual_machine.hpp"

#include "run/mux.hpp"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <x86intrin.h>

namespace rox::run {
namespace {

using Clock = std::chrono::steady_clock;

/// A kernel that KVM runs comes up in less.
constexpr std::chrono::seconds patience(20);

/// kHz of the time stamp counter. An emulated kernel would measure it against timers that stand
/// still while the host is busy.
uint64_t counter_rate()
{
    const auto began = Clock::now();
    const uint64_t before = __rdtsc();

    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const uint64_t ticks = __rdtsc() - before;
    const std::chrono::duration<double, std::milli> passed = Clock::now() - began;
    return static_cast<uint64_t>(static_cast<double>(ticks) / passed.count());
}

/// What QEMU's options end at a comma.
std::string escaped(const std::string &path)
{
    std::string text;

    for (const char c : path)
        text.append(c == ',' ? 2 : 1, c);
    return text;
}

void add_files(std::vector<std::string> &line, const std::string &tag, const std::string &folder,
               bool writable)
{
    line.insert(line.end(),
                {"-fsdev",
                 fmt::format("local,id={},path={},security_model=none,multidevs=remap{}", tag,
                             escaped(folder), writable ? "" : ",readonly=on"),
                 "-device", fmt::format("virtio-9p-pci,fsdev={0},mount_tag={0}", tag)});
}

std::string kernel_arguments(const Image &image, const MachineSettings &settings, bool accelerated)
{
    std::string line = "console=ttyS0 loglevel=7 panic=-1 oops=panic nokaslr random.trust_cpu=on "
                       "mitigations=off net.ifnames=0 ib_core.netns_mode=0 "
                       "rcupdate.rcu_expedited=1";

    if (!accelerated)
        line += fmt::format(" no_timer_check tsc=reliable clocksource=tsc tsc_early_khz={}",
                            counter_rate());
    for (const auto &more : {image.arguments(), settings.more})
        for (const auto &argument : more)
            line += ' ' + argument;
    return line;
}

/// The words of a text that are separated by blanks.
std::vector<std::string> words(const std::string &text)
{
    std::istringstream stream(text);

    return {std::istream_iterator<std::string>(stream), {}};
}

std::vector<std::string> command_line(const Image &image, const MachineSettings &settings,
                                      const std::string &qemu, bool accelerated, int port)
{
    // Emulated, string instructions that go byte by byte are slow where a CPU calls them fast.
    std::vector<std::string> line = words(fmt::format(
        "-nodefaults -no-user-config -display none -no-reboot -machine q35 -accel {} -cpu {} "
        "-smp {} -m {} -device virtio-rng-pci -chardev stdio,id=log,signal=off "
        "-serial chardev:log -device virtio-serial-pci -chardev socket,id=port,fd={} "
        "-device virtserialport,chardev=port,name=rox-run",
        accelerated ? "kvm" : "tcg,thread=multi", accelerated ? "host" : "max,-erms,-fsrm",
        settings.cpus, settings.memory, port));

    line.insert(line.begin(), qemu);
    line.insert(line.end(), {"-kernel", image.kernel(), "-initrd", image.first_process(), "-append",
                             kernel_arguments(image, settings, accelerated)});
    add_files(line, root_tag, "/", false);
    for (size_t i = 0; i < settings.writable.size(); i++)
        add_files(line, writable_tag(i), settings.writable[i], true);
    return line;
}

/// Whether something comes in time.
bool comes_up(const File &port)
{
    pollfd entry{port.get(), POLLIN, 0};

    return poll(&entry, 1, static_cast<int>(std::chrono::milliseconds(patience).count())) > 0 &&
           (entry.revents & POLLHUP) == 0;
}

/// In a thread: carries the pipes, also after the machine's end, as long as somebody reads.
void carry(const File &port, const std::vector<std::unique_ptr<File>> &ends)
{
    std::vector<int> sockets;

    for (const auto &end : ends)
        sockets.push_back(end->get());
    Mux(port.get(), sockets).run();
}

} // namespace

std::string find_qemu()
{
    const char *const path = std::getenv("PATH");
    std::istringstream folders(path != nullptr ? path : "/usr/bin:/bin");

    for (std::string folder; std::getline(folders, folder, ':');) {
        const std::string file = folder + "/qemu-system-x86_64";

        if (access(file.c_str(), X_OK) == 0)
            return file;
    }
    return {};
}

VirtualMachine::VirtualMachine(const Image &image, const MachineSettings &settings,
                               const std::string &qemu)
{
    auto ends = make_pipes();

    for (const int socket : settings.networks) {
        const int copy = fcntl(socket, F_DUPFD_CLOEXEC, 0);

        ends.push_back(std::make_unique<File>(copy));
    }
    accelerated_ = access("/dev/kvm", R_OK | W_OK) == 0;
    auto port = power_on(image, settings, qemu);
    if (accelerated_ && !comes_up(*port)) {
        end();
        accelerated_ = false;
        port = power_on(image, settings, qemu);
    }
    std::thread([port = std::move(port), ends = std::move(ends)] { carry(*port, ends); }).detach();
}

std::unique_ptr<File> VirtualMachine::power_on(const Image &image, const MachineSettings &settings,
                                               const std::string &qemu)
{
    auto [mine, other] = make_pair();

    start({command_line(image, settings, qemu, accelerated_, other->get()),
           {"LANG=C"},
           {other->get()}});
    return std::move(mine);
}

} // namespace rox::run
