// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Ownership of a verbs object.
#pragma once

#include <utility>

#include <gtest/gtest.h>

#include "error.h"

namespace vt {

/// Owns a @p T. The test fails if @p Destroy does.
template <typename T, auto Destroy>
class Handle {
public:
    Handle() = default;
    explicit Handle(T *object) : object_(object) {}
    Handle(Handle &&other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    Handle &operator=(Handle &&other) noexcept
    {
        if (this != &other) {
            reset();
            object_ = std::exchange(other.object_, nullptr);
        }
        return *this;
    }
    ~Handle() { reset(); }

    T *get() const { return object_; }
    T *operator->() const { return object_; }
    explicit operator bool() const { return object_; }

    void reset()
    {
        if (object_) {
            EXPECT_EQ(Destroy(std::exchange(object_, nullptr)), 0)
                << "destruction failed: " << __PRETTY_FUNCTION__;
        }
    }
    /// Destroys the object and returns the result. After an error the handle still owns it.
    int destroy()
    {
        int result = Destroy(object_);
        if (!result)
            object_ = nullptr;
        return result;
    }
    T *release() { return std::exchange(object_, nullptr); }

private:
    T *object_ = nullptr;
};

} // namespace vt
