// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Providers that are older and newer than the module: each command with less and with more of
/// the driver's part than the module knows, and each bit that has no meaning
/// (Documentation/abi.md). By write(), without librox.
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <unistd.h>

#include "../../include/uapi/rdma/rox-abi.h"
#include "../verbs/lib/pair.h"
#include "../verbs/lib/process.h"

namespace {

using Bytes = std::vector<std::uint8_t>;

template <typename T>
Bytes bytes_of(const T &value)
{
    const auto *begin = reinterpret_cast<const std::uint8_t *>(&value);
    return {begin, begin + sizeof(value)};
}

/// What the kernel made of a command.
struct Answer {
    int error = 0;            ///< 0 or errno
    std::uint32_t handle = 0; ///< the first word of the core's response
    Bytes driver;             ///< the driver's part of the response, as far as it was written

    std::size_t written() const { return driver.size(); }
};

/// The place of responses is filled with it.
constexpr std::uint8_t kUnwritten = 0xa5;

/// Says @p command with @p driver behind it, and room for @p room bytes of the driver's response.
template <typename Command, typename Response>
Answer say(int fd, std::uint32_t number, Command command, const Bytes &driver, std::size_t room)
{
    Bytes response(sizeof(Response) + room + 4096, kUnwritten);
    command.response = reinterpret_cast<std::uintptr_t>(response.data());
    ib_uverbs_cmd_hdr header{};
    header.command = number;
    header.in_words = static_cast<std::uint16_t>(
        (sizeof(header) + sizeof(command) + driver.size()) / 4);
    header.out_words = static_cast<std::uint16_t>((sizeof(Response) + room) / 4);
    Bytes request = bytes_of(header);
    for (const Bytes &part : {bytes_of(command), driver})
        request.insert(request.end(), part.begin(), part.end());

    Answer answer;
    if (write(fd, request.data(), request.size()) != ssize_t(request.size()))
        answer.error = errno;
    std::memcpy(&answer.handle, response.data(), sizeof(answer.handle));
    std::size_t end = response.size();
    while (end > sizeof(Response) && response[end - 1] == kUnwritten)
        end--;
    answer.driver.assign(response.begin() + sizeof(Response),
                         response.begin() + static_cast<std::ptrdiff_t>(end));
    return answer;
}

/// The same for commands whose core has no response.
template <typename Command>
int say_silent(int fd, std::uint32_t number, const Command &command, const Bytes &driver)
{
    ib_uverbs_cmd_hdr header{};
    header.command = number;
    header.in_words = static_cast<std::uint16_t>(
        (sizeof(header) + sizeof(command) + driver.size()) / 4);
    Bytes request = bytes_of(header);
    for (const Bytes &part : {bytes_of(command), driver})
        request.insert(request.end(), part.begin(), part.end());
    return write(fd, request.data(), request.size()) == ssize_t(request.size()) ? 0 : errno;
}

/// An opening of the device without a library; all that was made with it ends with it.
class Program {
public:
    Program()
    {
        vt::Context context(vt::device_a());
        address_ = vt::address_of(context, context);
        path_ = std::string("/dev/infiniband/") + context.get()->device->dev_name;
        fd_ = open(path_.c_str(), O_RDWR | O_CLOEXEC);
        if (fd_ < 0)
            vt::fail("open", errno);
    }
    ~Program() { close(fd_); }
    Program(const Program &) = delete;
    Program &operator=(const Program &) = delete;

