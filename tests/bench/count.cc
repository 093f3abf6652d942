// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Sends a given number of messages, between two marks for the plugin of `scripts/bench count`.
//
//   count arm       reads lines "ADDRESS CLASS REGISTER" of functions to watch
//   count server KIND ADDRESS PORT SIZE TOTAL WARM-UP RUN [apart] [poll]
//   count client KIND ADDRESS PORT SIZE TOTAL WARM-UP RUN DEPTH LIST [SEGMENT] [apart] [poll]
//
// KIND is write, send or read (RDMA verbs over an RC connection) or tcp, with packets of at most
// SEGMENT bytes. The first WARM-UP messages of TOTAL are not counted. DEPTH messages are under way
// at once; LIST of them are posted by one call. Programs sleep until a completion comes, or poll.
// The client marks where a run begins and ends. Programs in two guests, "apart", both do.
// With reg_mr and dereg_mr, regions of SIZE bytes are registered or deregistered instead.

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

#include "plugin/marks.h"

namespace {

constexpr int kTimeoutMs = 5000;
constexpr unsigned kLimitSeconds = 60;
constexpr int kMostReads = 16;
constexpr int kMostList = 64;
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

struct Options {
    bool client = false;
    std::string kind;
    sockaddr_in address{};
    size_t size = 0;
    int total = 0;
    int warm_up = 0;
    int depth = 0;
    int list = 1;
    uint64_t run = 0;
    int segment = 0;
    bool apart = false;
    bool poll = false;
};

/// What the server tells the client about its memory.
struct Region {
    uint64_t address;
    uint32_t key;
} __attribute__((packed));

[[noreturn]] void fail(const std::string &what, int error = errno)
{
    throw std::system_error(error, std::generic_category(), what);
}

int check(int result, const char *what)
{
    if (result < 0)
        fail(what);
    return result;
}

/// Tells the plugin something.
void mark(rox_mark what, uint64_t first = 0, uint64_t second = 0)
{
    // nopl with a displacement, see marks.h
    asm volatile(".byte 0x0f, 0x1f, 0x80, 0x52, 0x4f, 0x30, 0x58"
                 :
                 : "D"(static_cast<uint64_t>(what)), "S"(first), "d"(second)
                 : "memory");
}

void arm()
{
    uint64_t address = 0;
    unsigned what = 0;
    unsigned reg = 0;
    for (std::string word; std::cin >> word >> what >> reg;) {
        address = std::stoull(word, nullptr, 16);
        mark(ROX_MARK_WATCH, address, ROX_WATCH(what, reg));
    }
    mark(ROX_MARK_ARM);
}

// -- TCP --------------------------------------------------------------------------------------

void write_all(int fd, const char *data, size_t size)
{
    while (size) {
        const ssize_t done = check(static_cast<int>(write(fd, data, size)), "write");
        data += done;
        size -= static_cast<size_t>(done);
    }
}

void read_all(int fd, char *data, size_t size)
{
    while (size) {
        const ssize_t done = check(static_cast<int>(read(fd, data, size)), "read");
        if (!done)
            throw std::runtime_error("the connection ended");
        data += done;
        size -= static_cast<size_t>(done);
    }
}

/// After the warm-up and at the end the server sends one byte.
void tcp(const Options &options)
{
    std::vector<char> buffer(options.size);
    const int fd = check(socket(AF_INET, SOCK_STREAM, 0), "socket");
    const auto *address = reinterpret_cast<const sockaddr *>(&options.address);
    if (options.client) {
        if (options.segment)
            check(
                setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &options.segment, sizeof(options.segment)),
                "TCP_MAXSEG");
        check(connect(fd, address, sizeof(options.address)), "connect");
        for (int i = 0; i < options.total; ++i) {
            if (i == options.warm_up) {
                read_all(fd, buffer.data(), 1);
                mark(ROX_MARK_START, options.run);
            }
            write_all(fd, buffer.data(), buffer.size());
        }
        read_all(fd, buffer.data(), 1);
        mark(ROX_MARK_STOP, options.run);
        return;
    }
    const int one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    check(bind(fd, address, sizeof(options.address)), "bind");
    check(listen(fd, 1), "listen");
    const int peer = check(accept(fd, nullptr, nullptr), "accept");
    for (int i = 0; i < options.total; ++i) {
        if (i == options.warm_up) {
            if (options.apart)
                mark(ROX_MARK_START, options.run);
            write_all(peer, buffer.data(), 1);
        }
        read_all(peer, buffer.data(), buffer.size());
    }
    if (options.apart)
        mark(ROX_MARK_STOP, options.run);
    write_all(peer, buffer.data(), 1);
}

