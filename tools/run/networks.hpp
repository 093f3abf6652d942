/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * The networks beyond the kernel: other rox-run's, and the host's.
 */
#ifndef ROX_TOOLS_RUN_NETWORKS_HPP
#define ROX_TOOLS_RUN_NETWORKS_HPP

#include "lib/file.hpp"
#include "run/job.hpp"

#include <memory>
#include <string>
#include <vector>

namespace rox::run {

/// Sockets to networks, which the kernel gets as pipes. They end with the kernel if this object has
/// ended before.
class Networks {
public:
    /// Makes the nodes of the job members of a network. @p number: of the first one, 0: any.
    /// @return whether they are the first ones there
    bool join(Job &job, const std::string &path, unsigned number);
    /// Gives the first node of the job a way out to the host's network.
    void go_out(Job &job);
    /// The sockets, in the order of their pipes.
    std::vector<int> sockets() const;

private:
    int add(std::unique_ptr<File> socket);

    std::vector<std::unique_ptr<File>> sockets_;
};

} // namespace rox::run

#endif // ROX_TOOLS_RUN_NETWORKS_HPP