    Answer get_context(const Bytes &driver, std::size_t room)
    {
        Answer answer = say<ib_uverbs_get_context, ib_uverbs_get_context_resp>(
            fd_, IB_USER_VERBS_CMD_GET_CONTEXT, {}, driver, room);
        if (answer.error == 0)
            close(static_cast<int>(answer.handle)); // that of asynchronous events
        return answer;
    }
    Answer alloc_pd(const Bytes &driver, std::size_t room)
    {
        return say<ib_uverbs_alloc_pd, ib_uverbs_alloc_pd_resp>(fd_, IB_USER_VERBS_CMD_ALLOC_PD, {},
                                                                driver, room);
    }
    Answer open_xrcd(const Bytes &driver, std::size_t room)
    {
        ib_uverbs_open_xrcd command{};
        command.fd = ~0u;
        command.oflags = O_CREAT;
        return say<ib_uverbs_open_xrcd, ib_uverbs_open_xrcd_resp>(fd_, IB_USER_VERBS_CMD_OPEN_XRCD,
                                                                  command, driver, room);
    }
    Answer reg_mr(const Bytes &driver, std::size_t room)
    {
        ib_uverbs_reg_mr command{};
        command.start = command.hca_va = reinterpret_cast<std::uintptr_t>(memory_.data());
        command.length = memory_.size();
        command.pd_handle = pd();
        command.access_flags = IBV_ACCESS_LOCAL_WRITE;
        return say<ib_uverbs_reg_mr, ib_uverbs_reg_mr_resp>(fd_, IB_USER_VERBS_CMD_REG_MR, command,
                                                            driver, room);
    }
    Answer rereg_mr(const Bytes &driver, std::size_t room)
    {
        ib_uverbs_rereg_mr command{};
        command.mr_handle = need(mr_, &Program::reg_mr, {}, 0);
        command.flags = IBV_REREG_MR_CHANGE_ACCESS;
        command.access_flags = IBV_ACCESS_LOCAL_WRITE;
        return say<ib_uverbs_rereg_mr, ib_uverbs_rereg_mr_resp>(fd_, IB_USER_VERBS_CMD_REREG_MR,
                                                                command, driver, room);
    }
    Answer alloc_mw(const Bytes &driver, std::size_t room)
    {
        ib_uverbs_alloc_mw command{};
        command.pd_handle = pd();
        command.mw_type = IBV_MW_TYPE_2;
        return say<ib_uverbs_alloc_mw, ib_uverbs_alloc_mw_resp>(fd_, IB_USER_VERBS_CMD_ALLOC_MW,
                                                                command, driver, room);
    }
    Answer create_ah(const Bytes &driver, std::size_t room)
    {
        ib_uverbs_create_ah command{};
        command.pd_handle = pd();
        std::memcpy(command.attr.grh.dgid, address_.grh.dgid.raw, 16);
        command.attr.grh.sgid_index = address_.grh.sgid_index;
        command.attr.grh.hop_limit = address_.grh.hop_limit;
        command.attr.is_global = 1;
        command.attr.port_num = 1;
        return say<ib_uverbs_create_ah, ib_uverbs_create_ah_resp>(fd_, IB_USER_VERBS_CMD_CREATE_AH,
                                                                  command, driver, room);
    }
    Answer create_cq(const Bytes &driver, std::size_t room)
    {
        ib_uverbs_create_cq command{};
        command.cqe = 4;
        command.comp_channel = -1;
        return say<ib_uverbs_create_cq, ib_uverbs_create_cq_resp>(fd_, IB_USER_VERBS_CMD_CREATE_CQ,
                                                                  command, driver, room);
    }
    Answer resize_cq(const Bytes &driver, std::size_t room)
    {
        ib_uverbs_resize_cq command{};
        command.cq_handle = cq();
        command.cqe = 8;
        return say<ib_uverbs_resize_cq, ib_uverbs_resize_cq_resp>(fd_, IB_USER_VERBS_CMD_RESIZE_CQ,
                                                                  command, driver, room);
    }
    Answer create_srq(const Bytes &driver, std::size_t room)
    {
        ib_uverbs_create_srq command{};
        command.pd_handle = pd();
        command.max_wr = 4;
        command.max_sge = 1;
        return say<ib_uverbs_create_srq, ib_uverbs_create_srq_resp>(
            fd_, IB_USER_VERBS_CMD_CREATE_SRQ, command, driver, room);
    }
    Answer create_xsrq(const Bytes &driver, std::size_t room)
    {
        ib_uverbs_create_xsrq command{};
        command.srq_type = IB_UVERBS_SRQT_XRC;
        command.pd_handle = pd();
        command.max_wr = 4;
        command.max_sge = 1;
        command.xrcd_handle = need(xrcd_, &Program::open_xrcd, {}, 0);
        command.cq_handle = cq();
        return say<ib_uverbs_create_xsrq, ib_uverbs_create_srq_resp>(
            fd_, IB_USER_VERBS_CMD_CREATE_XSRQ, command, driver, room);
    }
    /// Its response goes where the request says.
    Answer modify_srq(const Bytes &driver, std::size_t)
    {
        ib_uverbs_modify_srq command{};
        command.srq_handle = srq();
        command.attr_mask = IBV_SRQ_MAX_WR;
        command.max_wr = 8;
        return {say_silent(fd_, IB_USER_VERBS_CMD_MODIFY_SRQ, command, driver), 0, {}};
    }
    int limit_srq(const Bytes &driver)
    {
        ib_uverbs_modify_srq command{};
        command.srq_handle = srq();
        command.attr_mask = IBV_SRQ_LIMIT;
        return say_silent(fd_, IB_USER_VERBS_CMD_MODIFY_SRQ, command, driver);
    }
    Answer create_qp(const Bytes &driver, std::size_t room)
    {
        ib_uverbs_create_qp command{};
        command.pd_handle = pd();
        command.send_cq_handle = command.recv_cq_handle = cq();
        command.max_send_wr = command.max_recv_wr = 4;
        command.max_send_sge = command.max_recv_sge = 1;
        command.qp_type = IB_UVERBS_QPT_RC;
        return say<ib_uverbs_create_qp, ib_uverbs_create_qp_resp>(fd_, IB_USER_VERBS_CMD_CREATE_QP,
                                                                  command, driver, room);
    }
    Answer modify_qp(const Bytes &driver, std::size_t)
    {
        ib_uverbs_modify_qp command{};
        command.qp_handle = need(qp_, &Program::create_qp, {}, sizeof(rox_create_qp_resp));
        command.attr_mask = IBV_QP_STATE;
        command.qp_state = IBV_QPS_RESET;
        return {say_silent(fd_, IB_USER_VERBS_CMD_MODIFY_QP, command, driver), 0, {}};
    }
    /// An extended command, whose driver's parts are counted in words of 8 bytes.
    Answer query_device(const Bytes &driver, std::size_t room)
    {
        Bytes response(sizeof(ib_uverbs_ex_query_device_resp) + room + 4096, kUnwritten);
        ib_uverbs_cmd_hdr header{};
        ib_uverbs_ex_cmd_hdr more{};
        header.command = IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_QUERY_DEVICE;
        header.in_words = sizeof(ib_uverbs_ex_query_device) / 8;
        header.out_words = sizeof(ib_uverbs_ex_query_device_resp) / 8;
        more.response = reinterpret_cast<std::uintptr_t>(response.data());
        more.provider_in_words = static_cast<std::uint16_t>((driver.size() + 7) / 8);
        more.provider_out_words = static_cast<std::uint16_t>((room + 7) / 8);
        Bytes request = bytes_of(header);
        for (const Bytes &part : {bytes_of(more), bytes_of(ib_uverbs_ex_query_device{}), driver})
            request.insert(request.end(), part.begin(), part.end());
        request.resize((request.size() + 7) / 8 * 8);
        Answer answer;
        if (write(fd_, request.data(), request.size()) != ssize_t(request.size()))
            answer.error = errno;
        return answer;
    }

