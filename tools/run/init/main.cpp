/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The first process in the kernel of rox-run. It makes the world in which the command runs, and
 * runs it. */
#include "run/init/command.hpp"
#include "run/init/host.hpp"
#include "run/init/modules.hpp"
#include "run/init/network.hpp"
#include "run/init/streams.hpp"
#include "run/init/system.hpp"
#include "run/init/world.hpp"

#include <csignal>

#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace rox::run;

/// The job that rox-run sends first.
Job receive_job()
{
    uint32_t size = 0;
    std::string text;

    if (!read_all(control(), &size, sizeof(size)))
        fail("no job", 0);
    text.resize(size);
    if (!read_all(control(), text.data(), size))
        fail("no job", 0);
    auto job = decode(text);
    if (!job || job->arguments.empty())
        fail("a job that is none", 0);
    return std::move(*job);
}

/// The command may send signals to all processes, and its terminal to the job from which it starts.
/// Those that serve it are ended by rox-run; the command itself gets its own settings.
void ignore_signals()
{
    for (const int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM})
        signal(number, SIG_IGN);
}

} // namespace

int main()
{
    ignore_signals();
    umask(022);
    mount_first();
    load_modules();
    reach_host();
    const Job job = receive_job();
    enter_world(job);
    name_hosts(job, make_network(job));
    // A job whose parent is the first process cannot be stopped (Ctrl-Z), so another one starts the
    // command.
    const pid_t child = fork();
    need(child >= 0, "fork");
    if (child == 0) {
        Streams streams = open_streams(job);

        umount2(host_root, MNT_DETACH);
        run_command(job, streams);
    }
    // rox-run ends the kernel.
    for (;;) {
        const pid_t ended = wait(nullptr);

        if (ended == child)
            fail("the process that waits for the command was killed", 0);
        if (ended < 0)
            pause();
    }
}
