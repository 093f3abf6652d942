/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "doctor/firewall.hpp"
#include "lib/tree.hpp"

#include <set>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace rox::doctor {

namespace {

using Json = nlohmann::json;

/* True if a port, a range or a set, as nft writes them, holds the port. */
bool holds_port(const Json &value, unsigned port)
{
    if (value.is_number_unsigned() || value.is_number_integer())
        return value.get<unsigned>() == port;
    if (!value.is_object())
        return false;
    if (value.contains("range"))
        return value["range"][0].get<unsigned>() <= port &&
               port <= value["range"][1].get<unsigned>();
    if (value.contains("set"))
        for (const Json &member : value["set"])
            if (holds_port(member, port))
                return true;
    return false;
}

bool names_udp(const Json &value)
{
    if (value.is_string())
        return value == "udp";
    if (value.is_object() && value.contains("set"))
        for (const Json &member : value["set"])
            if (names_udp(member))
                return true;
    return false;
}

bool is_protocol(const Json &left)
{
    const Json meta = left.value("meta", Json::object());
    const Json payload = left.value("payload", Json::object());

    return meta.value("key", "") == "l4proto" || payload.value("field", "") == "protocol" ||
           payload.value("field", "") == "nexthdr";
}

/* A condition of nft. The name of a set or anything else unknown makes the rule unsure. */
void read_match(const Json &match, unsigned port, FirewallRule &rule)
{
    const Json &left = match.at("left");
    const Json &right = match.at("right");
    const bool equal = match.value("op", "==") != "!=";
    const Json payload = left.value("payload", Json::object());

    if (is_protocol(left)) {
        rule.matches &= names_udp(right) == equal;
    } else if (payload.value("protocol", "") == "tcp") {
        rule.matches = false;
    } else if (payload.value("field", "") == "dport" && !right.is_string()) {
        rule.matches &= holds_port(right, port) == equal;
        rule.names_port = true;
    } else {
        rule.sure = false;
    }
}

void read_statement(const Json &statement, unsigned port, FirewallRule &rule)
{
    const std::string key = statement.begin().key();
    const Json value = statement.begin().value();

    if (key == "match") {
        read_match(value, port, rule);
    } else if (key == "accept") {
        rule.verdict = Verdict::accept;
    } else if (key == "drop" || key == "reject") {
        rule.verdict = Verdict::drop;
    } else if (key == "return") {
        rule.verdict = Verdict::back;
    } else if (key == "jump" || key == "goto") {
        rule.verdict = Verdict::jump;
        rule.target = value.value("target", "");
    } else if (key == "xt" || key == "limit" || key == "vmap") {
        rule.sure = false;
    }
}

std::string key_of(const Json &object, const std::string &chain)
{
    return fmt::format("{} {} {}", object.value("family", ""), object.value("table", ""), chain);
}

void read_nft_rule(const Json &object, unsigned port, Firewall &firewall)
{
    FirewallRule rule;

    for (const Json &statement : object.value("expr", Json::array()))
        if (statement.is_object() && !statement.empty())
            read_statement(statement, port, rule);
    if (!rule.target.empty())
        rule.target = key_of(object, rule.target);
    rule.text = fmt::format("rule with handle {}", object.value("handle", 0));
    firewall[key_of(object, object.value("chain", ""))].rules.push_back(rule);
}

enum class Fate { passes, dropped, undecided };

/* What a chain does with the packets. Loops of chains cannot be made, but may be in a file. */
Fate fate_in(const Firewall &firewall, const FirewallChain &chain, std::string &why, int depth = 0)
{
    constexpr int deepest = 16;

    for (const FirewallRule &rule : chain.rules) {
        /* Of rules with other conditions, only one that accepts this very port is taken for meant.
         */
        if (!rule.matches || (!rule.sure && !(rule.verdict == Verdict::accept && rule.names_port)))
            continue;
        if (rule.verdict == Verdict::accept)
            return Fate::passes;
        if (rule.verdict == Verdict::back)
            return Fate::undecided;
        if (rule.verdict == Verdict::drop) {
            why = rule.text;
            return Fate::dropped;
        }
        const auto target = firewall.find(rule.target);
        if (rule.verdict != Verdict::jump || target == firewall.end() || depth >= deepest)
            continue;
        const Fate fate = fate_in(firewall, target->second, why, depth + 1);
        if (fate != Fate::undecided)
            return fate;
    }
    return Fate::undecided;
}

/* The ports of --dport and --dports: "4791", "1:5000", "22,4791". */
bool list_holds(const std::string &list, unsigned port)
{
    std::istringstream parts(list);

    for (std::string part; std::getline(parts, part, ',');) {
        const size_t colon = part.find(':');
        const unsigned first = static_cast<unsigned>(std::strtoul(part.c_str(), nullptr, 10));
        const unsigned last = colon == std::string::npos
                                  ? first
                                  : static_cast<unsigned>(
                                        std::strtoul(part.c_str() + colon + 1, nullptr, 10));
        if (first <= port && port <= last)
            return true;
    }
    return false;
}

void read_target(const std::string &name, const std::string &table, FirewallRule &rule)
{
    if (name == "ACCEPT") {
        rule.verdict = Verdict::accept;
    } else if (name == "DROP" || name == "REJECT") {
        rule.verdict = Verdict::drop;
    } else if (name == "RETURN") {
        rule.verdict = Verdict::back;
    } else {
        rule.verdict = Verdict::jump;
        rule.target = table + name;
    }
}

/* A comment of several words is in quotation marks: the index of its last word. */
size_t comment_end(const std::vector<std::string> &options, size_t at)
{
    if (options[at].starts_with('"'))
        while (!options[at].ends_with('"') && at + 1 < options.size())
            at++;
    return at;
}

void read_option(const std::string &option, const std::string &value, unsigned port,
                 FirewallRule &rule)
{
    static const std::set<std::string, std::less<>> plain = {"udp", "comment", "multiport"};

    if (option == "-p") {
        rule.matches &= value == "udp" || value == "all";
    } else if (option == "--dport" || option == "--dports") {
        rule.matches &= list_holds(value, port);
        rule.names_port = true;
    } else if (option != "-m" || !plain.contains(value)) {
        rule.sure = false;
    }
}

FirewallRule iptables_rule(const std::vector<std::string> &options, const std::string &line,
                           const std::string &table, unsigned port)
{
    FirewallRule rule;

    rule.text = line;
    for (size_t i = 2; i + 1 < options.size(); i += 2) {
        if (options[i] == "-j" || options[i] == "-g") {
            read_target(options[i + 1], table, rule);
            break;
        }
        if (options[i] == "--comment") {
            i = comment_end(options, i + 1) - 1;
        } else if (options[i] == "!") {
            rule.sure = false;
            i++;
        } else {
            read_option(options[i], options[i + 1], port, rule);
        }
    }
    return rule;
}

} // namespace