    std::uint32_t pd() { return need(pd_, &Program::alloc_pd, {}, 0); }

private:
    using Call = Answer (Program::*)(const Bytes &, std::size_t);

    /// The handle of an object that a command needs, made at its first use.
    std::uint32_t need(std::uint32_t &handle, Call create, const Bytes &driver, std::size_t room)
    {
        if (handle == kNone) {
            Answer answer = (this->*create)(driver, room);
            if (answer.error)
                vt::fail("an object that a command needs", answer.error);
            handle = answer.handle;
        }
        return handle;
    }
    std::uint32_t cq() { return need(cq_, &Program::create_cq, {}, sizeof(rox_create_cq_resp)); }
    std::uint32_t srq()
    {
        return need(srq_, &Program::create_srq, {}, sizeof(rox_create_srq_resp));
    }

    static constexpr std::uint32_t kNone = ~0u;

    ibv_ah_attr address_{};
    std::string path_;
    int fd_ = -1;
    vt::Memory memory_{4096};
    std::uint32_t pd_ = kNone, xrcd_ = kNone, mr_ = kNone, cq_ = kNone, srq_ = kNone, qp_ = kNone;
};

// ---- the driver's part of each command ----

/// A command and what the module knows of its driver's part.
struct Command {
    const char *name;
    Answer (Program::*call)(const Bytes &, std::size_t);
    Bytes request;             ///< with all members; a good one
    std::size_t request_least; ///< without so many bytes it is refused
    std::size_t response;      ///< bytes of the response
    std::size_t response_least;
    std::size_t step = 4; ///< by which the lengths can be said
};

std::ostream &operator<<(std::ostream &out, const Command &command)
{
    return out << command.name;
}

/// Where MODIFY_SRQ answers.
std::array<std::uint8_t, 4096> srq_answer;

rox_modify_srq_req srq_request(std::uint32_t room = sizeof(rox_create_srq_resp))
{
    srq_answer.fill(kUnwritten);
    return {reinterpret_cast<std::uintptr_t>(srq_answer.data()), room, 0};
}

std::size_t srq_answered()
{
    std::size_t end = srq_answer.size();
    while (end && srq_answer[end - 1] == kUnwritten)
        end--;
    return end;
}

/// Those of an open context.
const std::vector<Command> &commands()
{
    static const std::vector<Command> all{
        {"AllocPd", &Program::alloc_pd, {}, 0, 0, 0},
        {"OpenXrcd", &Program::open_xrcd, {}, 0, 0, 0},
        {"RegMr", &Program::reg_mr, {}, 0, 0, 0},
        {"ReregMr", &Program::rereg_mr, {}, 0, 0, 0},
        {"AllocMw", &Program::alloc_mw, {}, 0, 0, 0},
        {"ModifyQp", &Program::modify_qp, {}, 0, 0, 0},
        {"QueryDevice", &Program::query_device, {}, 0, 0, 0, 8},
        {"CreateAh",
         &Program::create_ah,
         {},
         0,
         sizeof(rox_create_ah_resp),
         offsetof(rox_create_ah_resp, reserved)},
        {"CreateCq", &Program::create_cq, Bytes(sizeof(rox_create_cq_req)), 0,
         sizeof(rox_create_cq_resp), offsetof(rox_create_cq_resp, place)},
        {"ResizeCq",
         &Program::resize_cq,
         {},
         0,
         sizeof(rox_create_cq_resp),
         offsetof(rox_create_cq_resp, place)},
        {"CreateSrq", &Program::create_srq, Bytes(sizeof(rox_create_srq_req)), 0,
         sizeof(rox_create_srq_resp), offsetof(rox_create_srq_resp, srq_num)},
        {"CreateXsrq", &Program::create_xsrq, Bytes(sizeof(rox_create_srq_req)), 0,
         sizeof(rox_create_srq_resp), offsetof(rox_create_srq_resp, srq_num)},
        {"ModifySrq", &Program::modify_srq, bytes_of(srq_request()),
         offsetof(rox_modify_srq_req, resp_len), 0, 0},
        {"CreateQp", &Program::create_qp, Bytes(sizeof(rox_create_qp_req)), 0,
         sizeof(rox_create_qp_resp), offsetof(rox_create_qp_resp, place)},
    };
    return all;
}

Bytes first(const Bytes &bytes, std::size_t count)
{
    return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count)};
}

