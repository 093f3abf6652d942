/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * The caller's terminal.
 */
#ifndef ROX_TOOLS_RUN_TERMINAL_HPP
#define ROX_TOOLS_RUN_TERMINAL_HPP

#include <optional>

#include <termios.h>

namespace rox::run {

/**
 * Passes all keys to the command while it has the terminal: raw mode, which the destructor ends.
 *
 * That is done if both standard input and output are terminals. If output goes elsewhere, what
 * reads it (a pager) may use the terminal as well; then lines are passed, and Ctrl-C is a signal to
 * rox-run.
 */
class Terminal {
public:
    Terminal();
    Terminal(const Terminal &) = delete;
    Terminal &operator=(const Terminal &) = delete;
    ~Terminal() { leave(); }

    /// Whether raw mode is what is wanted.
    bool wanted() const { return wanted_; }
    /// Whether it is raw mode.
    bool entered() const { return entered_; }
    /// Enters raw mode if it is wanted and the caller is in the foreground.
    void enter();
    void leave();
    /// To be called when the process is continued: others may have had the terminal meanwhile, so
    /// raw mode has to be entered again.
    void renew() { entered_ = false; }

private:
    bool wanted_, entered_ = false;
    std::optional<termios> before_; ///< what leave() brings back
};

/// Whether reading standard input would stop this process: a terminal that has another job in the
/// foreground.
bool in_background();

} // namespace rox::run

#endif // ROX_TOOLS_RUN_TERMINAL_HPP
