/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Texts as execve() wants them.
 */
#ifndef ROX_TOOLS_RUN_POINTERS_HPP
#define ROX_TOOLS_RUN_POINTERS_HPP

#include <string>
#include <vector>

namespace rox::run {

/// Pointers to the texts, and a null pointer behind them. They are good as long as the texts are.
inline std::vector<char *> pointers(const std::vector<std::string> &texts)
{
    std::vector<char *> all;

    for (const auto &text : texts)
        all.push_back(const_cast<char *>(text.c_str()));
    all.push_back(nullptr);
    return all;
}

} // namespace rox::run

#endif // ROX_TOOLS_RUN_POINTERS_HPP
