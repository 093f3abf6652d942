/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "run/networks.hpp"

#include "run/join.hpp"
#include "run/passt.hpp"

#include <fstream>
#include <iterator>
#include <stdexcept>

#include <fmt/format.h>

namespace rox::run {
namespace {

std::string text_of(const char *path)
{
    std::ifstream file(path);

    return {std::istreambuf_iterator<char>(file), {}};
}

} // namespace

bool Networks::join(Job &job, const std::string &path, unsigned number)
{
    // That of a netdev whose frames a program has.
    constexpr uint32_t most_mtu = 65521;

    if (job.link.mtu > most_mtu)
        throw std::runtime_error(fmt::format("--join: mtu is up to {}", most_mtu));
    Membership member = join_network(path, job.nodes, number);
    job.join_pipe = add(std::move(member.socket));
    job.address = member.first;
    return member.founder;
}

void Networks::go_out(Job &job)
{
    job.way_out_pipe = add(start_passt());
    job.way_out6 = has_way_out6(text_of("/proc/net/ipv6_route"));
    job.resolver = inner_resolver(text_of("/etc/resolv.conf"),
                                  text_of("/run/systemd/resolve/resolv.conf"), job.way_out6);
}

std::vector<int> Networks::sockets() const
{
    std::vector<int> numbers;

    for (const auto &socket : sockets_)
        numbers.push_back(socket->get());
    return numbers;
}

int Networks::add(std::unique_ptr<File> socket)
{
    sockets_.push_back(std::move(socket));
    return first_network_pipe + static_cast<int>(sockets_.size()) - 1;
}

} // namespace rox::run
