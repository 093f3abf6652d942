// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "lib/prey.h"

#include <cstring>

#include <rdma/ib_user_verbs.h>

namespace hostile {

namespace {

constexpr std::uint64_t kForeignSeed = 0xf0, kReadonlySeed = 0xf1;
constexpr std::uint8_t kGuard = 0xa5;
constexpr std::uint32_t kQkey = 0x11111111;
constexpr std::uint32_t kCqEntries = 1024, kSrqEntries = 32;

vt::QpConfig config_of(ibv_qp_type type, ibv_srq *srq)
{
    return {.type = type,
            .send_wr = 32,
            .recv_wr = 32,
            .send_sge = 4,
            .recv_sge = 4,
            .inline_data = 64,
            .sig_all = false,
            .srq = srq};
}

} // namespace

Window::Window(const vt::Pd &pd, ibv_mw_type type)
    : mw_(vt::need(ibv_alloc_mw(pd.get(), type), "ibv_alloc_mw"))
{}

Window::~Window()
{
    EXPECT_EQ(ibv_dealloc_mw(mw_), 0);
}

Loot::Loot(const vt::Context &context, const vt::Pd &pd)
    : other_pd(vt::alloc_pd(context.get())), own(pd.get(), kSize, kBindable),
      readonly(pd.get(), kSize, 0), foreign(other_pd.get(), kSize, kBindable), guarded(3 * kSize),
      middle(vt::reg_mr(pd.get(), guarded.data() + kSize, kSize, kBindable)),
      window(pd, IBV_MW_TYPE_2), other_window(other_pd, IBV_MW_TYPE_2)
{
    vt::fill(foreign.bytes(), kForeignSeed);
    vt::fill(readonly.bytes(), kReadonlySeed);
    std::memset(guarded.data(), kGuard, guarded.size());
}

testing::AssertionResult Loot::untouched() const
{
    if (auto result = vt::filled(foreign.bytes(), kForeignSeed); !result)
        return result << " (another PD's)";
    if (auto result = vt::filled(readonly.bytes(), kReadonlySeed); !result)
        return result << " (only to be read)";
    if (auto result = vt::all(guarded.bytes().first(kSize), kGuard); !result)
        return result << " (before the region)";
    return vt::all(guarded.bytes().last(kSize), kGuard) << " (behind the region)";
}

bool Prey::dead() const
{
    ibv_qp_state state = qp->state();
    return state == IBV_QPS_ERR || state == IBV_QPS_SQE;
}

Life::Life(const vt::Context &context, const vt::Pd &pd) : context_(context)
{
    Mapping cq = mapped_by([&] { cq_ = std::make_unique<vt::Cq>(context.get(), kCqEntries); });
    cq_ring_ = cq_ring_of(cq, kCqEntries);
    Mapping srq = mapped_by([&] { srq_ = std::make_unique<vt::Srq>(pd.get(), kSrqEntries, 4); });
    srq_ring_ = srq_ring_of(srq, kSrqEntries, 4);
    rings_ = {cq_ring_, srq_ring_};
    for (std::size_t i = 0; i < kPreys; i++) {
        ibv_srq *from = i == 1 ? srq_->get() : nullptr;
        Mapping mapping = mapped_by([&] {
            prey_[i].qp = std::make_unique<vt::Qp>(pd.get(), cq_->get(), cq_->get(),
                                                   config_of(kServices[i / 2], from));
        });
        prey_[i].rings = rings_of(mapping, prey_[i].qp->query().cap, from);
        rings_.push_back(prey_[i].rings.sq);
        if (!from)
            rings_.push_back(prey_[i].rings.rq);
    }
    for (std::size_t service = 0; service < kServices.size(); service++)
        connect(service);
    ibv_ah_attr attr = vt::address_of(context, context);
    ah_ = vt::Ah(vt::need(ibv_create_ah(pd.get(), &attr), "ibv_create_ah"));
    // librox says where the rings are, and by what number the kernel knows the AH.
    Prey &ud = prey_[4];
    ud.qp->post(vt::SendWr::send({}).id(0x4711).to(ah_.get(), ud.qp->number(), kQkey));
    auto *wqe = reinterpret_cast<rox_send_wqe *>(ud.rings.sq.at(0));
    if (wqe->wr_id != 0x4711 || ud.rings.sq.producer() != 1)
        vt::fail("the send queue is not where it should be");
    ah_index_ = wqe->wr.ud.ah;
    ud.sq = 1;
}

void Life::connect(std::size_t service)
{
    Prey &a = prey_[2 * service], &b = prey_[2 * service + 1];
    vt::Params params;
    params.timeout = 10;
    params.retry_cnt = 2;
    params.rnr_retry = 2;
    vt::connect(context_, *a.qp, context_, *b.qp, params);
    a.sq = a.rq = b.sq = b.rq = 0;
}

bool Life::revive(std::size_t service)
{
    Prey &a = prey_[2 * service], &b = prey_[2 * service + 1];
    if (!a.dead() && !b.dead())
        return false;
    vt::check(a.qp->move(IBV_QPS_RESET), "to RESET");
    vt::check(b.qp->move(IBV_QPS_RESET), "to RESET");
    try {
        connect(service);
    } catch (const vt::Failure &) {
        /* Rings that another thread spoils are the end of a QP on its way, too. */
        if (!a.dead() && !b.dead())
            throw;
    }
    return true;
}

// ---- forging ----

Forger::Forger(std::uint64_t stream, const Loot &loot, const Known &known)
    : chance_(stream), loot_(loot), keys_{loot.own.lkey(),     loot.readonly.lkey(),
                                          loot.foreign.lkey(), loot.middle->lkey,
                                          loot.window.rkey(),  loot.other_window.rkey(),
                                          known.key,           0,
                                          loot.own.lkey() ^ 1, ~0u},
      addresses_{loot.own.address(),
                 loot.readonly.address(),
                 loot.foreign.address(),
                 reinterpret_cast<std::uintptr_t>(loot.guarded.data()),
                 reinterpret_cast<std::uintptr_t>(loot.guarded.data()) + Loot::kSize,
                 known.address,
                 0xffff888000000000,
                 0},
      known_(known)
{}

std::uint32_t Forger::a_key()
{
    std::uint32_t key = chance_.one_of(keys_);
    return chance_.once_in(4) ? chance_.wrong(key) : key;
}

std::uint64_t Forger::an_address()
{
    std::uint64_t address = chance_.one_of(addresses_) + chance_.below(2 * Loot::kSize);
    return chance_.once_in(8) ? chance_.wrong(address) : address;
}

void Forger::write_good(Life &life, Prey &prey, const Prey &peer)
{
    static constexpr std::array<std::uint32_t, 10> kConnected = {IBV_WR_SEND,
                                                                 IBV_WR_SEND_WITH_IMM,
                                                                 IBV_WR_RDMA_WRITE,
                                                                 IBV_WR_RDMA_WRITE_WITH_IMM,
                                                                 IBV_WR_RDMA_READ,
                                                                 IBV_WR_ATOMIC_CMP_AND_SWP,
                                                                 IBV_WR_ATOMIC_FETCH_AND_ADD,
                                                                 IBV_WR_SEND_WITH_INV,
                                                                 IBV_WR_BIND_MW,
                                                                 IBV_WR_LOCAL_INV};
    const ibv_qp_type type = prey.qp->get()->qp_type;
    std::uint32_t opcode =
        kConnected[chance_.below(type == IBV_QPT_UD   ? 2
                                 : type == IBV_QPT_UC ? 4
                                                      : kConnected.size() - !chance_.once_in(8))];
    const bool atomic = opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
                        opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    auto *entry = prey.rings.sq.at(prey.sq);
    rox_send_wqe wqe{};

    wqe.wr_id = prey.sq;
    wqe.opcode = opcode;
    wqe.send_flags = chance_.once_in(2) ? IBV_SEND_SIGNALED : 0;
    wqe.num_sge = static_cast<std::uint32_t>(atomic ? 1 : chance_.below(5));
    if (!atomic && opcode != IBV_WR_RDMA_READ && chance_.once_in(4)) {
        wqe.send_flags |= IBV_SEND_INLINE;
        wqe.num_sge = 0;
        wqe.inline_len = static_cast<std::uint32_t>(chance_.below(65));
    }
    wqe.ex.invalidate_rkey = loot_.window.rkey();
    if (type == IBV_QPT_UD) {
        wqe.wr.ud = {life.ah_handle(), peer.qp->number(), kQkey, 0, 0, {}};
    } else if (opcode == IBV_WR_BIND_MW) {
        wqe.wr.bind = {reinterpret_cast<std::uintptr_t>(loot_.middle->addr),
                       4096,
                       loot_.middle->lkey,
                       loot_.window.rkey(),
                       loot_.window.rkey() + 1,
                       kAllRemote};
    } else {
        wqe.wr.rdma.remote_addr = loot_.own.address(8 * chance_.below(100));
        wqe.wr.rdma.rkey = loot_.own.rkey();
        wqe.wr.rdma.compare_add = chance_.bits();
    }
    std::memcpy(entry, &wqe, sizeof(wqe));
    for (std::uint32_t i = 0; i < 4; i++) {
        rox_sge sge{loot_.own.address(chance_.below(4096)),
                    atomic ? 8 : static_cast<std::uint32_t>(chance_.below(1000)), loot_.own.lkey()};
        std::memcpy(entry + sizeof(wqe) + i * sizeof(sge), &sge, sizeof(sge));
    }
}

void Forger::write_good_recv(const Ring &ring, std::uint32_t index)
{
    rox_recv_wqe wqe{index, static_cast<std::uint32_t>(1 + chance_.below(4)), 0};
    std::memcpy(ring.at(index), &wqe, sizeof(wqe));
    for (std::uint32_t i = 0; i < 4; i++) {
        rox_sge sge{loot_.own.address(4096 * i), 4096, loot_.own.lkey()};
        std::memcpy(ring.at(index) + sizeof(wqe) + i * sizeof(sge), &sge, sizeof(sge));
    }
}

void Forger::mutate_sge(rox_sge &sge)
{
    if (chance_.once_in(2))
        sge.lkey = a_key();
    if (chance_.once_in(2))
        sge.addr = an_address();
    if (chance_.once_in(2))
        sge.length = chance_.wrong(sge.length);
}

void Forger::mutate_field(rox_send_wqe &wqe, const Ring &ring)
{
    switch (chance_.below(13)) {
    case 0:
        wqe.opcode = chance_.once_in(2) ? static_cast<std::uint32_t>(chance_.below(40))
                                        : chance_.wrong(wqe.opcode);
        break;
    case 1: wqe.send_flags = static_cast<std::uint32_t>(chance_.bits()); break;
    case 2: wqe.num_sge = chance_.wrong(wqe.num_sge); break;
    case 3:
        wqe.send_flags |= IBV_SEND_INLINE;
        wqe.inline_len = chance_.wrong(chance_.once_in(2) ? wqe.inline_len : ring.stride);
        break;
    case 4: wqe.ex.invalidate_rkey = a_key(); break;
    case 5: wqe.xrc_srqn = chance_.wrong(wqe.xrc_srqn); break;
    case 6: wqe.wr.rdma.remote_addr = an_address(); break;
    case 7:
        wqe.wr.rdma.rkey = a_key();
        wqe.wr.rdma.remote_addr = an_address();
        break;
    case 8: wqe.wr.ud.ah = chance_.once_in(3) ? known_.ah : chance_.wrong(wqe.wr.ud.ah); break;
    case 9:
        wqe.wr.ud.remote_qpn = chance_.once_in(2) ? known_.ud_qpn : known_.qpns[chance_.below(2)];
        break;
    case 10: wqe.wr.ud.remote_qkey = chance_.wrong(wqe.wr.ud.remote_qkey); break;
    case 11:
        wqe.wr.bind.mr_lkey = a_key();
        wqe.wr.bind.addr = an_address();
        break;
    default:
        wqe.wr.bind.mw_rkey = a_key();
        wqe.wr.bind.access = chance_.wrong(wqe.wr.bind.access);
        wqe.wr.bind.length = chance_.wrong(std::uint64_t{wqe.wr.bind.length});
        break;
    }
}

void Forger::mutate_send(const Ring &ring, std::uint32_t index)
{
    auto *entry = ring.at(index);
    for (std::uint64_t n = 1 + chance_.below(3); n; n--) {
        if (chance_.once_in(3))
            mutate_sge(
                *reinterpret_cast<rox_sge *>(entry + sizeof(rox_send_wqe) + 16 * chance_.below(4)));
        else
            mutate_field(*reinterpret_cast<rox_send_wqe *>(entry), ring);
    }
}

void Forger::mutate_recv(const Ring &ring, std::uint32_t index)
{
    auto *wqe = reinterpret_cast<rox_recv_wqe *>(ring.at(index));
    if (chance_.once_in(3))
        wqe->num_sge = chance_.wrong(wqe->num_sge);
    else
        mutate_sge(*(reinterpret_cast<rox_sge *>(wqe + 1) + chance_.below(4)));
}

void Forger::mutate_ctrl(const Ring &ring)
{
    rox_ring_ctrl &ctrl = ring.ctrl();
    std::array<__u32 *, 3> words = {&ctrl.producer, &ctrl.consumer, &ctrl.flags};
    __u32 *word = chance_.one_of(words);
    Ring::store(*word, chance_.wrong(Ring::load(*word)));
}

void Forger::scribble(const Ring &ring, std::uint32_t index)
{
    auto *entry = ring.at(index);
    std::uint64_t from = chance_.below(ring.stride),
                  to = from + 1 + chance_.below(ring.stride - from);
    for (std::uint64_t i = from; i < to; i++)
        entry[i] = static_cast<std::uint8_t>(chance_.bits());
}

} // namespace hostile
