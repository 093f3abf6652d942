/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * The live table in a terminal.
 */
#ifndef ROX_TOP_SCREEN_HPP
#define ROX_TOP_SCREEN_HPP

#include "top/table.hpp"

#include <functional>

namespace rox::top {

/// What the user sees first.
struct ScreenOptions {
    View view = View::devices;
    std::optional<size_t> sort;
    bool reverse = false;
    double interval = 1;
    Filter filter;
};

/// Shows tables until the user ends it. Returns an exit status.
int run_screen(const ScreenOptions &options, const std::function<Sample()> &sample);

} // namespace rox::top

#endif // ROX_TOP_SCREEN_HPP
