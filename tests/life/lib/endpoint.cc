// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "endpoint.h"

#include <cerrno>
#include <cstring>
#include <random>

#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>

#include "../../verbs/lib/gid.h"

namespace life {

namespace {

constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                        IBV_ACCESS_REMOTE_ATOMIC;
constexpr int kSends = 64;
constexpr std::uint32_t kPsnMask = 0xffffff;

template <typename T>
T *need(T *object, const char *what)
{
    if (!object)
        throw Trouble{what, errno};
    return object;
}

void check(int result, const char *what)
{
    if (result)
        throw Trouble{what, result > 0 ? result : errno};
}

ibv_context *open_device(const std::string &name)
{
    int count = 0;
    ibv_device **list = need(ibv_get_device_list(&count), "ibv_get_device_list");
    ibv_context *context = nullptr;

    errno = ENODEV;
    for (int i = 0; i < count; i++) {
        if (name == ibv_get_device_name(list[i])) {
            context = ibv_open_device(list[i]);
            break;
        }
    }
    ibv_free_device_list(list);
    return need(context, "ibv_open_device");
}

std::uint8_t *map_memory()
{
    void *memory = mmap(nullptr, layout::kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                        -1, 0);

    if (memory == MAP_FAILED)
        throw Trouble{"mmap", errno};
    return static_cast<std::uint8_t *>(memory);
}

void make_nonblocking(int fd)
{
    check(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), "fcntl");
}

} // namespace

void Endpoint::Unmap::operator()(std::uint8_t *memory) const
{
    munmap(memory, layout::kSize);
}

Endpoint::Endpoint(const Options &options)
    : options_(options), memory_(map_memory()), context_(open_device(options.device)),
      channel_(need(ibv_create_comp_channel(context_.get()), "ibv_create_comp_channel")),
      pd_(need(ibv_alloc_pd(context_.get()), "ibv_alloc_pd")),
      cq_(need(
          ibv_create_cq(context_.get(), 2 * kSends + layout::kReceives, nullptr, channel_.get(), 0),
          "ibv_create_cq")),
      mr_(need(ibv_reg_mr(pd_.get(), memory_.get(), layout::kSize, kAccess), "ibv_reg_mr"))
{
    std::minstd_rand bytes(12345);

    for (std::size_t i = 0; i < layout::kSourceSize; i++)
        memory_.get()[i] = static_cast<std::uint8_t>(bytes() >> 8);
    psn_ = std::random_device{}() & kPsnMask;
    make_nonblocking(context_->async_fd);
    make_nonblocking(channel_->fd);
    choose_gid();
    create_qp();
    initialise_qp();
    check(ibv_req_notify_cq(cq_.get(), 0), "ibv_req_notify_cq");
}

// The GID of the address in the options. Without one, an IPv4 GID if there is any: the table has
// link-local ones before the others.
void Endpoint::choose_gid()
{
    const bool any = options_.address.empty();
    const std::size_t end = options_.address.find('%');
    const auto wanted = any ? ibv_gid{} : vt::parse_gid(options_.address.substr(0, end));
    const unsigned int netdev = end == std::string::npos
                                    ? 0
                                    : if_nametoindex(options_.address.c_str() + end + 1);
    ibv_port_attr port{};

    if (!wanted)
        throw Trouble{"not an address: " + options_.address, EINVAL};
    check(ibv_query_port(context_.get(), 1, &port), "ibv_query_port");
    mtu_ = port.active_mtu;

    const auto allowed = [&](const ibv_gid_entry &entry) {
        return (any || vt::same_gid(entry.gid, *wanted)) &&
               !(options_.v6 && vt::is_v4_mapped(entry.gid)) &&
               (netdev == 0 || entry.ndev_ifindex == netdev);
    };
    auto entry = vt::find_gid_entry(context_.get(), [&](const ibv_gid_entry &one) {
        return allowed(one) && vt::is_v4_mapped(one.gid);
    });
    if (!entry)
        entry = vt::find_gid_entry(context_.get(), allowed);
    if (!entry)
        throw Trouble{"no GID " + options_.address, ENOENT};
    gid_index_ = static_cast<int>(entry->gid_index);
    gid_ = entry->gid;
}

void Endpoint::create_qp()
{
    ibv_qp_init_attr attributes{};

    attributes.send_cq = cq_.get();
    attributes.recv_cq = cq_.get();
    attributes.qp_type = IBV_QPT_RC;
    attributes.sq_sig_all = 1;
    attributes.cap.max_send_wr = kSends;
    attributes.cap.max_recv_wr = layout::kReceives;
    attributes.cap.max_send_sge = 1;
    attributes.cap.max_recv_sge = 1;
    attributes.cap.max_inline_data = sizeof(std::uint64_t);
    qp_.reset(need(ibv_create_qp(pd_.get(), &attributes), "ibv_create_qp"));
}

