/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * What a firewall's rules do with UDP packets to a port that belong to no known flow.
 */
#ifndef ROX_DOCTOR_FIREWALL_HPP
#define ROX_DOCTOR_FIREWALL_HPP

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace rox::doctor {

enum class Verdict { go_on, accept, drop, jump, back };

struct FirewallRule {
    bool matches = true; ///< a new UDP flow to the port can meet all conditions that are understood
    bool sure = true;    ///< there is no other condition
    bool names_port = false;
    Verdict verdict = Verdict::go_on;
    std::string target; ///< of a jump
    std::string text;
};

struct FirewallChain {
    bool input = false; ///< packets for this host begin here
    bool drops = false; ///< by its policy
    std::vector<FirewallRule> rules;
};

/// Chains by family, table and name.
using Firewall = std::map<std::string, FirewallChain>;

/// Reads `nft -j list ruleset`; nothing if it is not that.
std::optional<Firewall> firewall_of_nft(const std::string &json, unsigned port);
/// Reads `iptables-save`.
Firewall firewall_of_iptables(const std::string &text, unsigned port);

struct DroppingChain {
    std::string name; ///< family, table and name
    std::string why;  ///< the rule or the policy that drops
};

/// The chains that drop such packets; none if they get through.
std::vector<DroppingChain> dropping_chains(const Firewall &firewall);

} // namespace rox::doctor

#endif // ROX_DOCTOR_FIREWALL_HPP
