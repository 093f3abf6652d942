/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * How a rox-run becomes a member of a network.
 */
#ifndef ROX_TOOLS_RUN_JOIN_HPP
#define ROX_TOOLS_RUN_JOIN_HPP

#include "lib/file.hpp"

#include <memory>
#include <string>

namespace rox::run {

struct Membership {
    std::unique_ptr<File> socket; ///< to the hub: frames, see frames.hpp
    unsigned first = 0;           ///< the number of the first node
    bool founder = false;         ///< whether this is the first member
};

/**
 * Joins the network of a socket. If nobody listens there, a process of its own becomes its hub.
 * That one has no parent, terminal or file of the caller, and ends with the last member.
 * @param nodes so many numbers, one after the other
 * @param wanted the first of them, 0: any
 * @throw std::exception with a sentence
 */
Membership join_network(const std::string &path, unsigned nodes, unsigned wanted);

} // namespace rox::run

#endif // ROX_TOOLS_RUN_JOIN_HPP
