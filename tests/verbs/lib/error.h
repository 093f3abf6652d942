// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// How the library reports what it cannot go on from: by an exception, which
/// GoogleTest turns into the failure of the test under way.
#pragma once

#include <cerrno>
#include <stdexcept>
#include <string>

namespace vt {

class Failure : public std::runtime_error {
public:
    explicit Failure(const std::string &what, int error = 0)
        : std::runtime_error(what), error_(error)
    {}
    /// The errno, if there was one, or 0.
    int error() const { return error_; }

private:
    int error_;
};

/// Fails with @p what and the name of @p error.
[[noreturn]] void fail(const std::string &what, int error);
[[noreturn]] void fail(const std::string &what);

/// @p pointer, which a verb returned, or a failure with errno.
template <typename T>
T *need(T *pointer, const char *what)
{
    if (!pointer)
        fail(what, errno);
    return pointer;
}

/// For verbs that return 0 or an errno.
inline void check(int result, const char *what)
{
    if (result)
        fail(what, result > 0 ? result : errno);
}

} // namespace vt