// -- RDMA -------------------------------------------------------------------------------------

/// One end of an RC connection.
class End {
public:
    explicit End(const Options &options)
        : options_(options), buffer_(options.size), pages_(options.size + kPage)
    {}

    void run()
    {
        if (options_.client)
            connect_to();
        else
            accept_one();
        if (options_.client && options_.kind == "reg_mr")
            deregister(register_all(true), false);
        else if (options_.client && options_.kind == "dereg_mr")
            deregister(register_all(false), true);
        else if (options_.client)
            send();
        else if (options_.apart)
            receive_and_mark();
        else if (options_.kind == "send")
            receive();
        if (options_.client)
            rdma_disconnect(id_);
        else
            wait_for(RDMA_CM_EVENT_DISCONNECTED);
        // The process ends, which frees the rest.
    }

private:
    void wait_for(rdma_cm_event_type wanted)
    {
        rdma_cm_event *event = nullptr;
        check(rdma_get_cm_event(channel_, &event), "rdma_get_cm_event");
        const auto type = event->event;
        const auto &data = event->param.conn;
        if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
            id_ = event->id;
        if (type == RDMA_CM_EVENT_ESTABLISHED && options_.client) {
            if (data.private_data_len < sizeof(remote_))
                throw std::runtime_error("the server has not told its memory");
            memcpy(&remote_, data.private_data, sizeof(remote_));
        }
        rdma_ack_cm_event(event);
        if (type != wanted)
            throw std::runtime_error(std::string("event ") + rdma_event_str(type));
    }

    void open_channel()
    {
        channel_ = rdma_create_event_channel();
        if (!channel_)
            fail("rdma_create_event_channel");
        check(rdma_create_id(channel_, &id_, nullptr, RDMA_PS_TCP), "rdma_create_id");
    }

    void make_qp()
    {
        completions_ = ibv_create_comp_channel(id_->verbs);
        cq_ = completions_ ? ibv_create_cq(id_->verbs, 2 * kReceives, nullptr, completions_, 0)
                           : nullptr;
        pd_ = ibv_alloc_pd(id_->verbs);
        mr_ = pd_ ? ibv_reg_mr(pd_, buffer_.data(), buffer_.size(), kAccess) : nullptr;
        if (!cq_ || !mr_)
            fail("no CQ or no region");
        ibv_qp_init_attr attr{};
        attr.qp_type = IBV_QPT_RC;
        attr.send_cq = attr.recv_cq = cq_;
        attr.cap.max_send_wr = attr.cap.max_recv_wr = kReceives;
        attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
        check(rdma_create_qp(id_, pd_, &attr), "rdma_create_qp");
        ask_for_event();
    }

    [[nodiscard]] rdma_conn_param parameters() const
    {
        ibv_device_attr device{};
        if (ibv_query_device(id_->verbs, &device))
            fail("ibv_query_device");
        rdma_conn_param param{};
        param.responder_resources = std::min(kMostReads, device.max_qp_rd_atom);
        param.initiator_depth = std::min(kMostReads, device.max_qp_init_rd_atom);
        param.retry_count = 7;
        param.rnr_retry_count = 7;
        return param;
    }

    void connect_to()
    {
        open_channel();
        auto address = options_.address;
        check(rdma_resolve_addr(id_, nullptr, reinterpret_cast<sockaddr *>(&address), kTimeoutMs),
              "rdma_resolve_addr");
        wait_for(RDMA_CM_EVENT_ADDR_RESOLVED);
        check(rdma_resolve_route(id_, kTimeoutMs), "rdma_resolve_route");
        wait_for(RDMA_CM_EVENT_ROUTE_RESOLVED);
        make_qp();
        auto param = parameters();
        check(rdma_connect(id_, &param), "rdma_connect");
        wait_for(RDMA_CM_EVENT_ESTABLISHED);
    }

