/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* roxtop: samples from answers of netlink, and the tables of two samples. */
#include "fake_netlink.h"
#include "top/table.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace rox::top {
namespace {

using test::MessageBuilder;

/* A device with a QP of process 42, a CQ of the kernel and two MRs, as the kernel tells of them. */
class TopTest : public testing::Test {
protected:
    void SetUp() override
    {
        char name[] = "/tmp/roxtop.XXXXXX";

        ASSERT_NE(mkdtemp(name), nullptr);
        root = name;
        std::filesystem::create_directories(root / "proc/42");
        std::ofstream(root / "proc/42/comm") << "perftest\n";
        netlink.add_device(3, "rox0");
        netlink.set_port(true, "eth0");
        tell(1000, 90, 0xfffffff0, 0xfffff8);
    }

    void TearDown() override { std::filesystem::remove_all(root); }

    void tell(uint64_t tx_bytes, uint64_t retransmitted, uint64_t posted, uint64_t psn)
    {
        netlink.answers[{RDMA_NLDEV_CMD_STAT_GET, false}] = {counters(tx_bytes, retransmitted)};
        netlink.answers[{RDMA_NLDEV_CMD_RES_QP_GET, true}] = {qps(posted, psn)};
        netlink.answers[{RDMA_NLDEV_CMD_RES_CQ_GET, true}] = {cqs(posted)};
        netlink.answers[{RDMA_NLDEV_CMD_RES_MR_GET, true}] = {mrs()};
    }

    Sample sample(double seconds) { return take_sample(netlink, Tree(root), seconds); }

    /// The JSON of a sample and one two seconds later.
    nlohmann::json later(uint64_t tx_bytes, uint64_t retransmitted, uint64_t posted, uint64_t psn)
    {
        const Sample before = sample(10);

        tell(tx_bytes, retransmitted, posted, psn);
        return nlohmann::json::parse(as_json(sample(12), &before, filter));
    }

    std::filesystem::path root;
    test::FakeNetlink netlink;
    Filter filter;

private:
    static Answer counters(uint64_t tx_bytes, uint64_t retransmitted)
    {
        const auto counter = [](MessageBuilder &builder, const char *name, uint64_t value) {
            builder.nest(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY, [&](MessageBuilder &entry) {
                entry.text(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, name)
                    .u64(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE, value);
            });
        };

        return MessageBuilder()
            .nest(RDMA_NLDEV_ATTR_STAT_HWCOUNTERS,
                  [&](MessageBuilder &nest) {
                      counter(nest, "tx_bytes", tx_bytes);
                      counter(nest, "retransmitted_packets", retransmitted);
                  })
            .answer();
    }

    static void driver_of_qp(MessageBuilder &builder, uint64_t posted, uint64_t psn)
    {
        builder.driver("sq_posted", posted & 0xffffffff)
            .driver("sq_oldest", (posted - 5) & 0xffffffff)
            .driver("sent_psn", psn & 0xffffff)
            .driver("ssn", 0xfffffe)
            .driver("credit_ssn", 2)
            .driver("window", 64)
            .driver("rnr_wait", 1)
            .text(RDMA_NLDEV_ATTR_DRIVER_STRING, "note")
            .text(RDMA_NLDEV_ATTR_DRIVER_STRING, "a text");
    }

    static Answer qps(uint64_t posted, uint64_t psn)
    {
        return MessageBuilder()
            .nest(RDMA_NLDEV_ATTR_RES_QP,
                  [&](MessageBuilder &table) {
                      table.nest(RDMA_NLDEV_ATTR_RES_QP_ENTRY, [&](MessageBuilder &qp) {
                          qp.u32(RDMA_NLDEV_ATTR_RES_LQPN, 17)
                              .u32(RDMA_NLDEV_ATTR_RES_RQPN, 18)
                              .u8(RDMA_NLDEV_ATTR_RES_TYPE, 2)
                              .u8(RDMA_NLDEV_ATTR_RES_STATE, 3)
                              .u32(RDMA_NLDEV_ATTR_RES_PID, 42)
                              .nest(RDMA_NLDEV_ATTR_DRIVER, [&](MessageBuilder &driver) {
                                  driver_of_qp(driver, posted, psn);
                              });
                      });
                  })
            .answer();
    }

