// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "attribute.h"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <utility>

#include "error.h"

namespace vt {

namespace {

std::string first_word(const std::string &path)
{
    std::string word;
    std::ifstream(path) >> word;
    return word;
}

} // namespace

std::string attribute(const std::string &device, const std::string &name)
{
    return "/proc/1/root/sys/class/infiniband/" + device + "/" + name;
}

int write_attribute(const std::string &path, const std::string &text)
{
    const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        fail(path, errno);
    const ssize_t written = write(fd, text.data(), text.size());
    const int error = written == static_cast<ssize_t>(text.size()) ? 0 : errno;
    close(fd);
    return error;
}

Setting::Setting(std::string path, const std::string &text, std::string after)
    : path_(std::move(path)), after_(std::move(after))
{
    set(text);
}

Setting::Setting(const std::string &path, const std::string &text)
    : Setting(path, text, first_word(path))
{}

Setting::~Setting()
{
    try {
        set(after_);
    } catch (const Failure &) { // The device may be gone.
    }
}

void Setting::set(const std::string &text) const
{
    check(write_attribute(path_, text), path_.c_str());
}

std::string Setting::get() const
{
    return first_word(path_);
}

} // namespace vt
