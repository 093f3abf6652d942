/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What rules of nft and iptables do with UDP packets to port 4791. */
#include "doctor/firewall.hpp"
#include "doctor_fixture.h"

#include <gtest/gtest.h>

namespace rox::doctor {
namespace {

constexpr unsigned port = 4791;

std::string nft(const std::string &policy, const std::string &rules)
{
    return R"({"nftables": [{"metainfo": {}}, {"chain": {"family": "inet", "table": "filter",
        "name": "input", "type": "filter", "hook": "input", "policy": ")" +
           policy + R"("}})" + rules + "]}";
}

std::string rule(const std::string &expressions, const std::string &chain = "input")
{
    return R"(, {"rule": {"family": "inet", "table": "filter", "chain": ")" + chain +
           R"(", "handle": 7, "expr": [)" + expressions + "]}}";
}

std::string dport(const std::string &value,
                  const std::string &op = "==", const std::string &protocol = "udp")
{
    return R"({"match": {"op": ")" + op + R"(", "left": {"payload": {"protocol": ")" + protocol +
           R"(", "field": "dport"}}, "right": )" + value + "}}";
}

bool nft_drops(const std::string &policy, const std::string &rules)
{
    const auto firewall = firewall_of_nft(nft(policy, rules), port);

    EXPECT_TRUE(firewall.has_value());
    return firewall && !dropping_chains(*firewall).empty();
}

TEST(FirewallOfNft, PolicyDecidesWithoutRules)
{
    EXPECT_FALSE(nft_drops("accept", ""));
    EXPECT_TRUE(nft_drops("drop", ""));
}

TEST(FirewallOfNft, RuleForThePort)
{
    EXPECT_FALSE(nft_drops("drop", rule(dport("4791") + R"(, {"accept": null})")));
    EXPECT_TRUE(nft_drops("accept", rule(dport("4791") + R"(, {"drop": null})")));
    EXPECT_TRUE(nft_drops("accept", rule(dport("4791") + R"(, {"counter": {}}, {"reject": {}})")));
    EXPECT_FALSE(nft_drops("accept", rule(dport("4792") + R"(, {"drop": null})")));
    EXPECT_FALSE(nft_drops("accept", rule(dport("4791", "!=") + R"(, {"drop": null})")));
    EXPECT_FALSE(nft_drops("accept", rule(dport("4791", "==", "tcp") + R"(, {"drop": null})")));
}

TEST(FirewallOfNft, RangesAndSetsHoldThePort)
{
    EXPECT_FALSE(
        nft_drops("drop", rule(dport(R"({"range": [4000, 5000]})") + R"(, {"accept": null})")));
    EXPECT_TRUE(
        nft_drops("drop", rule(dport(R"({"range": [4792, 5000]})") + R"(, {"accept": null})")));
    EXPECT_FALSE(
        nft_drops("drop", rule(dport(R"({"set": [22, 4791]})") + R"(, {"accept": null})")));
    EXPECT_FALSE(nft_drops("drop", rule(dport(R"({"set": [22, {"range": [4790, 4791]}]})") +
                                        R"(, {"accept": null})")));
}

TEST(FirewallOfNft, OtherConditionsDoNotAccept)
{
    const std::string established =
        R"({"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": "established"}})";

    EXPECT_TRUE(nft_drops("drop", rule(established + R"(, {"accept": null})")));
    EXPECT_FALSE(nft_drops("accept", rule(established + R"(, {"drop": null})")));
    EXPECT_FALSE(
        nft_drops("drop", rule(established + ", " + dport("4791") + R"(, {"accept": null})")));
}

TEST(FirewallOfNft, ChainsAreFollowed)
{
    const std::string jump = rule(R"({"jump": {"target": "udp-in"}})");

    EXPECT_FALSE(nft_drops("drop", jump + rule(dport("4791") + R"(, {"accept": null})", "udp-in")));
    EXPECT_TRUE(nft_drops("accept", jump + rule(R"({"drop": null})", "udp-in")));
    EXPECT_FALSE(nft_drops("accept", jump + rule(R"({"return": null})", "udp-in")));
    EXPECT_TRUE(nft_drops("drop", jump + rule(R"({"jump": {"target": "udp-in"}})", "udp-in")));
}

TEST(FirewallOfNft, OtherTextIsRefused)
{
    EXPECT_FALSE(firewall_of_nft("Operation not permitted", port));
    EXPECT_FALSE(firewall_of_nft("{}", port));
}

bool iptables_drops(const std::string &policy, const std::string &rules)
{
    return !dropping_chains(firewall_of_iptables("*filter\n:INPUT " + policy +
                                                     " [0:0]\n:FORWARD DROP [0:0]\n"
                                                     ":mine - [0:0]\n" +
                                                     rules + "COMMIT\n",
                                                 port))
                .empty();
}

TEST(FirewallOfIptables, PolicyAndRules)
{
    EXPECT_FALSE(iptables_drops("ACCEPT", ""));
    EXPECT_TRUE(iptables_drops("DROP", ""));
    EXPECT_FALSE(iptables_drops("DROP", "-A INPUT -p udp -m udp --dport 4791 -j ACCEPT\n"));
    EXPECT_TRUE(iptables_drops("ACCEPT", "-A INPUT -p udp -m udp --dport 4791 -j DROP\n"));
    EXPECT_TRUE(iptables_drops("ACCEPT",
                               "-A INPUT -p udp -m multiport --dports 22,4700:4800 -j REJECT "
                               "--reject-with icmp-port-unreachable\n"));
    EXPECT_FALSE(iptables_drops("ACCEPT", "-A INPUT -p tcp -j DROP\n"));
    EXPECT_FALSE(iptables_drops("ACCEPT", "-A INPUT ! -i lo -p udp -j DROP\n"));
}

TEST(FirewallOfIptables, ChainsConditionsAndComments)
{
    EXPECT_TRUE(iptables_drops("DROP", "-A INPUT -m conntrack --ctstate ESTABLISHED -j ACCEPT\n"));
    EXPECT_TRUE(iptables_drops("ACCEPT", "-A INPUT -m comment --comment \"no RDMA here\" -j mine\n"
                                         "-A mine -p udp -j DROP\n"));
    EXPECT_FALSE(iptables_drops("DROP", "-A INPUT -j mine\n-A mine -p udp -j ACCEPT\n"));
    EXPECT_TRUE(iptables_drops("DROP", "-A INPUT -j mine\n-A mine -j RETURN\n-A INPUT -j mine\n"));
}

TEST_F(DoctorTest, FirewallDropsThePort)
{
    commands.outputs["nft"] = nft("drop", "");
    expect(FirewallCheck(), Level::problem, "drops UDP port 4791 (inet filter input: policy drop)",
           "nft insert rule inet filter input udp dport 4791 accept");
    commands.outputs.clear();
    commands.outputs["iptables-save"] = "*filter\n:INPUT DROP [0:0]\n";
    expect(FirewallCheck(), Level::problem, "(filter INPUT: policy drop)", "iptables -I INPUT");
}

TEST_F(DoctorTest, FirewallCannotBeSeen)
{
    commands.outputs.clear();
    expect(FirewallCheck(), Level::note, "it takes root");
    commands.outputs["ip6tables-save"] = "*filter\n:INPUT ACCEPT [0:0]\n";
    expect(FirewallCheck(), Level::ok, "no rule drops");
}

} // namespace
} // namespace rox::doctor
