// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "lane.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include <poll.h>

#include "lib/diagnose.h"

namespace soak {

namespace {

/// What a round may take: a link that is down, lost requests and all their timeouts.
const vt::Millis kRoundLimit = 6 * vt::kPatience;

/// What the network says when it is away for a while, or the device (EINVAL) when the port's
/// MTU has become smaller than the connection's since that was chosen. For events of the RDMA CM
/// see CmWiring::next().
std::optional<Absence> absence_of(int error)
{
    switch (error) {
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ENETDOWN:
    case ENODEV: return Absence::NoWay;
    case ETIMEDOUT: return Absence::NoAnswer;
    case EINVAL: return Absence::SmallMtu;
    case ESTALE: return Absence::Stale;
    case ECONNABORTED: return Absence::Broken;
    default: return std::nullopt;
    }
}

std::uint64_t pause_millis()
{
    return vt::variable_number("ROX_PAUSE_MS", 0);
}

} // namespace

Lane::Lane(unsigned number, const Trade &trade, unsigned pairs, Totals &totals)
    : number_(number), trade_(trade), pairs_(pairs), totals_(totals), chance_(1000 + number)
{}

void Lane::start()
{
    thread_ = std::thread([this] { run(); });
}

void Lane::run()
{
    try {
        while (!totals_.stop)
            live();
    } catch (const std::exception &problem) {
        problem_ = problem.what();
        for (const auto &flow : flows_)
            problem_ += flow->text();
        problem_ += vt::state_of_everything();
        totals_.stop = true;
    }
    flows_.clear();
    sides_.clear();
    contexts_.clear();
}

/// From the first connection to the last one's end.
void Lane::live()
{
    connect_all();
    for (auto rounds = 8 + chance_.below(100); rounds && !totals_.stop; rounds--)
        round();
    totals_.connections += flows_.size();
    if (trade_.by_cm)
        totals_.by_cm += flows_.size();
    flows_.clear();
    sides_.clear();
    contexts_.clear();
    lives_++;
}

void Lane::connect_all()
{
    const std::string &from = trade_.back ? vt::device_b() : vt::device_a();
    const std::string &to = trade_.back || trade_.local ? vt::device_a() : vt::device_b();
    if (!trade_.by_cm) {
        for (const std::string &name : {from, to}) {
            contexts_.push_back(std::make_unique<vt::Context>(name));
            sides_.push_back(std::make_shared<Side>(contexts_.back()->get()));
        }
    }
    for (auto pairs = 1 + chance_.below(pairs_); pairs && !totals_.stop; pairs--) {
        flows_.push_back(connected());
        if (trade_.by_cm)
            sides_.insert(sides_.end(), flows_.back()->sides().begin(),
                          flows_.back()->sides().end());
    }
}

/// Tries again for as long as the network may be away.
std::unique_ptr<Flow> Lane::connected()
{
    vt::Deadline deadline(kRoundLimit);
    for (;;) {
        try {
            return trade_.by_cm ? connect_by_cm() : connect();
        } catch (const vt::Failure &failure) {
            auto absence = absence_of(failure.error());
            if (!absence || deadline.passed())
                throw;
            totals_.repeats[static_cast<std::size_t>(*absence)]++;
            std::this_thread::sleep_for(vt::Millis(100));
        }
    }
}

std::unique_ptr<Flow> Lane::connect()
{
    const std::uint64_t name = (std::uint64_t{number_} << 32) + flows_made_++;
    constexpr std::array kMtus{IBV_MTU_256, IBV_MTU_1024, IBV_MTU_2048, IBV_MTU_4096};
    const ibv_mtu most = contexts_[0]->port().active_mtu;
    const ibv_mtu mtu = std::min(most, chance_.one_of(kMtus));
    auto wiring = std::make_unique<DirectWiring>(*contexts_[0], *sides_[0], *contexts_[1],
                                                 *sides_[1], trade_.type, patient(mtu, false));
    Sides sides{sides_[0], sides_[1]};
    if (trade_.type == IBV_QPT_RC)
        return std::make_unique<ReliableFlow>(name, sides, std::move(wiring), totals_);
    // A datagram that the port's MTU has no room for is an error of the program: stay below the
    // least.
    const std::uint32_t largest = trade_.type == IBV_QPT_UD ? 1024 : 65536;
    return std::make_unique<LooseFlow>(name, trade_.type, largest, sides, std::move(wiring),
                                       trade_.local, totals_);
}

std::unique_ptr<Flow> Lane::connect_by_cm()
{
    const std::uint64_t name = (std::uint64_t{number_} << 32) + flows_made_++;
    // Ports of its own for each lane: one may still be taken when the next listens.
    const auto port = static_cast<std::uint16_t>(21000 + number_ * 256 + flows_made_ % 256);
    auto wiring = trade_.local ? std::make_unique<CmWiring>(vt::variable("ROX_NS_A"),
                                                            vt::variable("ROX_ADDR_A"), port)
                               : std::make_unique<CmWiring>(vt::variable("ROX_NS_B"),
                                                            vt::variable("ROX_ADDR_B"), port);
    Sides sides{wiring->from_side(), wiring->to_side()};
    return std::make_unique<ReliableFlow>(name, sides, std::move(wiring), totals_);
}

/// Memory that nobody uses, while others use theirs.
void Lane::register_something()
{
    const std::size_t size = 1 + chance_.below(1 << 20);
    vt::Memory memory(size);
    vt::MrHandle region = vt::reg_mr(sides_[chance_.below(sides_.size())]->pd.get(), memory.data(),
                                     size);
    totals_.registrations++;
}

void Lane::round()
{
    vt::Deadline deadline(kRoundLimit);
    static const std::uint64_t pause = pause_millis();
    auto running = [](const auto &flow) { return !flow->done(); };
    for (const auto &flow : flows_)
        flow->begin();
    if (chance_.once_in(8))
        register_something();
    while (std::any_of(flows_.begin(), flows_.end(), running)) {
        bool any = false;
        for (const auto &side : sides_)
            any = take(*side) || any;
        if (any)
            continue;
        if (deadline.passed())
            vt::fail("a round does not end");
        rest();
    }
    rounds_++;
    if (pause)
        std::this_thread::sleep_for(vt::Millis(pause));
}

/// All completions of a side; false if there was none.
bool Lane::take(Side &side)
{
    std::array<ibv_wc, 32> wcs{};
    const int got = ibv_poll_cq(side.cq.get(), static_cast<int>(wcs.size()), wcs.data());
    vt::check(got < 0, "ibv_poll_cq");
    for (const ibv_wc &wc : std::span(wcs).first(static_cast<std::size_t>(got))) {
        bool known = false;
        for (const auto &flow : flows_) {
            const bool sent = flow->sides()[0].get() == &side && flow->number_from() == wc.qp_num;
            if (!sent && (flow->sides()[1].get() != &side || flow->number_to() != wc.qp_num))
                continue;
            known = true;
            if (sent)
                flow->sent(wc);
            else
                flow->received(wc);
        }
        if (!known)
            vt::fail("a completion of a QP that is not there: " + std::to_string(wc.qp_num));
    }
    return got > 0;
}

/// Until there may be completions; not for long.
void Lane::rest()
{
    if (!trade_.events) {
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        return;
    }
    std::vector<pollfd> fds;
    for (const auto &side : sides_) {
        ibv_cq *cq = nullptr;
        void *context = nullptr;
        while (!ibv_get_cq_event(side->channel.get(), &cq, &context))
            ibv_ack_cq_events(cq, 1);
        side->cq.arm();
        fds.push_back({side->channel.get()->fd, POLLIN, 0});
    }
    // What came before they were armed has no event.
    for (const auto &side : sides_)
        if (take(*side))
            return;
    poll(fds.data(), fds.size(), 50);
}

} // namespace soak