    static Answer cqs(uint64_t produced)
    {
        return MessageBuilder()
            .nest(RDMA_NLDEV_ATTR_RES_CQ,
                  [&](MessageBuilder &table) {
                      table.nest(RDMA_NLDEV_ATTR_RES_CQ_ENTRY, [&](MessageBuilder &cq) {
                          cq.u32(RDMA_NLDEV_ATTR_RES_CQN, 4)
                              .u32(RDMA_NLDEV_ATTR_RES_CQE, 1023)
                              .u64(RDMA_NLDEV_ATTR_RES_USECNT, 2)
                              .text(RDMA_NLDEV_ATTR_RES_KERN_NAME, "nvme_rdma")
                              .nest(RDMA_NLDEV_ATTR_DRIVER, [&](MessageBuilder &driver) {
                                  driver.driver("produced", produced & 0xffffffff)
                                      .driver("consumed", (produced - 7) & 0xffffffff);
                              });
                      });
                  })
            .answer();
    }

    static Answer mrs()
    {
        const auto mr = [](MessageBuilder &table, uint32_t number, uint64_t length) {
            table.nest(RDMA_NLDEV_ATTR_RES_MR_ENTRY, [&](MessageBuilder &entry) {
                entry.u32(RDMA_NLDEV_ATTR_RES_MRN, number)
                    .u64(RDMA_NLDEV_ATTR_RES_MRLEN, length)
                    .u32(RDMA_NLDEV_ATTR_RES_PID, 42);
            });
        };

        return MessageBuilder()
            .nest(RDMA_NLDEV_ATTR_RES_MR,
                  [&](MessageBuilder &table) {
                      mr(table, 1, 4096);
                      mr(table, 2, 1 << 20);
                  })
            .answer();
    }
};

TEST_F(TopTest, RatesAreDifferencesPerSecond)
{
    const auto json = later(1000 + (64 << 10), 100, 0x10, 8);
    const auto &device = json["devices"][0];
    const auto &qp = json["qps"][0];

    EXPECT_DOUBLE_EQ(json["interval"], 2);
    EXPECT_EQ(device["device"], "rox0");
    EXPECT_EQ(device["netdev"], "eth0");
    EXPECT_EQ(device["state"], "active");
    EXPECT_DOUBLE_EQ(device["tx_bytes"], 32 << 10);
    EXPECT_DOUBLE_EQ(device["retransmitted"], 5);
    EXPECT_TRUE(device["rx_bytes"].is_null());
    /* Indices of 32 bits and PSNs of 24 bits went past zero. */
    EXPECT_DOUBLE_EQ(qp["posted"], 16);
    EXPECT_DOUBLE_EQ(qp["packets"], 8);
}

TEST_F(TopTest, ObjectsAreToldAsTheKernelDoes)
{
    const auto json = later(1000, 90, 0x10, 8);
    const auto &qp = json["qps"][0];
    const auto &cq = json["cqs"][0];

    EXPECT_EQ(qp["qp"], 17);
    EXPECT_EQ(qp["peer_qp"], 18);
    EXPECT_EQ(qp["type"], "RC");
    EXPECT_EQ(qp["state"], "RTS");
    EXPECT_EQ(qp["pid"], 42);
    EXPECT_EQ(qp["process"], "perftest");
    EXPECT_EQ(qp["send_queue"], 5);
    EXPECT_EQ(qp["credits"], 4);
    EXPECT_EQ(qp["rnr"], "yes");
    EXPECT_TRUE(qp["early_bytes"].is_null());
    EXPECT_EQ(cq["cq"], 4);
    EXPECT_EQ(cq["depth"], 7);
    EXPECT_EQ(cq["process"], "[nvme_rdma]");
    EXPECT_TRUE(cq["pid"].is_null());
    EXPECT_EQ(json["mrs"].size(), 2U);
}

TEST_F(TopTest, ProcessesSumUpTheirObjects)
{
    const auto json = later(1000, 90, 0x10, 8);

    ASSERT_EQ(json["processes"].size(), 2U);
    EXPECT_EQ(json["processes"][0]["process"], "[nvme_rdma]");
    const auto &process = json["processes"][1];
    EXPECT_EQ(process["pid"], 42);
    EXPECT_EQ(process["qps"], 1);
    EXPECT_EQ(process["mrs"], 2);
    EXPECT_EQ(process["memory"], 4096 + (1 << 20));
    EXPECT_DOUBLE_EQ(process["posted"], 16);
}

TEST_F(TopTest, FirstSampleHasNoRates)
{
    const auto json = nlohmann::json::parse(as_json(sample(1), nullptr, filter));

    EXPECT_TRUE(json["interval"].is_null());
    EXPECT_TRUE(json["qps"][0]["posted"].is_null());
    EXPECT_TRUE(json["devices"][0]["tx_bytes"].is_null());
    EXPECT_EQ(json["devices"][0]["qps"], 1);
}

TEST_F(TopTest, FiltersByProcessAndQp)
{
    const Sample now = sample(1);
    const auto count = [&](View view) {
        return make_table(view, now, nullptr, filter).rows.size();
    };

    filter.process = "perf";
    EXPECT_EQ(count(View::qps), 1U);
    EXPECT_EQ(count(View::cqs), 0U);
    EXPECT_EQ(count(View::processes), 1U);
    filter.process = "42";
    EXPECT_EQ(count(View::mrs), 2U);
    filter.process = "4";
    EXPECT_EQ(count(View::mrs), 0U);
    filter = {};
    filter.qp = 18;
    EXPECT_EQ(count(View::qps), 0U);
    filter.qp = 17;
    EXPECT_EQ(count(View::qps), 1U);
}

TEST_F(TopTest, SortsNumbersDownwardsAndTextsUpwards)
{
    Table table = make_table(View::mrs, sample(1), nullptr, filter);
    const size_t length = *column_index(View::mrs, "length");
    const auto first = [&] { return std::get<double>(table.rows[0].cells[length]); };

    sort_table(table, length, false);
    EXPECT_EQ(first(), 1 << 20);
    sort_table(table, length, true);
    EXPECT_EQ(first(), 4096);
    sort_table(table, *column_index(View::mrs, "mr"), true);
    EXPECT_EQ(first(), 1 << 20);
    EXPECT_FALSE(column_index(View::mrs, "posted"));
}

TEST_F(TopTest, HistoryIsALineOfBlocks)
{
    Table table = make_table(View::mrs, sample(1), nullptr, filter);
    const size_t length = *column_index(View::mrs, "length");
    History history(3);

    EXPECT_EQ(history.line(table.rows[0].key), "");
    table.rows.resize(1);
    for (const double value : {800.0, 0.0, 400.0, 100.0}) {
        table.rows[0].cells[length] = value;
        history.add(table, length);
    }
    EXPECT_EQ(history.line(table.rows[0].key), " █▂");
    const std::string key = table.rows[0].key;
    table.rows.clear();
    history.add(table, length);
    EXPECT_EQ(history.line(key), "");
}

TEST_F(TopTest, TextIsAlignedAndAbbreviated)
{
    const std::string text = as_text(make_table(View::mrs, sample(1), nullptr, filter));

    EXPECT_EQ(text, "DEVICE           MR     PID PROCESS           LENGTH TYPE\n"
                    "rox0              1      42 perftest           4.0Ki -\n"
                    "rox0              2      42 perftest           1.0Mi -\n");
}

TEST(CellText, NumbersHaveThreeDigits)
{
    EXPECT_EQ(cell_text(Cell(), Unit::rate), "-");
    EXPECT_EQ(cell_text(Cell(0.0), Unit::rate), "0");
    EXPECT_EQ(cell_text(Cell(0.25), Unit::rate), "0.2");
    EXPECT_EQ(cell_text(Cell(999.0), Unit::rate), "999");
    EXPECT_EQ(cell_text(Cell(1000.0), Unit::rate), "1.0k");
    EXPECT_EQ(cell_text(Cell(123456.0), Unit::count), "123k");
    EXPECT_EQ(cell_text(Cell(3.0 * (1 << 30)), Unit::byte_rate), "3.0Gi");
    EXPECT_EQ(cell_text(Cell(123456.0), Unit::number), "123456");
    EXPECT_EQ(cell_text(Cell(std::string("a\x1b[2J")), Unit::text), "a?[2J");
}

/* A line that is too wide would go on in the next one. */
TEST(TopTable, LinesAreCutToTheWidthOfTheTerminal)
{
    EXPECT_EQ(cut_to_width("rox0  active", 4), "rox0");
    EXPECT_EQ(cut_to_width("rox0", 4), "rox0");
    EXPECT_EQ(cut_to_width("12 \u2588\u2588\u2588", 4), "12 \u2588");
    EXPECT_EQ(cut_to_width("rox0", 0), "");
}

/* A message that ends in the middle of an attribute, or an attribute that claims to be longer. */
TEST(NetlinkAttributes, BadLengthsEndTheMessage)
{
    const Answer whole = MessageBuilder().u32(1, 5).text(2, "abc").u64(3, 7).answer();

    for (size_t size = 0; size <= whole.size(); size++) {
        const Answer part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
        const Attributes attributes(part.data(), part.size());

        EXPECT_LE(attributes.all().size(), 3U);
        if (attributes.has(3)) {
            EXPECT_EQ(attributes.number(3), 7U);
        }
    }
    const Attributes all(whole.data(), whole.size());
    EXPECT_EQ(all.number(1), 5U);
    EXPECT_EQ(all.text(2), "abc");
    EXPECT_FALSE(all.number(4).has_value());
    EXPECT_TRUE(all.nest(4).all().empty());
}

} // namespace
} // namespace rox::top
