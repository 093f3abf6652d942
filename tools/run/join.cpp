/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "run/join.hpp"

#include "run/hub.hpp"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace rox::run {
namespace {

using namespace std::chrono_literals;

/// No step of joining takes longer, unless somebody is in the way.
constexpr auto patience = 10s;

/// The place of a network: a name in a folder.
class Place {
public:
    explicit Place(const std::string &path)
        : path(path), name(std::filesystem::path(path).filename()), folder(open_folder(path))
    {
        if (!folder.ok())
            complain();
        if (name.empty() || name == "." || name == "..")
            throw std::runtime_error(fmt::format("--join: '{}' names no socket", path));
    }
    Place(const Place &) = delete;
    Place &operator=(const Place &) = delete;
    ~Place() = default;

    [[noreturn]] void complain() const
    {
        throw std::system_error(errno, std::generic_category(), "--join: " + path);
    }

    const std::string path, name;
    const File folder;

private:
    static int open_folder(const std::string &path)
    {
        const auto parent = std::filesystem::path(path).parent_path();

        return open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
};

/// Who has the lock of the folder finds or makes the network; all others wait.
class FolderLock {
public:
    explicit FolderLock(const Place &place) : folder_(place.folder.get())
    {
        const auto until = std::chrono::steady_clock::now() + patience;

        while (flock(folder_, LOCK_EX | LOCK_NB) != 0) {
            if (errno != EWOULDBLOCK && errno != EINTR)
                place.complain();
            if (std::chrono::steady_clock::now() > until)
                throw std::runtime_error(
                    fmt::format("--join: somebody has locked the folder of {}", place.path));
            std::this_thread::sleep_for(2ms);
        }
    }
    FolderLock(const FolderLock &) = delete;
    FolderLock &operator=(const FolderLock &) = delete;
    ~FolderLock() { flock(folder_, LOCK_UN); }

private:
    int folder_;
};

/// A socket that is connected to the hub; nullptr: there is none.
std::unique_ptr<File> connect_to(const Place &place)
{
    auto connection = std::make_unique<File>(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un address = socket_address(place.folder.get(), place.name);
    const timeval limit{std::chrono::seconds(patience).count(), 0};

    if (!connection->ok() ||
        setsockopt(connection->get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) != 0 ||
        setsockopt(connection->get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) != 0)
        place.complain();
    if (connect(connection->get(), reinterpret_cast<const sockaddr *>(&address), sizeof(address)) ==
        0)
        return connection;
    if (errno != ENOENT && errno != ECONNREFUSED)
        place.complain();
    return {};
}

/// Refuses what is there and is no socket.
void check_kind(const Place &place)
{
    struct stat status {};

    if (fstatat(place.folder.get(), place.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        !S_ISSOCK(status.st_mode))
        throw std::runtime_error(fmt::format("--join: {} is there, and is no socket", place.path));
}

/// Removes a socket on which nobody listens.
void remove_stale(const Place &place)
{
    if (unlinkat(place.folder.get(), place.name.c_str(), 0) != 0 && errno != ENOENT)
        place.complain();
}

/// In the hub's process: leaves all that is the caller's, but these file descriptors, which get the
/// numbers from 3 on.
void leave_caller(int ready, int folder)
{
    constexpr int beyond = 10;
    const int nothing = open("/dev/null", O_RDWR), moved_ready = fcntl(ready, F_DUPFD, beyond),
              moved_folder = fcntl(folder, F_DUPFD, beyond);

    for (int fd = 0; fd < 3; fd++)
        dup2(nothing, fd);
    dup2(moved_ready, 3);
    dup2(moved_folder, 4);
    close_range(5, ~0U, 0);
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    [[maybe_unused]] const int moved = chdir("/");
    prctl(PR_SET_NAME, "rox-run-hub");
}

/// It ends with its last member, and with nothing else. (SIGKILL is a network that is switched
/// off.)
void ignore_signals()
{
    sigset_t none;

    for (const int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGPIPE})
        signal(number, SIG_IGN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void become_hub(const Place &place, int ready)
{
    // The lock belongs to an open folder, so the hub opens it for itself.
    const int folder = openat(place.folder.get(), ".", O_RDONLY | O_DIRECTORY);
    int error = 0;

    leave_caller(ready, folder);
    ignore_signals();
    try {
        Hub hub(4, place.name);

        [[maybe_unused]] const ssize_t told = write(3, &error, sizeof(error));
        close(3);
        hub.serve();
    } catch (const std::system_error &failure) {
        error = failure.code().value();
        [[maybe_unused]] const ssize_t told = write(3, &error, sizeof(error));
    }
    _exit(0);
}

/// Starts a hub, which listens when this returns.
void start_hub(const Place &place)
{
    int ends[2], error = EPROTO;

    if (pipe2(ends, O_CLOEXEC) != 0)
        place.complain();
    const File mine(ends[0]);
    File theirs(ends[1]);
    const pid_t child = fork();
    if (child < 0)
        place.complain();
    if (child == 0) {
        setsid();
        // A process that nobody waits for.
        if (fork() == 0)
            become_hub(place, theirs.get());
        _exit(0);
    }
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
    theirs.reset();
    pollfd entry{mine.get(), POLLIN, 0};
    if (poll(&entry, 1, static_cast<int>(std::chrono::milliseconds(patience).count())) != 1 ||
        read(mine.get(), &error, sizeof(error)) != sizeof(error))
        throw std::runtime_error(fmt::format("--join: no hub could be started for {}", place.path));
    errno = error;
    if (error != 0)
        place.complain();
}

/// A connection to the hub, which is started if there is none.
std::unique_ptr<File> find_hub(const Place &place, bool &started)
{
    const FolderLock lock(place);

    check_kind(place);
    auto connection = connect_to(place);
    if (connection)
        return connection;
    remove_stale(place);
    start_hub(place);
    started = true;
    connection = connect_to(place);
    if (!connection)
        throw std::runtime_error(fmt::format("--join: the hub of {} has ended", place.path));
    return connection;
}

/// Asks the hub for numbers. @return the first
unsigned greet(const Place &place, int connection, unsigned nodes, unsigned wanted)
{
    Hello hello{{}, nodes, wanted};
    Welcome welcome{};

    std::memcpy(hello.magic, join_magic, sizeof(join_magic));
    if (send(connection, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello) ||
        recv(connection, &welcome, sizeof(welcome), MSG_WAITALL) != sizeof(welcome) ||
        std::memcmp(welcome.magic, join_magic, sizeof(join_magic)) != 0)
        throw std::runtime_error(
            fmt::format("--join: who listens at {} is no hub of this rox-run", place.path));
    if (welcome.first != 0)
        return welcome.first;
    if (wanted != 0 && wanted + nodes - 1 <= most_nodes)
        throw std::runtime_error(fmt::format("--number: node{} is there already", wanted));
    throw std::runtime_error(
        fmt::format("--join: the network has no room: it has {} nodes at most", most_nodes));
}

} // namespace

Membership join_network(const std::string &path, unsigned nodes, unsigned wanted)
{
    const Place place(path);
    Membership member;

    member.socket = find_hub(place, member.founder);
    member.first = greet(place, member.socket->get(), nodes, wanted);
    return member;
}

} // namespace rox::run
