// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// What a program may do that is not root in every respect.
#pragma once

#include <functional>

namespace vt {

/// Runs @p body in a thread that has not the capability (CAP_...) in its effective set.
void without_capability(int capability, const std::function<void()> &body);

} // namespace vt
