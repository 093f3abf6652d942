// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// A FUSE file system with one file that never returns data: reading a page blocks until the file
/// system ends.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>

#include <sys/types.h>

namespace hostile {

/// It forks a server process, in which mappings of this process live on. So create it before
/// objects whose mappings must end with this process.
class HangingFile {
public:
    static constexpr std::size_t kSize = 1 << 20;

    /// True if the kernel has FUSE.
    static bool possible();

    HangingFile();
    ~HangingFile();
    HangingFile(const HangingFile &) = delete;
    HangingFile &operator=(const HangingFile &) = delete;

    /// Maps the file into the calling process, for reading and writing.
    void *map() const;
    /// Number of reads that were requested and not answered.
    unsigned reads() const { return *reads_; }
    /// Ends the file system. All waiting readers get an error.
    void stop();

private:
    void serve(int fuse) const;

    std::string folder_;
    std::atomic<unsigned> *reads_;
    pid_t server_ = -1;
};

} // namespace hostile
