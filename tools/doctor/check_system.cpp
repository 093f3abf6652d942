/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The diagnoses of what is around devices: MTU, firewall, limits, rights, offloads. */
#include "doctor/check.hpp"
#include "doctor/firewall.hpp"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace rox::doctor {

namespace {

constexpr unsigned roce_port = 4791;
/* The longest headers of a RoCE v2 packet, from IPv6 to ICRC, as the RDMA core reckons them. */
constexpr size_t roce_headers = 96;

size_t path_mtu(size_t netdev_mtu)
{
    for (size_t mtu : {4096, 2048, 1024, 512, 256})
        if (netdev_mtu >= mtu + roce_headers)
            return mtu;
    return 0;
}

size_t netdev_mtu(const Tree &files, const std::string &netdev)
{
    return std::strtoul(files.line("/sys/class/net/" + netdev + "/mtu").c_str(), nullptr, 10);
}

Finding own_mtu(const Device &device, size_t mtu)
{
    const size_t path = path_mtu(mtu);

    if (path < 1024)
        return {Level::warning,
                fmt::format("{}: the MTU {} of {} leaves packets of {} bytes", device.name, mtu,
                            device.netdev, path),
                {fmt::format("ip link set {} mtu 1500", device.netdev)}};
    if (path < 4096)
        return {Level::note,
                fmt::format("{}: MTU {}, packets of {} bytes; an MTU of 4200 has packets of 4096",
                            device.name, mtu, path),
                {fmt::format("ip link set {} mtu 4200    # on both ends, and in between",
                             device.netdev)}};
    return {Level::ok, fmt::format("{}: MTU {}, packets of {} bytes", device.name, mtu, path), {}};
}

/* Sizes that networks have, below an MTU. */
std::vector<size_t> shorter_sizes(size_t mtu)
{
    std::vector<size_t> sizes{9000, 4200, 2200, 1500, 1400, 1280};

    std::erase_if(sizes, [&](size_t size) { return size >= mtu; });
    return sizes;
}

/* A GID's netdev is the one that has its address: a VLAN on the device's, or the bridge above. */
std::string netdev_to_peer(const Device &device, const Options &options)
{
    const auto chosen = std::ranges::find(device.gids, options.gid_index, &Gid::index);
    const Gid *gid = chosen != device.gids.end() ? &*chosen : best_gid(device);

    return gid != nullptr && !gid->netdev.empty() ? gid->netdev : device.netdev;
}

Finding packets_lost(const Device &device, const std::string &peer, size_t mtu,
                     std::optional<size_t> works)
{
    const std::vector<size_t> shorter = shorter_sizes(mtu);
    const std::string what = fmt::format("{}: packets of its MTU {} do not get to {}", device.name,
                                         mtu, peer);
    const std::string raise = fmt::format("ip link set NETDEV mtu {}    # or on the way to {}", mtu,
                                          peer);

    if (works)
        return {Level::problem,
                fmt::format("{}, packets of {} bytes do", what, *works),
                {fmt::format("ip link set {} mtu {}", device.netdev, *works), raise}};
    return {Level::problem,
            shorter.empty()
                ? what
                : fmt::format("{}, nor do those of {} bytes", what, fmt::join(shorter, ", ")),
            {fmt::format("tracepath -n {}    # finds where", peer), raise}};
}

Finding peer_mtu(Network &network, const Device &device, const Options &options, size_t mtu)
{
    constexpr size_t small_packet = 100;
    const std::string netdev = netdev_to_peer(device, options), peer = options.peer;

    switch (network.ping(netdev, peer, small_packet)) {
    case Reach::yes: break;
    case Reach::unknown:
        return {Level::note,
                "without the program ping the MTU of the path is not known",
                {"apt install iputils-ping"}};
    default:
        return {Level::warning,
                fmt::format("{} does not answer a ping", peer),
                {fmt::format("ping -c 1 -I {} {}", netdev, peer),
                 fmt::format("ip route get {}", peer)}};
    }
    if (network.ping(netdev, peer, mtu) == Reach::yes)
        return {Level::ok, fmt::format("packets of {} bytes get to {}", mtu, peer), {}};
    for (size_t size : shorter_sizes(mtu))
        if (network.ping(netdev, peer, size) == Reach::yes)
            return packets_lost(device, peer, mtu, size);
    return packets_lost(device, peer, mtu, std::nullopt);
}

/* What a firewall's program says drops the packets. `mend` makes the command from the chain's name.
 */
template <typename Mend>
void add_drops(const Firewall &firewall, Mend mend, Findings &findings)
{
    for (const DroppingChain &chain : dropping_chains(firewall))
        findings.push_back({Level::problem,
                            fmt::format("the firewall drops UDP port {} ({}: {})", roce_port,
                                        chain.name, chain.why),
                            {mend(chain.name)}});
}

/* True if the rules of nft could be read. */
bool look_at_nft(Commands &commands, Findings &findings)
{
    const CommandResult list = commands.run({"nft", "-j", "list", "ruleset"});
    const auto firewall = list.ran ? firewall_of_nft(list.output, roce_port)
                                   : std::optional<Firewall>();
    const auto mend = [](const std::string &chain) {
        return fmt::format("nft insert rule {} udp dport {} accept", chain, roce_port);
    };

    if (firewall)
        add_drops(*firewall, mend, findings);
    return firewall.has_value();
}

/* The same for iptables or ip6tables. */
bool look_at_iptables(Commands &commands, const std::string &program, Findings &findings)
{
    const CommandResult save = commands.run({program + "-save"});
    const auto mend = [&](const std::string & /*chain*/) {
        return fmt::format("{} -I INPUT -p udp --dport {} -j ACCEPT", program, roce_port);
    };

    if (save.ran)
        add_drops(firewall_of_iptables(save.output, roce_port), mend, findings);
    return save.ran;
}

/* The file of the uverbs device of an RDMA device. */
std::string uverbs_of(const Tree &files, const std::string &device)
{
    for (const std::string &name : files.list("/sys/class/infiniband_verbs"))
        if (files.line("/sys/class/infiniband_verbs/" + name + "/ibdev") == device)
            return "/dev/infiniband/" + name;
    return "";
}

Findings file_finding(const Tree &files, const std::string &file, const std::string &module)
{
    if (file.empty() || !files.exists(file))
        return {{Level::problem,
                 fmt::format("{} is missing", file.empty() ? "/dev/infiniband/uverbs*" : file),
                 {fmt::format("modprobe {}", module),
                  "docker run --device=/dev/infiniband ...    # in a container"}}};
    if (!files.may_use(file))
        return {{Level::problem,
                 fmt::format("{}: you may not read and write it", file),
                 {fmt::format("sudo chmod a+rw {}", file)}}};
    return {};
}

} // namespace