std::optional<Firewall> firewall_of_nft(const std::string &json, unsigned port)
{
    const Json all = Json::parse(json, nullptr, false);
    Firewall firewall;

    if (!all.is_object() || !all.contains("nftables"))
        return std::nullopt;
    for (const Json &object : all["nftables"]) {
        if (object.contains("chain")) {
            const Json &chain = object["chain"];
            FirewallChain &entry = firewall[key_of(chain, chain.value("name", ""))];

            entry.input = chain.value("hook", "") == "input" && chain.value("family", "") != "arp";
            entry.drops = chain.value("policy", "accept") == "drop";
        } else if (object.contains("rule")) {
            read_nft_rule(object["rule"], port, firewall);
        }
    }
    return firewall;
}

Firewall firewall_of_iptables(const std::string &text, unsigned port)
{
    std::istringstream lines(text);
    std::string table;
    Firewall firewall;

    for (std::string line; std::getline(lines, line);) {
        const std::vector<std::string> options = words(line);

        if (line.starts_with('*'))
            table = line.substr(1) + ' ';
        else if (line.starts_with(':') && options.size() > 1) {
            FirewallChain &chain = firewall[table + options[0].substr(1)];

            chain.input = options[0] == ":INPUT" && table == "filter ";
            chain.drops = options[1] == "DROP";
        } else if (line.starts_with("-A ") && options.size() > 2) {
            firewall[table + options[1]].rules.push_back(iptables_rule(options, line, table, port));
        }
    }
    return firewall;
}

std::vector<DroppingChain> dropping_chains(const Firewall &firewall)
{
    std::vector<DroppingChain> found;

    for (const auto &[name, chain] : firewall) {
        std::string why = "policy drop";

        if (!chain.input)
            continue;
        const Fate fate = fate_in(firewall, chain, why);
        if (fate == Fate::dropped || (fate == Fate::undecided && chain.drops))
            found.push_back({name, why});
    }
    return found;
}

} // namespace rox::doctor