class AbiTest : public vt::ProcessTest {
protected:
    void SetUp() override { ASSERT_EQ(program_->get_context({}, 0).error, 0); }
    void TearDown() override
    {
        program_.reset();
        ProcessTest::TearDown();
    }
    Answer call(const Command &command, const Bytes &request, std::size_t room)
    {
        return ((*program_).*command.call)(request, room);
    }

    std::unique_ptr<Program> program_ = std::make_unique<Program>();
};

class AbiCommand : public AbiTest, public testing::WithParamInterface<Command> {};

INSTANTIATE_TEST_SUITE_P(Each, AbiCommand, testing::ValuesIn(commands()),
                         [](const auto &info) { return std::string(info.param.name); });

TEST_P(AbiCommand, OfAnOlderProvider)
{
    const Command &command = GetParam();
    for (std::size_t size = command.request_least; size <= command.request.size();
         size += command.step) {
        Answer answer = call(command, first(command.request, size), command.response);
        EXPECT_EQ(answer.error, 0) << "request of " << size;
        EXPECT_EQ(answer.written(), command.response);
    }
    for (std::size_t room = command.response_least; room <= command.response;
         room += command.step) {
        Answer answer = call(command, command.request, room);
        EXPECT_EQ(answer.error, 0) << "room for " << room;
        EXPECT_LE(answer.written(), room);
        EXPECT_GE(answer.written() + 4, room) << "all that there is room for";
    }
}

