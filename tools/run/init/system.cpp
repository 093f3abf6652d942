/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "run/init/system.hpp"

#include "run/init/host.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rox::run {

int control()
{
    static const int fd = open_pipe(control_pipe);

    return fd;
}

void report(Report::Kind kind, uint32_t value, uint64_t offset)
{
    const Report message{kind, value, offset};

    write_all(control(), &message, sizeof(message));
}

void fail(std::string_view what, int error)
{
    std::string text(what);

    if (error != 0)
        text.append(": ").append(std::strerror(error));
    report(Report::failed, static_cast<uint32_t>(text.size()));
    write_all(control(), text.data(), text.size());
    for (;;)
        pause();
}

void need(bool condition, std::string_view what)
{
    if (!condition)
        fail(what, errno);
}

bool read_all(int fd, void *buffer, size_t size)
{
    auto *at = static_cast<char *>(buffer);

    while (size > 0) {
        const ssize_t got = read(fd, at, size);

        if (got <= 0) {
            if (got < 0 && errno == EINTR)
                continue;
            return false;
        }
        at += got;
        size -= static_cast<size_t>(got);
    }
    return true;
}

bool write_all(int fd, const void *buffer, size_t size)
{
    const auto *at = static_cast<const char *>(buffer);

    while (size > 0) {
        const ssize_t sent = write(fd, at, size);

        if (sent < 0) {
            if (errno == EINTR)
                continue;
            return false;
        }
        at += sent;
        size -= static_cast<size_t>(sent);
    }
    return true;
}

bool write_file(const std::string &path, std::string_view text)
{
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    if (fd < 0)
        return false;
    const bool written = write_all(fd, text.data(), text.size());
    const int error = errno;
    close(fd);
    errno = error;
    return written;
}

std::string read_file(const std::string &path)
{
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    std::string text;
    char part[4096];

    if (fd < 0)
        return text;
    for (ssize_t got; (got = read(fd, part, sizeof(part))) > 0;)
        text.append(part, static_cast<size_t>(got));
    close(fd);
    return text;
}

bool make_folders(const std::string &path)
{
    for (size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
        if (mkdir(path.substr(0, at).c_str(), 0755) != 0 && errno != EEXIST)
            return false;
        if (at == path.npos)
            return true;
    }
}

} // namespace rox::run
