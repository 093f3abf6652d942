/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * A file descriptor with an owner.
 */
#ifndef ROX_TOOLS_FILE_HPP
#define ROX_TOOLS_FILE_HPP

#include <unistd.h>

namespace rox {

/// Closes its file descriptor.
class File {
public:
    explicit File(int fd) : fd_(fd) {}
    File(const File &) = delete;
    File &operator=(const File &) = delete;
    ~File() { reset(); }

    int get() const { return fd_; }
    bool ok() const { return fd_ >= 0; }
    void reset()
    {
        if (fd_ >= 0)
            close(fd_);
        fd_ = -1;
    }

private:
    int fd_;
};

} // namespace rox

#endif // ROX_TOOLS_FILE_HPP
