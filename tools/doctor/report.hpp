/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * What all diagnoses found, for people and for programs.
 */
#ifndef ROX_DOCTOR_REPORT_HPP
#define ROX_DOCTOR_REPORT_HPP

#include "doctor/check.hpp"

#include <string>
#include <vector>

namespace rox::doctor {

struct CheckResult {
    std::string check;
    Findings findings;
};

using Report = std::vector<CheckResult>;

/// Runs all checks, or those named.
Report examine(const Host &host, const Options &options, const std::vector<std::string> &only = {});
/// The worst level of all findings.
Level worst(const Report &report);
const char *level_name(Level level);
std::string as_text(const Report &report, bool brief);
std::string as_json(const Report &report);

} // namespace rox::doctor

#endif // ROX_DOCTOR_REPORT_HPP
