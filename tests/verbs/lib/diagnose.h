// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// The state of the devices, to print when something did not happen in time.
#pragma once

#include <string>

#include <infiniband/verbs.h>

namespace vt {

/// Adds and removes a QP that state_of_everything() describes. Class Qp calls them.
void watch(ibv_qp *qp);
void unwatch(ibv_qp *qp);

/// The result of ibv_query_qp for each watched QP, and the output of `rdma resource`.
std::string state_of_everything();

/// Runs a shell command and returns its exit status. Stores its output in @p output if not null.
int shell(const std::string &command, std::string *output = nullptr);

/// The same. Fails if the command does.
void run(const std::string &command);

const char *name_of(ibv_qp_state state);

} // namespace vt
