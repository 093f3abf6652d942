// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "flow.h"

#include <algorithm>

namespace soak {

namespace {

constexpr std::size_t kSlots = 8; ///< messages of a round at most
constexpr std::size_t kSlot = 64 * 1024;

/// Parts of the memory of a reliable flow's sides.
constexpr std::size_t kSource = 0;
constexpr std::size_t kLanding = kSlots * kSlot; ///< of READs
constexpr std::size_t kFetched = 2 * kSlots * kSlot;
constexpr std::size_t kFromSize = kFetched + 4096;
constexpr std::size_t kReceived = 0;
constexpr std::size_t kWritten = kSlots * kSlot;
constexpr std::size_t kOffered = 2 * kSlots * kSlot; ///< to READs
constexpr std::size_t kCounter = 3 * kSlots * kSlot;
constexpr std::size_t kSwapped = kCounter + 64;
constexpr std::size_t kToSize = kCounter + 4096;

/// Of a loose one. What is late, and was written, is not yet written over.
constexpr std::size_t kPool = 16; ///< receives that are always there
constexpr std::size_t kRing = 64; ///< places that are written to
constexpr std::size_t kPlace = 4096;
constexpr std::size_t kReceive = kPlace + 64;
constexpr std::size_t kGrh = 40;
constexpr std::size_t kLooseToSize = kPool * kReceive + kRing * kPlace;

/// How long what is on its way may take; then it is lost.
const vt::Millis kLost = vt::patience_factor() * vt::Millis(100);

bool is_atomic(Kind kind)
{
    return kind == Kind::FetchAdd || kind == Kind::CompareSwap;
}

bool takes_receive(Kind kind)
{
    return kind == Kind::Send || kind == Kind::SendImm || kind == Kind::WriteImm;
}

bool has_immediate(Kind kind)
{
    return kind == Kind::SendImm || kind == Kind::WriteImm;
}

/// Most are small, some of many packets, some just about a packet, all of different lengths.
std::size_t some_length(hostile::Chance &chance)
{
    switch (chance.below(8)) {
    case 0: return 1 + chance.below(kSlot);
    case 1: return 1 + chance.below(16384);
    case 2: return (1 + chance.below(8)) * 1024 - 2 + chance.below(5);
    case 3: return chance.below(65);
    default: return 1 + chance.below(4096);
    }
}

} // namespace

Flow::Flow(std::uint64_t flow, Sides sides, std::unique_ptr<Wiring> wiring, std::size_t from_size,
           std::size_t to_size, Totals &totals)
    : flow_(flow), totals_(totals), chance_(flow), sides_(std::move(sides)),
      from_(sides_[0]->pd.get(), from_size), to_(sides_[1]->pd.get(), to_size),
      wiring_(std::move(wiring))
{
    totals_.registrations += 2;
}

void Flow::post_receive(std::uint64_t id, std::size_t offset, std::size_t length)
{
    ibv_sge place = to_.sge(offset, length);
    ibv_recv_wr wr{id, nullptr, &place, 1};
    ibv_recv_wr *bad = nullptr;
    vt::check(ibv_post_recv(wiring_->to(), &wr, &bad), "ibv_post_recv");
}

/// One by one or as a chain.
void Flow::post(std::vector<vt::SendWr> &requests)
{
    ibv_send_wr *bad = nullptr;
    const bool chain = chance_.once_in(2);
    for (std::size_t i = 0; i < requests.size(); i++)
        requests[i].raw()->next = chain && i + 1 < requests.size() ? requests[i + 1].raw()
                                                                   : nullptr;
    for (std::size_t i = 0; i < (chain ? 1 : requests.size()); i++)
        vt::check(ibv_post_send(wiring_->from(), requests[i].raw(), &bad), "ibv_post_send");
}

/// What @p qp was told to bear, for a message.
static std::string patience_of(ibv_qp *qp)
{
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    if (ibv_query_qp(qp, &attr, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT, &init))
        return {};
    return " (timeout " + std::to_string(attr.timeout) + ", retry_cnt " +
           std::to_string(attr.retry_cnt) + ")";
}

void Flow::look(vt::ConstBytes bytes, const Name &name)
{
    std::string wrong = wrong_with(bytes, name);
    if (!wrong.empty())
        vt::fail(wrong);
    totals_.done(name.kind, bytes.size());
}

void Flow::succeeded(const ibv_wc &wc) const
{
    if (wc.status != IBV_WC_SUCCESS)
        vt::fail("completion of " + std::to_string(wc.wr_id) + ": " + ibv_wc_status_str(wc.status) +
                 ", vendor_err " + std::to_string(wc.vendor_err) + patience_of(wiring_->from()));
}

// ---- RC ----

ReliableFlow::ReliableFlow(std::uint64_t flow, Sides sides, std::unique_ptr<Wiring> wiring,
                           Totals &totals)
    : Flow(flow, std::move(sides), std::move(wiring), kFromSize, kToSize, totals)
{}

vt::SendWr ReliableFlow::atomic(Message &message)
{
    ibv_sge result = from_.sge(kFetched + message.slot * 8, 8);
    std::uint64_t value = chance_.bits();
    if (message.kind == Kind::FetchAdd) {
        message.value = counter_;
        counter_ += value;
        return vt::SendWr::fetch_add(result, vt::remote(to_, kCounter), value);
    }
    // Every other one does not swap.
    bool match = chance_.once_in(2);
    std::uint64_t expected = match ? swapped_ : ~swapped_;
    message.value = swapped_;
    if (match)
        swapped_ = value;
    return vt::SendWr::compare_swap(result, vt::remote(to_, kSwapped), expected, value);
}

vt::SendWr ReliableFlow::request(Message &message)
{
    const Name own = name(message.sequence, message.kind);
    const std::size_t place = message.slot * kSlot;
    if (is_atomic(message.kind))
        return atomic(message);
    if (message.kind == Kind::Read) {
        write_message(to_.bytes(kOffered + place, message.length), own);
        return vt::SendWr::read({from_.sge(kLanding + place, message.length)},
                                vt::remote(to_, kOffered + place));
    }
    write_message(from_.bytes(kSource + place, message.length), own);
    vt::Sges source{from_.sge(kSource + place, message.length)};
    bool write = message.kind == Kind::Write || message.kind == Kind::WriteImm;
    vt::SendWr wr = write ? vt::SendWr::write(source, vt::remote(to_, kWritten + place))
                          : vt::SendWr::send(source);
    if (has_immediate(message.kind))
        wr.imm(static_cast<std::uint32_t>(message.sequence));
    if (message.length <= 64 && chance_.once_in(2))
        wr.inlined();
    return wr;
}

void ReliableFlow::post_receives()
{
    for (std::size_t i = 0; i < consuming_.size(); i++)
        post_receive(i, kReceived + i * kSlot, kSlot);
}

void ReliableFlow::begin()
{
    const std::size_t many = 1 + chance_.below(kSlots);
    std::vector<vt::SendWr> requests;
    round_.clear();
    consuming_.clear();
    received_ = signals_ = 0;
    for (std::size_t slot = 0; slot < many; slot++) {
        auto kind = static_cast<Kind>(chance_.below(kKinds));
        std::size_t length = is_atomic(kind) ? 8 : some_length(chance_);
        round_.push_back({next_++, kind, length, slot, 0});
        if (takes_receive(kind))
            consuming_.push_back(slot);
        requests.push_back(request(round_.back()).id(round_.back().sequence));
        if (slot + 1 < many && chance_.once_in(3))
            requests.back().unsignaled();
        else
            signals_++;
    }
    // Now and then the receiver is late, and the requests find no receive.
    const bool late = chance_.once_in(16);
    if (!late)
        post_receives();
    post(requests);
    if (late)
        post_receives();
}

void ReliableFlow::sent(const ibv_wc &wc)
{
    succeeded(wc);
    if (!signals_ || wc.wr_id < round_.front().sequence || wc.wr_id < last_sent_ ||
        wc.wr_id >= next_)
        vt::fail("completion of request " + std::to_string(wc.wr_id) + " out of order" + text());
    last_sent_ = wc.wr_id + 1;
    if (!--signals_ && done())
        finish();
}

void ReliableFlow::received(const ibv_wc &wc)
{
    succeeded(wc);
    if (received_ >= consuming_.size() || wc.wr_id != received_)
        vt::fail("receive " + std::to_string(wc.wr_id) + " completed out of order" + text());
    const Message &message = round_[consuming_[received_]];
    const bool write = message.kind == Kind::WriteImm;
    const bool immediate = wc.wc_flags & IBV_WC_WITH_IMM;
    if (wc.opcode != (write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV) ||
        wc.byte_len != message.length || immediate != has_immediate(message.kind) ||
        (immediate && ntohl(wc.imm_data) != static_cast<std::uint32_t>(message.sequence)))
        vt::fail("receive completion of opcode " + std::to_string(wc.opcode) + ", " +
                 std::to_string(wc.byte_len) + " bytes, is not that of number " +
                 std::to_string(message.sequence) + text());
    std::size_t at = write ? kWritten + message.slot * kSlot : kReceived + received_ * kSlot;
    look(to_.bytes(at, message.length), name(message.sequence, message.kind));
    received_++;
    if (done())
        finish();
}

/// What has no completion at its target is looked at when all has ended.
void ReliableFlow::finish()
{
    for (const Message &message : round_) {
        const std::size_t place = message.slot * kSlot;
        if (message.kind == Kind::Write) {
            look(to_.bytes(kWritten + place, message.length), name(message.sequence, message.kind));
        } else if (message.kind == Kind::Read) {
            look(from_.bytes(kLanding + place, message.length),
                 name(message.sequence, message.kind));
        } else if (is_atomic(message.kind)) {
            if (from_.word(kFetched + message.slot * 8) != message.value)
                vt::fail(std::string("wrong value of ") + name_of(message.kind) + text());
            totals_.done(message.kind, 8);
        }
    }
    if (to_.word(kCounter) != counter_ || to_.word(kSwapped) != swapped_)
        vt::fail("the words of the atomics are not what they should be" + text());
}

std::string ReliableFlow::text() const
{
    std::string text = "; RC flow " + std::to_string(flow_) + ": " + std::to_string(signals_) +
                       " completions and " + std::to_string(consuming_.size() - received_) +
                       " receives to come, of";
    for (const Message &message : round_)
        text += " " + std::to_string(message.sequence) + ":" + name_of(message.kind) + "(" +
                std::to_string(message.length) + ")";
    return text;
}

// ---- UC and UD ----

LooseFlow::LooseFlow(std::uint64_t flow, ibv_qp_type type, std::uint32_t largest, Sides sides,
                     std::unique_ptr<Wiring> wiring, bool local, Totals &totals)
    : Flow(flow, std::move(sides), std::move(wiring), kSlots * kPlace, kLooseToSize, totals),
      type_(type), largest_(std::min<std::uint32_t>(largest, kPlace)), local_(local)
{
    for (std::size_t slot = 0; slot < kPool; slot++)
        post_receive(slot, slot * kReceive, kReceive);
}

vt::SendWr LooseFlow::request(const Message &message)
{
    vt::Bytes source = from_.bytes(message.sequence % kSlots * kPlace, message.length);
    std::size_t place = kPool * kReceive + message.sequence % kRing * kPlace;
    write_message(source, name(message.sequence, message.kind));
    vt::Sges sges{from_.sge(message.sequence % kSlots * kPlace, message.length)};
    vt::SendWr wr = message.kind == Kind::WriteImm ? vt::SendWr::write(sges, vt::remote(to_, place))
                                                   : vt::SendWr::send(sges);
    wr.imm(static_cast<std::uint32_t>(message.sequence)).id(message.sequence);
    if (type_ == IBV_QPT_UD)
        wr.to(wiring_->way(), number_to(), vt::Params{}.qkey);
    return wr;
}

void LooseFlow::begin()
{
    std::vector<vt::SendWr> requests;
    unsent_ = awaited_ = 1 + chance_.below(kSlots);
    first_ = next_;
    for (std::size_t i = 0; i < unsent_; i++) {
        bool write = type_ == IBV_QPT_UC && chance_.once_in(2);
        std::size_t length = kStamped + chance_.below(largest_ - kStamped + 1);
        recent_.push_back({next_++, write ? Kind::WriteImm : Kind::SendImm, length, false});
        requests.push_back(request(recent_.back()));
    }
    while (recent_.size() > kRing - kSlots)
        recent_.pop_front();
    progress_ = vt::Clock::now();
    post(requests);
}

void LooseFlow::sent(const ibv_wc &wc)
{
    succeeded(wc);
    unsent_--;
    progress_ = vt::Clock::now();
}

LooseFlow::Message &LooseFlow::find(std::uint32_t number)
{
    for (Message &message : recent_)
        if (static_cast<std::uint32_t>(message.sequence) == number)
            return message;
    vt::fail("a message came that was not sent of late: number " + std::to_string(number) + text());
}

void LooseFlow::received(const ibv_wc &wc)
{
    succeeded(wc);
    Message &message = find(ntohl(wc.imm_data));
    const bool write = message.kind == Kind::WriteImm;
    const bool ud = type_ == IBV_QPT_UD;
    if (wc.opcode != (write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV) ||
        wc.byte_len != message.length + (ud ? kGrh : 0))
        vt::fail("receive completion of opcode " + std::to_string(wc.opcode) + ", " +
                 std::to_string(wc.byte_len) + " bytes, is not that of number " +
                 std::to_string(message.sequence) + text());
    // A network may change the order: UC, too, begins a message with any PSN.
    if (local_ && message.sequence != latest_)
        vt::fail("number " + std::to_string(message.sequence) + " out of order" + text());
    latest_ = message.sequence + 1;
    std::size_t at = write ? kPool * kReceive + message.sequence % kRing * kPlace
                           : wc.wr_id * kReceive + (ud ? kGrh : 0);
    look(to_.bytes(at, message.length), name(message.sequence, message.kind));
    if (!message.came && message.sequence < first_)
        totals_.lost--; // was late
    else if (!message.came)
        awaited_--;
    message.came = true;
    progress_ = vt::Clock::now();
    post_receive(wc.wr_id, wc.wr_id * kReceive, kReceive);
}

bool LooseFlow::done()
{
    if (unsent_)
        return false;
    if (awaited_ && vt::Clock::now() - progress_ < kLost)
        return false;
    totals_.lost += awaited_;
    awaited_ = 0;
    return true;
}

std::string LooseFlow::text() const
{
    return std::string(type_ == IBV_QPT_UD ? "; UD" : "; UC") + " flow " + std::to_string(flow_) +
           ": " + std::to_string(unsent_) + " completions to come, " + std::to_string(awaited_) +
           " messages not come, next is " + std::to_string(next_);
}

} // namespace soak
