/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "lib/rdma.hpp"

#include <array>

#include <libmnl/libmnl.h>
#include <rdma/rdma_netlink.h>

namespace rox {

namespace {

template <size_t count>
const char *name_at(const std::array<const char *, count> &names, uint32_t index)
{
    return index < count && names[index] != nullptr ? names[index] : "?";
}

Attributes open(const Answer &answer)
{
    return {answer.data(), answer.size()};
}

uint32_t small(const Attributes &from, uint16_t type)
{
    return static_cast<uint32_t>(from.number(type).value_or(0));
}

/* The driver's fields: a name, perhaps a print type, and a value, one after the other. */
Fields driver_fields(const Attributes &nest)
{
    Fields fields;
    std::string name;

    for (const nlattr *attribute : nest.all()) {
        switch (mnl_attr_get_type(attribute)) {
        case RDMA_NLDEV_ATTR_DRIVER_STRING:
            if (name.empty()) {
                name = Attributes::text_of(attribute);
                continue;
            }
            fields[name] = Attributes::text_of(attribute);
            break;
        case RDMA_NLDEV_ATTR_DRIVER_S32:
        case RDMA_NLDEV_ATTR_DRIVER_U32:
        case RDMA_NLDEV_ATTR_DRIVER_S64:
        case RDMA_NLDEV_ATTR_DRIVER_U64: fields[name] = Attributes::number_of(attribute); break;
        default: continue;
        }
        name.clear();
    }
    return fields;
}

void read_object(const Attributes &from, uint16_t number, RdmaObject &object)
{
    object.number = from.number(number).value_or(0);
    object.pid = from.number(RDMA_NLDEV_ATTR_RES_PID).value_or(0);
    object.kernel_user = from.text(RDMA_NLDEV_ATTR_RES_KERN_NAME);
    object.driver = driver_fields(from.nest(RDMA_NLDEV_ATTR_DRIVER));
}

void read(const Attributes &from, RdmaQp &qp)
{
    read_object(from, RDMA_NLDEV_ATTR_RES_LQPN, qp);
    qp.type = small(from, RDMA_NLDEV_ATTR_RES_TYPE);
    qp.state = small(from, RDMA_NLDEV_ATTR_RES_STATE);
    qp.peer = small(from, RDMA_NLDEV_ATTR_RES_RQPN);
}

void read(const Attributes &from, RdmaCq &cq)
{
    read_object(from, RDMA_NLDEV_ATTR_RES_CQN, cq);
    cq.entries = from.number(RDMA_NLDEV_ATTR_RES_CQE).value_or(0);
    cq.users = from.number(RDMA_NLDEV_ATTR_RES_USECNT).value_or(0);
}

void read(const Attributes &from, RdmaMr &mr)
{
    read_object(from, RDMA_NLDEV_ATTR_RES_MRN, mr);
    mr.length = from.number(RDMA_NLDEV_ATTR_RES_MRLEN).value_or(0);
}

std::map<std::string, uint64_t> read_counters(const Attributes &from)
{
    std::map<std::string, uint64_t> counters;

    for (const Attributes &entry :
         from.nest(RDMA_NLDEV_ATTR_STAT_HWCOUNTERS).nests(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY))
        counters[entry.text(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME)] =
            entry.number(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE).value_or(0);
    return counters;
}

template <typename Object>
std::vector<Object> objects(RdmaNetlink &netlink, int command, uint16_t table, uint16_t entry,
                            uint32_t device)
{
    std::vector<Object> found;

    for (const Answer &answer : netlink.ask(command, true, {{RDMA_NLDEV_ATTR_DEV_INDEX, device}}))
        for (const Attributes &from : open(answer).nest(table).nests(entry))
            read(from, found.emplace_back());
    return found;
}

void add_ports(RdmaNetlink &netlink, RdmaDevice &device)
{
    constexpr uint64_t active = 4; // IB_PORT_ACTIVE

    for (const Answer &answer :
         netlink.ask(RDMA_NLDEV_CMD_PORT_GET, true, {{RDMA_NLDEV_ATTR_DEV_INDEX, device.index}})) {
        const Attributes from = open(answer);

        device.ports.push_back(
            {.index = small(from, RDMA_NLDEV_ATTR_PORT_INDEX),
             .device = device.index,
             .netdev = from.text(RDMA_NLDEV_ATTR_NDEV_NAME),
             .active = from.number(RDMA_NLDEV_ATTR_PORT_STATE).value_or(0) == active,
             .counters = {}});
    }
}

} // namespace

uint64_t number_in(const Fields &fields, std::string_view name)
{
    const auto found = fields.find(name);
    const auto *number = found != fields.end() ? std::get_if<uint64_t>(&found->second) : nullptr;

    return number != nullptr ? *number : 0;
}

std::string text_in(const Fields &fields, std::string_view name)
{
    const auto found = fields.find(name);
    const auto *text = found != fields.end() ? std::get_if<std::string>(&found->second) : nullptr;

    return text != nullptr ? *text : "";
}

const char *qp_type_name(uint32_t type)
{
    static constexpr std::array<const char *, 11> names = {
        "SMI", "GSI", "RC", "UC", "UD", nullptr, nullptr, nullptr, "RAW", "XRC_INI", "XRC_TGT"};

    return name_at(names, type);
}

const char *qp_state_name(uint32_t state)
{
    static constexpr std::array<const char *, 7> names = {"RESET", "INIT", "RTR", "RTS",
                                                          "SQD",   "SQE",  "ERR"};

    return name_at(names, state);
}

std::vector<RdmaDevice> rdma_devices(RdmaNetlink &netlink)
{
    std::vector<RdmaDevice> devices;

    for (const Answer &answer : netlink.ask(RDMA_NLDEV_CMD_GET, true, {})) {
        const Attributes from = open(answer);

        devices.push_back({.index = small(from, RDMA_NLDEV_ATTR_DEV_INDEX),
                           .name = from.text(RDMA_NLDEV_ATTR_DEV_NAME),
                           .protocol = from.text(RDMA_NLDEV_ATTR_DEV_PROTOCOL),
                           .ports = {}});
    }
    for (RdmaDevice &device : devices)
        add_ports(netlink, device);
    return devices;
}

std::map<std::string, uint64_t> rdma_port_counters(RdmaNetlink &netlink, const RdmaPort &port)
{
    for (const Answer &answer : netlink.ask(
             RDMA_NLDEV_CMD_STAT_GET, false,
             {{RDMA_NLDEV_ATTR_DEV_INDEX, port.device}, {RDMA_NLDEV_ATTR_PORT_INDEX, port.index}}))
        return read_counters(open(answer));
    return {};
}

std::vector<RdmaQp> rdma_qps(RdmaNetlink &netlink, uint32_t device)
{
    return objects<RdmaQp>(netlink, RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_ATTR_RES_QP,
                           RDMA_NLDEV_ATTR_RES_QP_ENTRY, device);
}

std::vector<RdmaCq> rdma_cqs(RdmaNetlink &netlink, uint32_t device)
{
    return objects<RdmaCq>(netlink, RDMA_NLDEV_CMD_RES_CQ_GET, RDMA_NLDEV_ATTR_RES_CQ,
                           RDMA_NLDEV_ATTR_RES_CQ_ENTRY, device);
}

std::vector<RdmaMr> rdma_mrs(RdmaNetlink &netlink, uint32_t device)
{
    return objects<RdmaMr>(netlink, RDMA_NLDEV_CMD_RES_MR_GET, RDMA_NLDEV_ATTR_RES_MR,
                           RDMA_NLDEV_ATTR_RES_MR_ENTRY, device);
}

std::vector<RdmaQpCounters> rdma_qp_counters(RdmaNetlink &netlink, uint32_t device)
{
    std::vector<RdmaQpCounters> found;

    for (const Answer &answer : netlink.ask(RDMA_NLDEV_CMD_STAT_GET, true,
                                            {{RDMA_NLDEV_ATTR_DEV_INDEX, device},
                                             {RDMA_NLDEV_ATTR_STAT_RES, RDMA_NLDEV_ATTR_RES_QP}}))
        for (const Attributes &from : open(answer)
                                          .nest(RDMA_NLDEV_ATTR_STAT_COUNTER)
                                          .nests(RDMA_NLDEV_ATTR_STAT_COUNTER_ENTRY)) {
            RdmaQpCounters &entry = found.emplace_back();

            entry.id = small(from, RDMA_NLDEV_ATTR_STAT_COUNTER_ID);
            entry.counters = read_counters(from);
            for (const Attributes &qp :
                 from.nest(RDMA_NLDEV_ATTR_RES_QP).nests(RDMA_NLDEV_ATTR_RES_QP_ENTRY))
                entry.qps.push_back(qp.number(RDMA_NLDEV_ATTR_RES_LQPN).value_or(0));
        }
    return found;
}

std::optional<bool> rdma_netns_exclusive(RdmaNetlink &netlink)
{
    for (const Answer &answer : netlink.ask(RDMA_NLDEV_CMD_SYS_GET, false, {}))
        if (const auto mode = open(answer).number(RDMA_NLDEV_SYS_ATTR_NETNS_MODE))
            return *mode == 0; // 1: shared
    return std::nullopt;
}

} // namespace rox
