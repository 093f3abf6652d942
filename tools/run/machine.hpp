/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * A kernel that is a process of the host, whatever it is.
 */
#ifndef ROX_TOOLS_RUN_MACHINE_HPP
#define ROX_TOOLS_RUN_MACHINE_HPP

#include "lib/file.hpp"
#include "run/image.hpp"
#include "run/job.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace rox::run {

struct MachineSettings {
    unsigned memory = 0;               ///< MiB
    unsigned cpus = 1;                 ///< of them the engine of rox needs two
    std::vector<std::string> more;     ///< arguments for the kernel
    std::vector<int> networks;         ///< sockets that it has as pipes, from first_network_pipe on
    std::vector<std::string> writable; ///< `Job::writable`
};

/// MiB of memory for the kernel: half of what is free here, and of what the cgroup and the limit of
/// address space allow, at most 2 GiB.
unsigned default_memory();

/// So many CPUs as the calling thread may use, but 2 to 4, and no more than the kernel can have.
unsigned default_cpus(unsigned possible);

/// A kernel from its start to its end. It ends with this object, and with the thread that has
/// started it.
class Machine {
public:
    Machine(const Machine &) = delete;
    Machine &operator=(const Machine &) = delete;
    virtual ~Machine();

    /// This program's end of a pipe.
    int pipe(Pipe number) const { return pipes_[number]->get(); }
    /// Where the kernel's log comes out.
    int log() const { return log_->get(); }
    /// Ends the kernel at once. What it has sent can still be read. @return its status as wait()
    /// has it
    int end();

protected:
    /// A program that the calling process becomes.
    struct Program {
        std::vector<std::string> arguments; ///< the first is its file
        std::vector<std::string> environment;
        std::vector<int> keep; ///< file descriptors that it gets, beside 0 to 2
    };

    Machine();
    /// Starts the program, whose output is the log. @throw std::system_error
    void start(const Program &program);
    /// What start() does in the child, before the program.
    virtual void prepare() {}
    /// A pair of connected sockets: this program's end, the kernel's end. @throw std::system_error
    static std::pair<std::unique_ptr<File>, std::unique_ptr<File>> make_pair();
    /// For each pipe but those to networks a pair of sockets, of which pipe() is one. @return the
    /// others. @throw std::system_error
    std::vector<std::unique_ptr<File>> make_pipes();

private:
    [[noreturn]] void become(const Program &program, int log, pid_t parent);

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