    void accept_one()
    {
        open_channel();
        auto address = options_.address;
        check(rdma_bind_addr(id_, reinterpret_cast<sockaddr *>(&address)), "rdma_bind_addr");
        check(rdma_listen(id_, 1), "rdma_listen");
        std::puts("listening");
        std::fflush(stdout);
        wait_for(RDMA_CM_EVENT_CONNECT_REQUEST);
        make_qp();
        if (options_.kind == "send" || options_.apart) {
            for (int i = 0; i < kReceives; ++i)
                post_receive();
        }
        auto param = parameters();
        const Region mine{reinterpret_cast<uint64_t>(buffer_.data()), mr_->rkey};
        param.private_data = &mine;
        param.private_data_len = sizeof(mine);
        check(rdma_accept(id_, &param), "rdma_accept");
        wait_for(RDMA_CM_EVENT_ESTABLISHED);
    }

    void post_receive()
    {
        ibv_sge sge = all();
        ibv_recv_wr wr{};
        wr.sg_list = &sge;
        wr.num_sge = 1;
        ibv_recv_wr *bad = nullptr;
        if (ibv_post_recv(id_->qp, &wr, &bad))
            fail("ibv_post_recv");
    }

    [[nodiscard]] ibv_sge all() const
    {
        return {reinterpret_cast<uint64_t>(buffer_.data()), static_cast<uint32_t>(options_.size),
                mr_->lkey};
    }

    void ask_for_event()
    {
        if (!options_.poll && ibv_req_notify_cq(cq_, 0))
            fail("ibv_req_notify_cq");
    }

    int poll_once()
    {
        ibv_wc wc[16];
        const int count = ibv_poll_cq(cq_, std::size(wc), wc);
        if (count < 0)
            fail("ibv_poll_cq");
        for (int i = 0; i < count; ++i) {
            if (wc[i].status)
                throw std::runtime_error(std::string("completion: ") +
                                         ibv_wc_status_str(wc[i].status));
            const bool received = wc[i].opcode == IBV_WC_RECV;
            received_ += received;
            signals_ += received && !wc[i].byte_len;
        }
        return count;
    }

    /// Polls until something is there; the plugin tells that apart.
    int poll_in_vain()
    {
        mark(ROX_MARK_WAIT, 1);
        int count = 0;
        while (!count)
            count = poll_once();
        mark(ROX_MARK_WAIT, 0);
        return count;
    }

    int sleep()
    {
        ibv_cq *cq = nullptr;
        void *context = nullptr;
        if (ibv_get_cq_event(completions_, &cq, &context))
            fail("ibv_get_cq_event");
        ibv_ack_cq_events(cq, 1);
        ask_for_event();
        return poll_once();
    }

    /// Completions that have come, at least one.
    int completed()
    {
        int count = poll_once();
        while (!count)
            count = options_.poll ? poll_in_vain() : sleep();
        return count;
    }

    void send()
    {
        send_until(options_.warm_up);
        if (options_.apart)
            signal_and_wait();
        mark(ROX_MARK_START, options_.run);
        send_until(options_.total);
        mark(ROX_MARK_STOP, options_.run);
        if (options_.apart) {
            post_signal();
            completed();
        }
    }

    /// Sends a message without payload, which is none of those that are counted.
    void post_signal()
    {
        ibv_send_wr wr{};
        wr.opcode = IBV_WR_SEND;
        wr.send_flags = IBV_SEND_SIGNALED;
        ibv_send_wr *bad = nullptr;
        if (ibv_post_send(id_->qp, &wr, &bad))
            fail("ibv_post_send");
    }

    /// Waits until the server has marked the begin of the run.
    void signal_and_wait()
    {
        post_receive();
        post_signal();
        for (int count = 0; count < 2;)
            count += completed();
    }

    /// Sends until so many messages are complete.
    void send_until(int total)
    {
        while (done_ < total) {
            while (posted_ < total && posted_ - done_ + options_.list <= options_.depth) {
                const int count = std::min(options_.list, total - posted_);
                post(count);
                posted_ += count;
            }
            done_ += completed();
        }
    }

    void post(int count)
    {
        ibv_sge sge = all();
        ibv_send_wr wr[kMostList];
        for (int i = 0; i < count; ++i) {
            wr[i] = {};
            wr[i].next = i + 1 < count ? &wr[i + 1] : nullptr;
            wr[i].sg_list = &sge;
            wr[i].num_sge = 1;
            wr[i].opcode = options_.kind == "write"  ? IBV_WR_RDMA_WRITE
                           : options_.kind == "read" ? IBV_WR_RDMA_READ
                                                     : IBV_WR_SEND;
            wr[i].send_flags = IBV_SEND_SIGNALED;
            wr[i].wr.rdma.remote_addr = remote_.address;
            wr[i].wr.rdma.rkey = remote_.key;
        }
        ibv_send_wr *bad = nullptr;
        if (ibv_post_send(id_->qp, wr, &bad))
            fail("ibv_post_send");
    }

