// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// What a thread may be that the program is not.
#pragma once

#include <functional>
#include <string>

namespace vt {

/// Runs @p body in a thread of its own and returns when it has; what it throws is thrown here.
/// Capabilities and namespaces that @p body changes are that thread's only.
void in_thread(const std::function<void()> &body);

/// The same in a thread that has not the capability (CAP_...) in its effective set.
void without_capability(int capability, const std::function<void()> &body);

/// The same in a network namespace, by its name; "" is the one of the program.
void in_namespace(const std::string &name, const std::function<void()> &body);

} // namespace vt
