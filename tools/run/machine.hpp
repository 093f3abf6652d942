/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * A User Mode Linux kernel: a program of the host.
 */
#ifndef ROX_TOOLS_RUN_MACHINE_HPP
#define ROX_TOOLS_RUN_MACHINE_HPP

#include "lib/file.hpp"
#include "run/image.hpp"
#include "run/job.hpp"

#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

namespace rox::run {

struct MachineSettings {
    unsigned memory = 0;           ///< MiB
    unsigned cpus = 1;             ///< of them the engine of rox needs two
    std::vector<std::string> more; ///< arguments for the kernel
    std::vector<int> networks;     ///< sockets that it has as pipes, from first_network_pipe on
};

/// MiB of memory for the kernel: half of what is free here, and of what the cgroup and the limit of
/// address space allow, at most 2 GiB.
unsigned default_memory();

/// So many CPUs as the calling thread may use, but 2 to 4, and no more than the kernel can have.
unsigned default_cpus(const Image &image);

/// A kernel from its start to its end. It ends with this object, and with the calling thread.
class Machine {
public:
    /// Starts it. @throw std::system_error
    Machine(const Image &image, const MachineSettings &settings);
    Machine(const Machine &) = delete;
    Machine &operator=(const Machine &) = delete;
    ~Machine();

    /// This program's end of a pipe.
    int pipe(Pipe number) const { return pipes_[number]->get(); }
    /// Where the kernel's log comes out.
    int log() const { return log_->get(); }
    /// Ends the kernel at once. Its file descriptors are closed then. @return its status as wait()
    /// has it
    int end();

private:
    pid_t process_ = -1;
    int status_ = 0;
    std::vector<std::unique_ptr<File>> pipes_;
    std::unique_ptr<File> log_;
};

/// What a kernel's log says about its end: a sentence, and the status for it.
struct Death {
    int status;
    std::string reason;
};
Death cause_of_death(const std::string &log, int status);

/// Statuses of rox-run that are not the command's.
enum Status : int {
    status_panic = 122,
    status_memory = 123,
    status_timeout = 124,
    status_failed = 125,
    status_not_executable = 126,
    status_not_found = 127,
    status_signal = 128,
};

} // namespace rox::run

#endif // ROX_TOOLS_RUN_MACHINE_HPP
