// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "settings.h"

#include <fstream>

#include "../../verbs/lib/attribute.h"
#include "../../verbs/lib/context.h"
#include "../../verbs/lib/error.h"

namespace wire {

namespace {

std::string file(const std::string &name)
{
    return vt::attribute(vt::device_a(), "cc/" + name);
}

} // namespace

Settings::~Settings()
{
    for (const auto &[name, value] : before_) {
        try {
            vt::write_attribute(file(name), value);
        } catch (const vt::Failure &) { // The device may be gone.
        }
    }
}

std::string Settings::get(const std::string &name)
{
    std::ifstream stream(file(name));
    std::string line;
    std::getline(stream, line);
    return line;
}

int Settings::set(const std::string &name, const std::string &value)
{
    std::string before = get(name);
    int error = vt::write_attribute(file(name), value);
    if (!error)
        before_.try_emplace(name, before);
    return error;
}

} // namespace wire