TEST_P(AbiCommand, OfAProviderThatCannotBeServed)
{
    const Command &command = GetParam();
    for (std::size_t size = 0; size < command.request_least; size += command.step)
        EXPECT_EQ(call(command, first(command.request, size), command.response).error, EINVAL)
            << "request of " << size;
    for (std::size_t room = 0; room < command.response_least; room += command.step) {
        Answer answer = call(command, command.request, room);
        EXPECT_EQ(answer.error, ENOSPC) << "room for " << room;
        EXPECT_EQ(answer.written(), 0u);
    }
    EXPECT_EQ(call(command, command.request, command.response).error, 0) << "it goes on";
}

TEST_P(AbiCommand, OfANewerProvider)
{
    const Command &command = GetParam();
    for (std::size_t more : {8, 64, 4000}) {
        Bytes request = command.request;
        request.resize(request.size() + more);
        EXPECT_EQ(call(command, request, command.response).error, 0) << more << " more";
        Answer answer = call(command, command.request, command.response + more);
        EXPECT_EQ(answer.error, 0) << "room for " << more << " more";
        EXPECT_EQ(answer.written(), command.response);
    }
}

TEST_P(AbiCommand, ThatAsksForWhatNobodyKnows)
{
    const Command &command = GetParam();
    for (std::size_t bit = 0; bit < 64; bit++) {
        Bytes request = command.request;
        request.resize(request.size() + 8);
        request[command.request.size() + bit / 8] |= static_cast<std::uint8_t>(1u << bit % 8);
        Answer answer = call(command, request, command.response);
        EXPECT_EQ(answer.error, EOPNOTSUPP) << "bit " << bit;
        EXPECT_EQ(answer.written(), 0u);
    }
    Bytes far = command.request;
    far.resize(far.size() + 4000);
    far.back() = 1;
    EXPECT_EQ(call(command, far, command.response).error, EOPNOTSUPP);
    EXPECT_EQ(call(command, command.request, command.response).error, 0) << "it goes on";
}

/// Those whose request is flags and a reserved word.
class AbiFlags : public AbiCommand {};

INSTANTIATE_TEST_SUITE_P(Each, AbiFlags, testing::ValuesIn([] {
                             std::vector<Command> some;
                             for (const Command &command : commands())
                                 if (command.request.size() == 2 * sizeof(__u32))
                                     some.push_back(command);
                             return some;
                         }()),
                         [](const auto &info) { return std::string(info.param.name); });

TEST_P(AbiFlags, WithABitThatHasNoMeaning)
{
    const Command &command = GetParam();
    ASSERT_EQ(command.request.size(), 8u);
    for (std::size_t bit = 0; bit < 64; bit++) {
        Bytes request = command.request;
        request[bit / 8] |= static_cast<std::uint8_t>(1u << bit % 8);
        bool known = command.call == &Program::create_cq && bit == 0; // ROX_CQ_TIMESTAMP
        EXPECT_EQ(call(command, request, command.response).error, known ? 0 : EINVAL)
            << "bit " << bit;
    }
}

