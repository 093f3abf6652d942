/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "run/init/modules.hpp"

#include "run/init/system.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace rox::run {
namespace {

/// Calls @p each with the parts of a text between the separators that are not empty.
template <typename Each>
void split(const std::string &text, const char *separators, Each each)
{
    for (size_t at = text.find_first_not_of(separators); at != text.npos;) {
        const size_t end = std::min(text.find_first_of(separators, at), text.size());

        each(text.substr(at, end - at));
        at = text.find_first_not_of(separators, end);
    }
}

/// To the kernel's log.
void say(const std::string &text)
{
    write_file("/dev/kmsg", text + '\n');
}

} // namespace

std::string module_arguments(const std::string &command_line, const std::string &module)
{
    std::string arguments;

    split(command_line, " \n", [&](const std::string &word) {
        if (word.starts_with(module + '.'))
            arguments += (arguments.empty() ? "" : " ") + word.substr(module.size() + 1);
    });
    return arguments;
}

void load_modules()
{
    const std::string command_line = read_file("/proc/cmdline");

    split(read_file("/modules/order"), "\n", [&](const std::string &file) {
        const std::string path = "/modules/" + file, module = file.substr(0, file.find('.'));
        const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);

        if (syscall(SYS_finit_module, fd, module_arguments(command_line, module).c_str(), 0) != 0)
            say("rox-run: module " + module + ": " + std::strerror(errno));
        close(fd);
    });
}

} // namespace rox::run
