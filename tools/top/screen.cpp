/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "top/screen.hpp"

#include <algorithm>
#include <array>
#include <clocale>
#include <csignal>
#include <cstring>
#include <string>

#include <fmt/format.h>
#define NCURSES_NOMACROS
#include <ncurses.h>

namespace rox::top {

namespace {

constexpr size_t history_length = 20;

/* Curses for as long as the object lives. */
class Terminal {
public:
    Terminal()
    {
        std::setlocale(LC_ALL, "");
        initscr();
        cbreak();
        noecho();
        keypad(stdscr, TRUE);
        curs_set(0);
    }
    Terminal(const Terminal &) = delete;
    Terminal &operator=(const Terminal &) = delete;
    ~Terminal() { endwin(); }
};

/* What is too wide is cut: curses would go on in the next line. */
void put_line(int y, const std::string &text, attr_t attributes = A_NORMAL)
{
    attron(static_cast<int>(attributes));
    mvaddstr(y, 0, cut_to_width(text, COLS).c_str());
    attroff(static_cast<int>(attributes));
}

class Screen {
public:
    Screen(const ScreenOptions &options, const std::function<Sample()> &sample)
        : options_(options), take_(sample), history_(history_length), now_(sample())
    {
        sort_ = options.sort.value_or(main_column(options.view));
    }

    int run()
    {
        const Terminal terminal;

        while (!ended_) {
            draw();
            timeout(static_cast<int>(options_.interval * 1000));
            const int key = getch();
            if (key == ERR)
                refresh_sample();
            else
                handle(key);
        }
        return 0;
    }

private:
    void refresh_sample()
    {
        if (paused_)
            return;
        before_ = std::move(now_);
        now_ = take_();
        history_.add(table(), main_column(options_.view));
    }

    Table table() const
    {
        Table made = make_table(options_.view, now_, before_ ? &*before_ : nullptr,
                                options_.filter);

        sort_table(made, sort_, options_.reverse);
        return made;
    }

    void draw()
    {
        const std::string text = as_text(table(), &history_);
        const int lines = LINES;
        size_t begin = 0;

        erase();
        put_line(0,
                 fmt::format(
                     "roxtop  {}  every {:g} s  by {}{}{}{}", view_name(options_.view),
                     options_.interval, columns_of(options_.view)[sort_].name,
                     options_.reverse ? " (reversed)" : "",
                     options_.filter.process.empty() ? "" : "  process " + options_.filter.process,
                     paused_ ? "  PAUSED" : ""),
                 A_BOLD);
        for (int y = 1; y < lines - 1 && begin < text.size(); y++) {
            const size_t end = text.find('\n', begin);

            put_line(y, text.substr(begin, end - begin), y == 1 ? A_REVERSE : A_NORMAL);
            begin = end + 1;
        }
        put_line(lines - 1,
                 "1-5 or Tab: view  < >: sort  r: reverse  /: process  + -: interval  "
                 "Space: pause  q: quit",
                 A_DIM);
        refresh();
    }

    void show(View view)
    {
        options_.view = view;
        sort_ = main_column(view);
        history_.clear();
    }

    /* Asks for a line at the bottom; the samples wait meanwhile. */
    std::string ask(const char *question)
    {
        std::array<char, 64> answer{};

        move(LINES - 1, 0);
        clrtoeol();
        addstr(question);
        echo();
        timeout(-1);
        getnstr(answer.data(), static_cast<int>(answer.size()) - 1);
        noecho();
        return answer.data();
    }

    void handle(int key)
    {
        constexpr std::array<View, 5> views = {View::devices, View::qps, View::cqs, View::mrs,
                                               View::processes};
        const size_t columns = columns_of(options_.view).size();
        const auto place = static_cast<size_t>(options_.view);

        switch (key) {
        case 'q': ended_ = true; break;
        case '1':
        case '2':
        case '3':
        case '4':
        case '5': show(views[static_cast<size_t>(key - '1')]); break;
        case '\t': show(views[(place + 1) % views.size()]); break;
        case '<':
        case KEY_LEFT: sort_ = (sort_ + columns - 1) % columns; break;
        case '>':
        case KEY_RIGHT: sort_ = (sort_ + 1) % columns; break;
        case 'r': options_.reverse = !options_.reverse; break;
        case '/': options_.filter.process = ask("process (name or PID, empty for all): "); break;
        case '+': options_.interval = std::min(options_.interval * 2, 60.0); break;
        case '-': options_.interval = std::max(options_.interval / 2, 0.125); break;
        case ' ': paused_ = !paused_; break;
        default: break;
        }
    }

    ScreenOptions options_;
    const std::function<Sample()> &take_;
    History history_;
    Sample now_;
    std::optional<Sample> before_;
    size_t sort_ = 0;
    bool paused_ = false, ended_ = false;
};

} // namespace

int run_screen(const ScreenOptions &options, const std::function<Sample()> &sample)
{
    return Screen(options, sample).run();
}

} // namespace rox::top
