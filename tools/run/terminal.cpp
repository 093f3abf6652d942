/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "run/terminal.hpp"

#include <unistd.h>

namespace rox::run {

Terminal::Terminal() : wanted_(isatty(0) != 0 && isatty(1) != 0) {}

void Terminal::enter()
{
    termios settings{};

    if (!wanted_ || entered_ || in_background() || tcgetattr(0, &settings) != 0)
        return;
    // Nobody may have touched it since it was made raw.
    if (!before_ || (settings.c_lflag & ICANON) != 0)
        before_ = settings;
    cfmakeraw(&settings);
    tcsetattr(0, TCSADRAIN, &settings);
    entered_ = true;
}

void Terminal::leave()
{
    if (before_ && !in_background())
        tcsetattr(0, TCSADRAIN, &*before_);
    before_.reset();
    entered_ = false;
}

bool in_background()
{
    const pid_t foreground = tcgetpgrp(0);

    return foreground > 0 && foreground != getpgrp();
}

} // namespace rox::run
