/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * What the programs do alike: parse the command line, and end with a status.
 */
#ifndef ROX_TOOLS_PROGRAM_HPP
#define ROX_TOOLS_PROGRAM_HPP

#include <cstdio>
#include <exception>

#include <CLI/CLI.hpp>

namespace rox {

/// The exit status for a wrong command line.
constexpr int usage_status = 2;

struct Program {
    const char *name;
    const char *description;
    int failure_status; ///< after an exception, whose message goes to stderr
};

/**
 * @param declare given the CLI::App and the Arguments
 * @param body given the Arguments of the command line
 * @return the exit status: that of @p body, 0 after --help, or one of the above
 */
template <typename Arguments, typename Declare, typename Body>
int run_program(const Program &program, int argc, char **argv, Declare declare, Body body)
{
    try {
        Arguments arguments;
        CLI::App app(program.description, program.name);

        declare(app, arguments);
        try {
            app.parse(argc, argv);
            return body(arguments);
        } catch (const CLI::ParseError &error) {
            return app.exit(error) == 0 ? 0 : usage_status;
        }
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s: %s\n", program.name, error.what());
        return program.failure_status;
    }
}

} // namespace rox

#endif // ROX_TOOLS_PROGRAM_HPP
