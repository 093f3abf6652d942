/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "doctor/real.hpp"
#include "lib/file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ; // NOLINT(readability-redundant-declaration)

namespace rox::doctor {

namespace {

std::string read_all(int fd)
{
    std::array<char, 4096> buffer{};
    std::string text;
    ssize_t got = 0;

    while ((got = read(fd, buffer.data(), buffer.size())) > 0)
        text.append(buffer.data(), static_cast<size_t>(got));
    return text;
}

/* Starts a program of PATH, or one of the folders that only root's PATH has. */
int spawn(pid_t *child, const std::string &program, posix_spawn_file_actions_t *actions,
          char **arguments)
{
    int error = posix_spawnp(child, program.c_str(), actions, nullptr, arguments, environ);

    for (const char *folder : {"/usr/sbin/", "/sbin/"})
        if ((error == ENOENT || error == EACCES) && program.find('/') == std::string::npos)
            error = posix_spawn(child, (folder + program).c_str(), actions, nullptr, arguments,
                                environ);
    return error;
}

pid_t start(const std::vector<std::string> &command, int output)
{
    std::vector<char *> arguments;
    posix_spawn_file_actions_t actions;
    pid_t child = -1;

    arguments.reserve(command.size() + 1);
    for (const std::string &word : command)
        arguments.push_back(const_cast<char *>(word.c_str()));
    arguments.push_back(nullptr);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (spawn(&child, command[0], &actions, arguments.data()) != 0)
        child = -1;
    posix_spawn_file_actions_destroy(&actions);
    return child;
}

/* The requests of ethtool on a netdev. */
class Ethtool {
public:
    explicit Ethtool(const std::string &netdev) : socket_(socket(AF_INET, SOCK_DGRAM, 0))
    {
        netdev.copy(request_.ifr_name, IFNAMSIZ - 1);
    }

    bool ask(void *command)
    {
        request_.ifr_data = static_cast<char *>(command);
        return socket_.ok() && ioctl(socket_.get(), SIOCETHTOOL, &request_) == 0;
    }

    /// The names of all features, in the order of their bits.
    std::vector<std::string> feature_names()
    {
        std::vector<uint32_t> info(sizeof(ethtool_sset_info) / sizeof(uint32_t) + 1);
        auto *sets = reinterpret_cast<ethtool_sset_info *>(info.data());
        std::vector<std::string> names;

        sets->cmd = ETHTOOL_GSSET_INFO;
        sets->sset_mask = uint64_t{1} << ETH_SS_FEATURES;
        if (!ask(sets) || sets->sset_mask == 0)
            return names;
        const uint32_t count = sets->data[0];
        std::vector<uint8_t> memory(sizeof(ethtool_gstrings) + size_t{count} * ETH_GSTRING_LEN);
        auto *strings = reinterpret_cast<ethtool_gstrings *>(memory.data());
        strings->cmd = ETHTOOL_GSTRINGS;
        strings->string_set = ETH_SS_FEATURES;
        strings->len = count;
        if (!ask(strings))
            return names;
        for (size_t i = 0; i < count; i++) {
            const auto *name = reinterpret_cast<const char *>(strings->data + i * ETH_GSTRING_LEN);
            names.emplace_back(name, strnlen(name, ETH_GSTRING_LEN));
        }
        return names;
    }

    /// Whether a feature is on; nothing if it is off and cannot be changed.
    std::optional<bool> feature(size_t bit, size_t count)
    {
        constexpr size_t bits = 32;
        const size_t blocks = (count + bits - 1) / bits;
        std::vector<uint32_t> memory((sizeof(ethtool_gfeatures) / sizeof(uint32_t)) +
                                     blocks * sizeof(ethtool_get_features_block) /
                                         sizeof(uint32_t));
        auto *features = reinterpret_cast<ethtool_gfeatures *>(memory.data());

        features->cmd = ETHTOOL_GFEATURES;
        features->size = static_cast<uint32_t>(blocks);
        if (!ask(features))
            return std::nullopt;
        const ethtool_get_features_block &block = features->features[bit / bits];
        const uint32_t mask = uint32_t{1} << (bit % bits);
        if ((block.active & mask) != 0)
            return true;
        return (block.available & mask) != 0 && (block.never_changed & mask) == 0
                   ? std::optional(false)
                   : std::nullopt;
    }

private:
    File socket_;
    ifreq request_{};
};

bool has_capability(unsigned capability)
{
    constexpr unsigned bits = 32;
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> data{};

    return syscall(SYS_capget, &header, data.data()) == 0 &&
           (data[capability / bits].effective >> (capability % bits) & 1) != 0;
}

} // namespace

CommandResult RealCommands::run(const std::vector<std::string> &command)
{
    std::array<int, 2> ends{};
    int status = -1;

    if (pipe2(ends.data(), O_CLOEXEC) != 0)
        return {};
    const File from(ends[0]);
    File to(ends[1]);
    const pid_t child = start(command, to.get());
    to.reset();
    if (child < 0)
        return {};
    CommandResult result{.ran = false, .output = read_all(from.get())};
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    result.ran = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return result;
}

std::optional<bool> RealNetwork::feature(const std::string &netdev, const std::string &name)
{
    Ethtool ethtool(netdev);
    const std::vector<std::string> names = ethtool.feature_names();
    const auto found = std::ranges::find(names, name);

    if (found == names.end())
        return std::nullopt;
    return ethtool.feature(static_cast<size_t>(found - names.begin()), names.size());
}

Reach RealNetwork::ping(const std::string &netdev, const std::string &address, size_t size)
{
    constexpr size_t ipv4_headers = 20 + 8, ipv6_headers = 40 + 8; // of IP and ICMP
    const size_t headers = address.find(':') != std::string::npos ? ipv6_headers : ipv4_headers;
    const std::string payload = std::to_string(size - std::min(size, headers));
    RealCommands commands;

    if (!commands.run({"ping", "-V"}).ran)
        return Reach::unknown;
    return commands.run({"ping", "-n", "-c", "2", "-i", "0.2", "-W", "1", "-M", "do", "-I", netdev,
                         "-s", payload, address})
                   .ran
               ? Reach::yes
               : Reach::no;
}

Process this_process()
{
    utsname names{};
    rlimit limit{};

    uname(&names);
    getrlimit(RLIMIT_MEMLOCK, &limit);
    return {.kernel = names.release,
            .memlock = limit.rlim_cur == RLIM_INFINITY ? ~uint64_t{0} : limit.rlim_cur,
            .may_lock_all = has_capability(CAP_IPC_LOCK)};
}

} // namespace rox::doctor