void Endpoint::initialise_qp()
{
    ibv_qp_attr attributes{};

    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = 1;
    attributes.qp_access_flags = kAccess;
    check(ibv_modify_qp(qp_.get(), &attributes,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
          "ibv_modify_qp to INIT");
    for (std::size_t slot = 0; slot < layout::kReceives; slot++)
        post_receive(slot);
}

Address Endpoint::address() const
{
    return {gid_, reinterpret_cast<std::uintptr_t>(memory_.get()), mr_->rkey, qp_->qp_num, psn_};
}

void Endpoint::connect(const Address &peer)
{
    ibv_qp_attr attributes{};

    peer_ = peer;
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = mtu_;
    attributes.dest_qp_num = peer.qpn;
    attributes.rq_psn = peer.psn;
    attributes.max_dest_rd_atomic = layout::kSlots;
    attributes.min_rnr_timer = 1;
    attributes.ah_attr.is_global = 1;
    attributes.ah_attr.port_num = 1;
    attributes.ah_attr.grh.dgid = peer.gid;
    attributes.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(gid_index_);
    attributes.ah_attr.grh.hop_limit = 64;
    check(ibv_modify_qp(qp_.get(), &attributes,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                            IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
          "ibv_modify_qp to RTR");

    attributes.qp_state = IBV_QPS_RTS;
    attributes.sq_psn = psn_;
    attributes.timeout = static_cast<std::uint8_t>(options_.timeout);
    attributes.retry_cnt = static_cast<std::uint8_t>(options_.retries);
    attributes.rnr_retry = 7;
    attributes.max_rd_atomic = layout::kSlots;
    check(ibv_modify_qp(qp_.get(), &attributes,
                        IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                            IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC),
          "ibv_modify_qp to RTS");
}

void Endpoint::post_receive(std::uint64_t slot)
{
    ibv_sge place{reinterpret_cast<std::uintptr_t>(at(layout::kReceived + slot * 4096)), 4096,
                  mr_->lkey};
    ibv_recv_wr request{};
    ibv_recv_wr *bad = nullptr;

    request.wr_id = slot;
    request.sg_list = &place;
    request.num_sge = 1;
    check(ibv_post_recv(qp_.get(), &request, &bad), "ibv_post_recv");
}

void Endpoint::post(ibv_send_wr &request)
{
    ibv_send_wr *bad = nullptr;

    check(ibv_post_send(qp_.get(), &request, &bad), "ibv_post_send");
}

void Endpoint::post_send(std::uint64_t id, ibv_wr_opcode opcode, std::size_t local,
                         std::size_t length, std::size_t remote, std::uint32_t immediate)
{
    ibv_sge place{reinterpret_cast<std::uintptr_t>(at(local)), static_cast<std::uint32_t>(length),
                  mr_->lkey};
    ibv_send_wr request{};

    request.wr_id = id;
    request.sg_list = &place;
    request.num_sge = 1;
    request.opcode = opcode;
    request.imm_data = htonl(immediate);
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        request.wr.atomic.remote_addr = peer_.base + remote;
        request.wr.atomic.rkey = peer_.rkey;
        request.wr.atomic.compare_add = 1;
    } else {
        request.wr.rdma.remote_addr = peer_.base + remote;
        request.wr.rdma.rkey = peer_.rkey;
    }
    post(request);
}

void Endpoint::post_word(std::uint64_t id, std::uint64_t value, std::size_t remote)
{
    ibv_sge place{reinterpret_cast<std::uintptr_t>(&value), sizeof(value), 0};
    ibv_send_wr request{};

    request.wr_id = id;
    request.sg_list = &place;
    request.num_sge = 1;
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = IBV_SEND_INLINE;
    request.wr.rdma.remote_addr = peer_.base + remote;
    request.wr.rdma.rkey = peer_.rkey;
    post(request);
}

void Endpoint::wait(int millis)
{
    pollfd fds[] = {{channel_->fd, POLLIN, 0}, {context_->async_fd, POLLIN, 0}};
    ibv_cq *cq = nullptr;
    void *cookie = nullptr;

    if (!options_.events) {
        sched_yield();
        return;
    }
    poll(fds, 2, millis);
    while (!ibv_get_cq_event(channel_.get(), &cq, &cookie))
        ibv_ack_cq_events(cq, 1);
    if (!gone_)
        check(ibv_req_notify_cq(cq_.get(), 0), "ibv_req_notify_cq");
}

bool Endpoint::device_gone()
{
    ibv_async_event event{};

    while (!ibv_get_async_event(context_.get(), &event)) {
        gone_ = gone_ || event.event_type == IBV_EVENT_DEVICE_FATAL;
        ibv_ack_async_event(&event);
    }
    return gone_;
}

} // namespace life
