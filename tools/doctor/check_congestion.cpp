/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The diagnosis of congestion: marks (ECN), CNPs, queues that could mark, priorities. */
#include "doctor/check.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace rox::doctor {

namespace {

using Counters = std::map<std::string, uint64_t>;

Counters counters_of(const Host &host, const std::string &name)
{
    for (const RdmaDevice &device : rdma_devices(host.netlink))
        if (device.name == name && !device.ports.empty())
            return rdma_port_counters(host.netlink, device.ports[0]);
    return {};
}

uint64_t count(const Counters &counters, const std::string &name)
{
    const auto found = counters.find(name);

    return found != counters.end() ? found->second : 0;
}

std::string algorithm_file(const Device &device)
{
    return "/sys/class/infiniband/" + device.name + "/cc/algorithm";
}

std::string choose(const Device &device, std::string_view algorithm)
{
    return fmt::format("echo {} >{}", algorithm, algorithm_file(device));
}

/* The objects that `command` prints as an array of JSON; none without that. */
nlohmann::json printed(Commands &commands, const std::vector<std::string> &command)
{
    const CommandResult result = commands.run(command);
    nlohmann::json parsed = nlohmann::json::parse(result.output, nullptr, false);

    nlohmann::json objects = nlohmann::json::array();

    /* ip(8) also prints an empty object for what it leaves out. */
    if (result.ran && parsed.is_array())
        std::ranges::copy_if(parsed, std::back_inserter(objects),
                             [](const auto &entry) { return entry.is_object(); });
    return objects;
}

/* CNPs and repeated packets, and what the algorithm makes of them. */
void judge_counters(const Device &device, const std::string &algorithm, const Counters &counters,
                    Findings &findings)
{
    const uint64_t ignored = count(counters, "rp_cnp_ignored");
    const uint64_t handled = count(counters, "rp_cnp_handled");
    const uint64_t repeated = count(counters, "retransmitted_packets");

    if (algorithm == "none" && ignored != 0)
        findings.push_back(
            {Level::warning,
             fmt::format("{}: {} CNPs were ignored: the network marks packets, but the algorithm "
                         "none does not slow down",
                         device.name, ignored),
             {choose(device, "dcqcn") + "    # for connections that begin later"}});
    /* CNPs that an earlier algorithm ignored also show that the network marks. */
    if (algorithm == "dcqcn" && handled == 0 && ignored == 0 && repeated != 0)
        findings.push_back(
            {Level::warning,
             fmt::format("{}: {} packets were sent again, but no CNP came, for which dcqcn waits: "
                         "nothing on the way marks, or CNPs are lost",
                         device.name, repeated),
             {choose(device, "adaptive") + "    # needs no marks"}});
}

/* A number of an object; 0 if it has none of that name. */
uint64_t number(const nlohmann::json &object, const std::string &name)
{
    const auto found = object.find(name);

    return found != object.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

/* What tc(8) wants to be told of a queue to make it mark. It keeps the parameters of all kinds but
 * red, of which it wants to know all, also what it does not print: how long packets are. */
std::string marking(const std::string &kind, const nlohmann::json &options)
{
    constexpr uint64_t packet = 1000, enough = 400000;
    const uint64_t limit = number(options, "limit"), least = number(options, "min"),
                   most = number(options, "max");
    std::string words = kind;

    if (kind != "red")
        return kind + " ecn";
    words += fmt::format(" limit {}", limit != 0 ? limit : enough);
    if (least != 0 && most != 0)
        words += fmt::format(" min {} max {} burst {}", least, most,
                             (2 * least + most) / (3 * packet) + 1);
    words += fmt::format(" avpkt {}", packet);
    if (const auto found = options.find("probability");
        found != options.end() && found->is_number())
        words += fmt::format(" probability {}", found->get<double>());
    return words + (options.contains("adaptive") ? " adaptive" : "") + " ecn";
}

/* The commands that make a queue mark. One that the kernel has made itself has handle 0 and cannot
 * be changed, and below such a one there is no place that has a name. */
std::vector<std::string> commands_to_mark(const std::string &netdev, const nlohmann::json &qdisc)
{
    const std::string parent = qdisc.value("parent", ""),
                      words = marking(qdisc.value("kind", ""),
                                      qdisc.value("options", nlohmann::json::object()));
    const bool is_default = qdisc.value("handle", "0:") == "0:";

    if (is_default && parent.starts_with(':'))
        return {fmt::format("tc qdisc replace dev {} root handle 1: mq", netdev),
                fmt::format("tc qdisc replace dev {} parent 1{} {}", netdev, parent, words)};
    return {fmt::format("tc qdisc {} dev {} {} {}", is_default ? "replace" : "change", netdev,
                        parent.empty() ? "root" : "parent " + parent, words)};
}

/* Queues of the netdev that would mark ECN-capable packets, and are told not to. */
void judge_queues(const Host &host, const Device &device, Findings &findings)
{
    static constexpr std::array<std::string_view, 3> can_mark = {"fq_codel", "codel", "red"};

    for (const auto &qdisc :
         printed(host.commands, {"tc", "-d", "-j", "qdisc", "show", "dev", device.netdev})) {
        const std::string kind = qdisc.value("kind", "");
        const auto options = qdisc.value("options", nlohmann::json::object());

        if (std::ranges::find(can_mark, kind) == can_mark.end() || options.contains("ecn"))
            continue;
        findings.push_back({Level::warning,
                            fmt::format("{}: {} of {} drops where it could mark: it has no ecn",
                                        device.name, kind, device.netdev),
                            commands_to_mark(device.netdev, qdisc)});
    }
}

/* A VLAN sends all packets with priority 0 unless it is told otherwise. */
void judge_vlan(const Host &host, const Device &device, const std::string &netdev,
                Findings &findings)
{
    for (const auto &link :
         printed(host.commands, {"ip", "-d", "-j", "link", "show", "dev", netdev})) {
        const auto info = link.value("linkinfo", nlohmann::json::object());
        const auto data = info.value("info_data", nlohmann::json::object());

        if (info.value("info_kind", "") != "vlan" || data.contains("egress_qos"))
            continue;
        findings.push_back(
            {Level::note,
             fmt::format("{}: the VLAN {} sends all packets with priority 0 (802.1p): switches "
                         "put RoCE and CNPs into the class of everything else",
                         device.name, netdev),
             {fmt::format("ip link set {} type vlan egress-qos-map 2:3 6:6    # DSCP 26 to 3, "
                          "CNPs to 6",
                          netdev)}});
    }
}

/* A device also sends from the addresses of VLANs above its netdev. */
void judge_vlans(const Host &host, const Device &device, Findings &findings)
{
    std::set<std::string> netdevs;

    for (const Gid &gid : device.gids)
        netdevs.insert(gid.netdev);
    netdevs.erase("");
    for (const std::string &netdev : netdevs)
        judge_vlan(host, device, netdev, findings);
}

Finding in_order(const Device &device, const std::string &algorithm, const Counters &counters)
{
    return {Level::ok,
            fmt::format("{}: algorithm {}; {} packets came marked, {} CNPs were obeyed",
                        device.name, algorithm, count(counters, "np_ecn_marked_roce_packets"),
                        count(counters, "rp_cnp_handled")),
            {}};
}

} // namespace

Findings CongestionCheck::look(const Host &host, const Options &options) const
{
    Findings findings;

    for (const Device &device : devices_of(host, options)) {
        const std::string algorithm = host.files.line(algorithm_file(device));
        const size_t before = findings.size();

        if (algorithm.empty())
            findings.push_back({Level::note,
                                fmt::format("{}: the module that runs has no congestion control, "
                                            "which came with version 0.2.0",
                                            device.name),
                                {}});
        if (algorithm.empty() || !device.netdev_here)
            continue;
        const Counters counters = counters_of(host, device.name);
        judge_counters(device, algorithm, counters, findings);
        if (algorithm != "none")
            judge_queues(host, device, findings);
        judge_vlans(host, device, findings);
        if (findings.size() == before)
            findings.push_back(in_order(device, algorithm, counters));
    }
    return findings;
}

} // namespace rox::doctor