TEST_F(AbiTest, ModifySrqSaysHowLongTheAnswerIs)
{
    const auto resize = [&](const Bytes &request) {
        return program_->modify_srq(request, 0).error;
    };
    constexpr std::uint32_t whole = sizeof(rox_create_srq_resp);
    constexpr std::uint32_t least = offsetof(rox_create_srq_resp, srq_num);

    for (std::uint32_t room : {least, least + 4, whole, whole + 8, 4096u}) {
        EXPECT_EQ(resize(bytes_of(srq_request(room))), 0) << room;
        EXPECT_LE(srq_answered(), std::min(room, whole)) << "no byte behind the room";
        EXPECT_GE(srq_answered() + 4, std::min(room, whole));
    }
    for (std::uint32_t room : {1u, 16u, least - 1}) {
        EXPECT_EQ(resize(bytes_of(srq_request(room))), ENOSPC) << room;
        EXPECT_EQ(srq_answered(), 0u);
    }
    // The first providers do not say it, and have room for the first members.
    constexpr std::uint32_t old = offsetof(rox_create_srq_resp, place);
    EXPECT_EQ(resize(first(bytes_of(srq_request()), sizeof(__u64))), 0);
    EXPECT_EQ(srq_answered(), old);
    EXPECT_EQ(resize(bytes_of(srq_request(0))), 0);
    EXPECT_EQ(srq_answered(), old);
    for (unsigned bit = 0; bit < 32; bit++) {
        rox_modify_srq_req request = srq_request();
        request.reserved = 1u << bit;
        EXPECT_EQ(resize(bytes_of(request)), EINVAL) << bit;
        EXPECT_EQ(srq_answered(), 0u);
    }
    rox_modify_srq_req nowhere = srq_request();
    nowhere.resp_addr = 8;
    EXPECT_EQ(resize(bytes_of(nowhere)), EFAULT);
    EXPECT_EQ(resize(bytes_of(srq_request())), 0) << "it goes on";

    // Without a resize there is nothing to answer.
    EXPECT_EQ(program_->limit_srq({}), 0);
    EXPECT_EQ(program_->limit_srq(Bytes(64)), 0);
    Bytes unknown(64);
    unknown.back() = 1;
    EXPECT_EQ(program_->limit_srq(unknown), EOPNOTSUPP);
}

// ---- objects that share a mapping ----

/// A program that asks for @p features, and what it is told about its objects.
class AbiPlace : public vt::ProcessTest, public testing::WithParamInterface<std::uint64_t> {
protected:
    void SetUp() override
    {
        ASSERT_EQ(program_
                      ->get_context(bytes_of(rox_alloc_ucontext_req{GetParam(), 0, 0}),
                                    sizeof(rox_alloc_ucontext_resp))
                      .error,
                  0);
    }
    void TearDown() override
    {
        program_.reset();
        ProcessTest::TearDown();
    }

    struct Where {
        rox_mapping map;
        rox_place place;
    };
    template <typename Response>
    static Where where(const Bytes &bytes)
    {
        Response response{};
        std::memcpy(&response, bytes.data(), std::min(bytes.size(), sizeof(response)));
        return {response.map, response.place};
    }
    /// Creates with room for @p room bytes of the response.
    std::vector<Where> all(std::size_t missing)
    {
        const auto room = [&](std::size_t size) { return size - missing; };
        Answer cq = program_->create_cq({}, room(sizeof(rox_create_cq_resp)));
        Answer srq = program_->create_srq({}, room(sizeof(rox_create_srq_resp)));
        Answer qp = program_->create_qp({}, room(sizeof(rox_create_qp_resp)));
        Answer resized = program_->resize_cq({}, room(sizeof(rox_create_cq_resp)));
        Answer modified = program_->modify_srq(
            bytes_of(srq_request(static_cast<std::uint32_t>(room(sizeof(rox_create_srq_resp))))),
            0);
        for (const Answer *answer : {&cq, &srq, &qp, &resized, &modified})
            EXPECT_EQ(answer->error, 0);
        return {
            where<rox_create_cq_resp>(cq.driver), where<rox_create_srq_resp>(srq.driver),
            where<rox_create_qp_resp>(qp.driver), where<rox_create_cq_resp>(resized.driver),
            where<rox_create_srq_resp>({srq_answer.begin(), srq_answer.begin() + srq_answered()})};
    }

    std::unique_ptr<Program> program_ = std::make_unique<Program>();
};