    /// Registers the same pages again and again.
    std::vector<ibv_mr *> register_all(bool counted)
    {
        std::vector<ibv_mr *> regions(static_cast<size_t>(options_.total));
        void *start = pages_.data();
        size_t room = pages_.size();
        std::align(kPage, options_.size, start, room);
        for (int i = 0; i < options_.total; ++i) {
            if (counted && i == options_.warm_up)
                mark(ROX_MARK_START, options_.run);
            regions[static_cast<size_t>(i)] = ibv_reg_mr(pd_, start, options_.size, kAccess);
            if (!regions[static_cast<size_t>(i)])
                fail("ibv_reg_mr");
        }
        if (counted)
            mark(ROX_MARK_STOP, options_.run);
        return regions;
    }

    void deregister(const std::vector<ibv_mr *> &regions, bool counted)
    {
        for (int i = 0; i < options_.total; ++i) {
            if (counted && i == options_.warm_up)
                mark(ROX_MARK_START, options_.run);
            if (const int error = ibv_dereg_mr(regions[static_cast<size_t>(i)]))
                fail("ibv_dereg_mr", error);
        }
        if (counted)
            mark(ROX_MARK_STOP, options_.run);
    }

    void receive()
    {
        for (int done = 0; done < options_.total;) {
            const int count = completed();
            for (int i = 0; i < count; ++i)
                post_receive();
            done += count;
        }
    }

    /// The client's first signal begins the run and is answered, the second one ends it.
    void receive_and_mark()
    {
        while (signals_ < 2) {
            const int before = signals_;
            for (completed(); received_; --received_)
                post_receive();
            if (!before && signals_) {
                mark(ROX_MARK_START, options_.run);
                post_signal();
            }
        }
        mark(ROX_MARK_STOP, options_.run);
    }

    static constexpr int kReceives = 128;
    static constexpr size_t kPage = 4096;

    const Options &options_;
    std::vector<char> buffer_;
    std::vector<char> pages_;
    rdma_event_channel *channel_ = nullptr;
    rdma_cm_id *id_ = nullptr;
    ibv_comp_channel *completions_ = nullptr;
    ibv_cq *cq_ = nullptr;
    ibv_pd *pd_ = nullptr;
    ibv_mr *mr_ = nullptr;
    Region remote_{};
    int posted_ = 0;
    int done_ = 0;
    int received_ = 0;
    int signals_ = 0;
};

// -- main -------------------------------------------------------------------------------------

Options parse(std::vector<std::string> words)
{
    Options options;
    for (; words.back() == "poll" || words.back() == "apart"; words.pop_back())
        (words.back() == "poll" ? options.poll : options.apart) = true;
    options.client = words.at(0) == "client";
    options.kind = words.at(1);
    options.address.sin_family = AF_INET;
    if (inet_pton(AF_INET, words.at(2).c_str(), &options.address.sin_addr) != 1)
        throw std::runtime_error("no address: " + words.at(2));
    options.address.sin_port = htons(static_cast<uint16_t>(std::stoi(words.at(3))));
    options.size = std::stoul(words.at(4));
    options.total = std::stoi(words.at(5));
    options.warm_up = std::stoi(words.at(6));
    options.run = std::stoul(words.at(7));
    if (options.client) {
        options.depth = std::stoi(words.at(8));
        options.list = std::clamp(std::stoi(words.at(9)), 1, kMostList);
        if (words.size() > 10)
            options.segment = std::stoi(words[10]);
    }
    return options;
}

} // namespace

int main(int argc, char **argv)
{
    try {
        const std::vector<std::string> words(argv + 1, argv + argc);
        if (words.at(0) == "arm") {
            arm();
            return 0;
        }
        alarm(kLimitSeconds);
        const Options options = parse(words);
        mark(ROX_MARK_SIDE, options.client ? ROX_SIDE_CLIENT : ROX_SIDE_SERVER);
        if (options.kind == "tcp")
            tcp(options);
        else
            End(options).run();
        return 0;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "count: %s\n", error.what());
        return 1;
    }
}
