// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// What is known when something did not happen in time.
#pragma once

#include <string>

#include <infiniband/verbs.h>

namespace vt {

/// QPs that state_of_everything() describes; Qp does this by itself.
void watch(ibv_qp *qp);
void unwatch(ibv_qp *qp);

/// Every watched QP as ibv_query_qp sees it, and what `rdma resource` prints.
std::string state_of_everything();

/// Runs a shell command; its output in @p output if wanted. Returns the exit status.
int shell(const std::string &command, std::string *output = nullptr);

/// The same where it must succeed.
void run(const std::string &command);

const char *name_of(ibv_qp_state state);

} // namespace vt