INSTANTIATE_TEST_SUITE_P(Features, AbiPlace,
                         testing::Values(0, ROX_FEATURE_SLABS, ~std::uint64_t{0},
                                         ~std::uint64_t{ROX_FEATURE_SLABS}));

/// Only who says that he knows it, and has room for all of the place.
TEST_P(AbiPlace, IsSharedByThoseWhoKnow)
{
    for (std::size_t missing : {0u, 4u, 8u, 16u}) {
        const bool shared = GetParam() & ROX_FEATURE_SLABS && missing == 0;
        std::vector<Where> first = all(missing), second = all(missing);
        for (std::size_t i = 0; i < first.size(); i++) {
            EXPECT_EQ(first[i].place.slab != 0, shared) << i << ", " << missing;
            EXPECT_EQ(second[i].place.slab != 0, shared) << i << ", " << missing;
            if (!shared) {
                EXPECT_EQ(first[i].place.position, 0u);
                EXPECT_NE(first[i].map.offset, second[i].map.offset);
            } else if (first[i].place.slab == second[i].place.slab) {
                EXPECT_EQ(first[i].map.offset, second[i].map.offset);
                EXPECT_NE(first[i].place.position, second[i].place.position);
            } else {
                EXPECT_NE(first[i].map.offset, second[i].map.offset);
            }
            EXPECT_EQ(second[i].place.position % ROX_CACHE_LINE, 0u);
            EXPECT_LT(second[i].place.position, second[i].map.size);
            EXPECT_EQ(second[i].place.reserved, 0u);
        }
    }
}

/// Each of these calls has an opening of its own: one that succeeds is the last.
class AbiContext : public vt::ProcessTest {
protected:
    static Answer get(const Bytes &request, std::size_t room = sizeof(rox_alloc_ucontext_resp))
    {
        Program program;
        Answer answer = program.get_context(request, room);
        EXPECT_EQ(program.alloc_pd({}, 0).error == 0, answer.error == 0) << "there is a context";
        return answer;
    }
    static Bytes request(std::uint64_t features, std::uint32_t flags = 0,
                         std::uint32_t reserved = 0)
    {
        return bytes_of(rox_alloc_ucontext_req{features, flags, reserved});
    }
};

TEST_F(AbiContext, OfOlderAndNewerProviders)
{
    for (std::size_t size : {0u, 4u, 8u, 12u, 16u, 24u, 4000u})
        EXPECT_EQ(get(Bytes(size)).error, 0) << "request of " << size;
    for (std::size_t room : {0u, 4u, 8u, 12u, 16u, 24u, 4000u}) {
        Answer answer = get({}, room);
        EXPECT_EQ(answer.error, 0) << "room for " << room;
        EXPECT_EQ(answer.written(), std::min(room, sizeof(rox_alloc_ucontext_resp)));
    }
    rox_alloc_ucontext_resp response;
    Bytes driver = get(request(0)).driver;
    ASSERT_EQ(driver.size(), sizeof(response));
    std::memcpy(&response, driver.data(), sizeof(response));
    EXPECT_EQ(response.abi_version, static_cast<unsigned>(ROX_ABI_VERSION));
    EXPECT_GT(response.max_inline, 0u);
}

TEST_F(AbiContext, FeaturesThatNobodyKnowsAreIgnored)
{
    Answer usual = get(request(0));
    for (unsigned bit = 0; bit < 64; bit++) {
        Answer answer = get(request(std::uint64_t{1} << bit));
        EXPECT_EQ(answer.error, 0) << bit;
        EXPECT_EQ(answer.driver, usual.driver) << "the answer says what the kernel knows";
    }
    EXPECT_EQ(get(request(~std::uint64_t{0})).error, 0);
}

TEST_F(AbiContext, DemandsThatNobodyKnowsAreRefused)
{
    for (unsigned bit = 0; bit < 32; bit++) {
        EXPECT_EQ(get(request(0, 1u << bit)).error, EINVAL) << bit;
        EXPECT_EQ(get(request(0, 0, 1u << bit)).error, EINVAL) << bit;
    }
    Bytes longer = request(0);
    longer.resize(longer.size() + 8);
    longer.back() = 0x80;
    EXPECT_EQ(get(longer).error, EOPNOTSUPP);
}

} // namespace
