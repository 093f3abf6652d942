// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// How the library reports errors: by an exception, which fails the running test.
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
    /// The errno value, or 0 if there is none.
    int error() const { return error_; }

private:
    int error_;
};

/// Throws a Failure with @p what and the name of @p error.
[[noreturn]] void fail(const std::string &what, int error);
[[noreturn]] void fail(const std::string &what);

/// Returns @p pointer, the result of a verb. If it is null, fails with errno.
template <typename T>
T *need(T *pointer, const char *what)
{
    if (!pointer)
        fail(what, errno);
    return pointer;
}

/// Fails if @p result, of a verb that returns 0 or an errno value, is not 0.
inline void check(int result, const char *what)
{
    if (result)
        fail(what, result > 0 ? result : errno);
}

} // namespace vt