Findings MtuCheck::look(const Host &host, const Options &options) const
{
    Findings findings;

    for (const Device &device : devices_of(host, options)) {
        const size_t mtu = netdev_mtu(host.files, device.netdev);

        if (!device.netdev_here || mtu == 0)
            continue;
        findings.push_back(own_mtu(device, mtu));
        if (!options.peer.empty())
            findings.push_back(peer_mtu(host.network, device, options, mtu));
    }
    return findings;
}

Findings FirewallCheck::look(const Host &host, const Options & /*options*/) const
{
    Findings findings;
    bool seen = look_at_nft(host.commands, findings);

    /* Rules of iptables over nftables are in both: those of nft are told, unless it has none. */
    if (findings.empty())
        for (const char *program : {"iptables", "ip6tables"})
            seen |= look_at_iptables(host.commands, program, findings);
    if (!seen)
        return {{Level::note,
                 "not seen: it takes root and nft or iptables-save to read the rules",
                 {"sudo rox-doctor"}}};
    if (findings.empty())
        findings.push_back({Level::ok, fmt::format("no rule drops UDP port {}", roce_port), {}});
    return findings;
}

Findings MemlockCheck::look(const Host &host, const Options & /*options*/) const
{
    constexpr uint64_t unlimited = ~uint64_t{0};
    constexpr uint64_t enough = uint64_t{1} << 30;
    const Process &process = host.process;

    if (process.memlock >= enough || process.may_lock_all)
        return {{Level::ok, process.memlock == unlimited ? "unlimited" : "enough", {}}};
    return {
        {Level::warning,
         fmt::format("you may lock {} KiB of memory; memory regions fail with ENOMEM above",
                     process.memlock >> 10),
         {"ulimit -l unlimited    # as root, before the program",
          "echo '* - memlock unlimited' > /etc/security/limits.d/rdma.conf    # then log in again",
          "systemctl edit UNIT    # LimitMEMLOCK=infinity, for a service"}}};
}

