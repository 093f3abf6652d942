/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "run/inside.hpp"

#include "lib/file.hpp"
#include "run/machine.hpp"
#include "run/messages.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

namespace rox::run {
namespace {

/// Enters the network namespace, and sees its devices in /sys, as `ip netns exec` does it.
void enter(const std::string &node)
{
    const std::string name = "/run/netns/" + node;
    const File space(open(name.c_str(), O_RDONLY | O_CLOEXEC));

    if (!space.ok())
        throw std::runtime_error(fmt::format("there is no node '{}'", node));
    if (setns(space.get(), CLONE_NEWNET) != 0 || unshare(CLONE_NEWNS | CLONE_NEWUTS) != 0 ||
        mount("", "/", nullptr, MS_SLAVE | MS_REC, nullptr) != 0 ||
        umount2("/sys", MNT_DETACH) != 0 || mount("sysfs", "/sys", "sysfs", 0, nullptr) != 0 ||
        sethostname(node.data(), node.size()) != 0)
        throw std::system_error(errno, std::generic_category(), node);
}

} // namespace

bool is_inside()
{
    return std::getenv("ROX_RUN") != nullptr && access("/run/rox-run", F_OK) == 0;
}

int run_on_node(const std::string &node, const std::vector<std::string> &command)
{
    std::vector<char *> arguments;

    if (!node.empty())
        enter(node);
    for (const auto &argument : command)
        arguments.push_back(const_cast<char *>(argument.c_str()));
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    const int error = errno;
    print_line(fmt::format("'{}': {}", command[0], std::strerror(error)));
    return error == ENOENT ? status_not_found : status_not_executable;
}

} // namespace rox::run
