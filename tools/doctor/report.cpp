/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "doctor/report.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace rox::doctor {

Report examine(const Host &host, const Options &options, const std::vector<std::string> &only)
{
    Report report;

    for (const auto &check : all_checks()) {
        const std::string name(check->name());

        if (only.empty() || std::ranges::find(only, name) != only.end())
            report.push_back({name, check->look(host, options)});
    }
    return report;
}

Level worst(const Report &report)
{
    Level level = Level::ok;

    for (const CheckResult &result : report)
        for (const Finding &finding : result.findings)
            level = std::max(level, finding.level);
    return level;
}

const char *level_name(Level level)
{
    switch (level) {
    case Level::ok: return "ok";
    case Level::note: return "note";
    case Level::warning: return "warning";
    case Level::problem: return "problem";
    }
    return "?";
}

std::string as_text(const Report &report, bool brief)
{
    std::string text;

    for (const CheckResult &result : report)
        for (const Finding &finding : result.findings) {
            if (brief && finding.level < Level::warning)
                continue;
            text += fmt::format("{:<8} {:<9} {}\n", level_name(finding.level), result.check,
                                finding.what);
            for (const std::string &command : finding.commands)
                text += fmt::format("{:18}    {}\n", "", command);
        }
    return text;
}

std::string as_json(const Report &report)
{
    nlohmann::ordered_json findings = nlohmann::ordered_json::array();

    for (const CheckResult &result : report)
        for (const Finding &finding : result.findings)
            findings.push_back({{"check", result.check},
                                {"level", level_name(finding.level)},
                                {"what", finding.what},
                                {"commands", finding.commands}});
    const nlohmann::ordered_json all = {{"level", level_name(worst(report))},
                                        {"findings", findings}};
    return all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

} // namespace rox::doctor