Findings DeviceFileCheck::look(const Host &host, const Options &options) const
{
    const std::vector<Device> devices = devices_of(host, options);
    Findings findings;

    for (const Device &device : devices)
        for (Finding &finding :
             file_finding(host.files, uverbs_of(host.files, device.name), "ib_uverbs"))
            findings.push_back(std::move(finding));
    if (devices.empty())
        return findings;
    for (Finding &finding : file_finding(host.files, "/dev/infiniband/rdma_cm", "rdma_ucm")) {
        /* Programs without the RDMA CM do not need it. */
        finding.level = Level::warning;
        findings.push_back(std::move(finding));
    }
    if (findings.empty())
        findings.push_back({Level::ok, "the device files may be read and written", {}});
    return findings;
}

Findings OffloadCheck::look(const Host &host, const Options &options) const
{
    constexpr const char *segmentation = "tx-udp-segmentation";
    Findings findings;

    for (const Device &device : devices_of(host, options)) {
        const std::string driver = host.files.link_name("/sys/class/net/" + device.netdev +
                                                        "/device/driver");
        const bool is_virtio = driver == "virtio_net";
        const auto on = host.network.feature(device.netdev, segmentation);

        if (!device.netdev_here)
            continue;
        if (on == true)
            findings.push_back(
                {Level::ok, fmt::format("{}: {} is on", device.netdev, segmentation), {}});
        else if (on == false)
            findings.push_back(
                {is_virtio ? Level::warning : Level::note,
                 fmt::format("{}: {} is off, which costs speed", device.netdev, segmentation),
                 {fmt::format("ethtool -K {} {} on", device.netdev, segmentation)}});
        else if (is_virtio)
            findings.push_back(
                {Level::note,
                 fmt::format("{}: the host offers no UDP segmentation, which costs speed",
                             device.netdev),
                 {"qemu-system-x86_64 -device virtio-net-pci,host_uso=on ...    # on the host"}});
    }
    return findings;
}

std::vector<std::unique_ptr<Check>> all_checks()
{
    std::vector<std::unique_ptr<Check>> checks;

    checks.push_back(std::make_unique<ModuleCheck>());
    checks.push_back(std::make_unique<ProviderCheck>());
    checks.push_back(std::make_unique<PortCheck>());
    checks.push_back(std::make_unique<LinkCheck>());
    checks.push_back(std::make_unique<NamespaceCheck>());
    checks.push_back(std::make_unique<DeviceFileCheck>());
    checks.push_back(std::make_unique<MemlockCheck>());
    checks.push_back(std::make_unique<GidCheck>());
    checks.push_back(std::make_unique<AddressCheck>());
    checks.push_back(std::make_unique<MtuCheck>());
    checks.push_back(std::make_unique<FirewallCheck>());
    checks.push_back(std::make_unique<OffloadCheck>());
    checks.push_back(std::make_unique<CongestionCheck>());
    checks.push_back(std::make_unique<TrafficCheck>());
    return checks;
}

} // namespace rox::doctor
