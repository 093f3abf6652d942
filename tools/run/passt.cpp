/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "run/passt.hpp"

#include "run/way_out.hpp"

#include <cerrno>
#include <chrono>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace rox::run {
namespace {

/// passt is ready within this time, or never.
constexpr std::chrono::seconds patience(10);
/// Its number of its end of the socket.
constexpr int passt_socket = 3;

[[noreturn]] void complain(int error, const char *what)
{
    throw std::system_error(error, std::generic_category(), what);
}

/// All that the process has to know is told here, so no DHCP is needed.
std::vector<std::string> command_line()
{
    using namespace way_out;

    return {"passt",     "--fd",      std::to_string(passt_socket),
            "--quiet",   "--mtu",     std::to_string(mtu),
            "--address", address,     "--netmask",
            mask,        "--gateway", gateway,
            "--address", address6,    "--gateway",
            gateway6,    "--no-dhcp", "--no-dhcpv6",
            "--no-ra"};
}

/// The attributes of the new process: its file descriptors.
class Actions {
public:
    Actions(int socket, int messages)
    {
        posix_spawn_file_actions_init(&actions_);
        posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDWR, 0);
        posix_spawn_file_actions_adddup2(&actions_, messages, 1);
        posix_spawn_file_actions_adddup2(&actions_, messages, 2);
        posix_spawn_file_actions_adddup2(&actions_, socket, passt_socket);
    }
    Actions(const Actions &) = delete;
    Actions &operator=(const Actions &) = delete;
    ~Actions() { posix_spawn_file_actions_destroy(&actions_); }

    const posix_spawn_file_actions_t *get() const { return &actions_; }

private:
    posix_spawn_file_actions_t actions_;
};

pid_t spawn(int socket, int messages)
{
    const Actions actions(socket, messages);
    const auto words = command_line();
    std::vector<char *> arguments;
    pid_t process = -1;

    for (const auto &word : words)
        arguments.push_back(const_cast<char *>(word.c_str()));
    arguments.push_back(nullptr);
    const int error = posix_spawnp(&process, arguments[0], actions.get(), nullptr, arguments.data(),
                                   environ);
    if (error == ENOENT)
        throw std::runtime_error("--net needs passt, which is not installed (Debian's package is "
                                 "passt)");
    if (error != 0)
        complain(error, "passt");
    return process;
}

/// What it says until it is in the background or has ended. @return false if that takes too long
bool read_messages(int from, std::string &messages)
{
    const auto until = std::chrono::steady_clock::now() + patience;
    char buffer[4096];

    for (;;) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
            until - std::chrono::steady_clock::now());
        pollfd entry{from, POLLIN, 0};

        if (left.count() <= 0 || poll(&entry, 1, static_cast<int>(left.count())) <= 0)
            return false;
        const ssize_t got = read(from, buffer, sizeof(buffer));
        if (got <= 0)
            return true;
        messages.append(buffer, static_cast<size_t>(got));
    }
}

/// The last line of a text that is not empty.
std::string last_line(std::string text)
{
    text.erase(text.find_last_not_of(" \n") + 1);
    return text.substr(text.rfind('\n') + 1);
}

/// Waits until passt is in the background.
void await(pid_t process, int from)
{
    std::string messages;
    int status = 0;
    const bool told = read_messages(from, messages);

    if (!told)
        kill(process, SIGKILL);
    while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
    }
    if (!told)
        throw std::runtime_error("--net: passt does not get ready");
    if (status != 0)
        throw std::runtime_error(fmt::format("--net: passt ended{}{}", messages.empty() ? "" : ": ",
                                             last_line(messages)));
}

bool is_loopback(const std::string &server)
{
    return server.starts_with("127.") || server == "::1";
}

/// The servers that a resolv.conf names.
std::vector<std::string> name_servers(const std::string &text)
{
    std::istringstream lines(text);
    std::vector<std::string> servers;

    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string name, server;

        if (words >> name >> server && name == "nameserver")
            servers.push_back(server);
    }
    return servers;
}

/// Whether a resolv.conf names programs of the host only.
bool is_local(const std::string &text)
{
    for (const auto &server : name_servers(text))
        if (!is_loopback(server))
            return false;
    return true;
}

} // namespace

std::unique_ptr<File> start_passt()
{
    int ends[2], messages[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        complain(errno, "socketpair");
    auto mine = std::make_unique<File>(ends[0]);
    const File theirs(ends[1]);
    if (pipe2(messages, O_CLOEXEC) != 0)
        complain(errno, "pipe");
    const File from(messages[0]);
    File to(messages[1]);
    const pid_t process = spawn(theirs.get(), to.get());
    to.reset();
    await(process, from.get());
    return mine;
}

bool has_way_out6(const std::string &routes)
{
    // "DESTINATION PREFIX SOURCE PREFIX GATEWAY METRIC REFERENCES USES FLAGS NETDEV"
    const std::string none(32, '0');
    std::istringstream lines(routes);

    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string to, prefix, word, netdev;

        words >> to >> prefix;
        while (words >> word)
            netdev = word;
        if (to == none && prefix == "00" && netdev != "lo")
            return true;
    }
    return false;
}

std::string inner_resolver(const std::string &host, const std::string &upstream, bool ipv6)
{
    const std::string &source = is_local(host) && !upstream.empty() ? upstream : host;
    std::istringstream lines(source);
    std::string text;
    bool named = false;

    // A server on the host's loopback device is reached by the gateway, one on a link not at all.
    for (auto server : name_servers(source)) {
        if (is_loopback(server))
            server = way_out::gateway;
        else if (server.find(ipv6 ? '%' : ':') != server.npos)
            continue;
        text += "nameserver " + server + '\n';
        named = true;
    }
    if (!named)
        text += fmt::format("nameserver {}\n", way_out::gateway);
    for (std::string line; std::getline(lines, line);)
        if (line.starts_with("search") || line.starts_with("domain") || line.starts_with("options"))
            text += line + '\n';
    return text;
}

} // namespace rox::run
