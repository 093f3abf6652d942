// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "lib/cgroup.h"

#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../verbs/lib/clock.h"
#include "../../verbs/lib/context.h"
#include "../../verbs/lib/error.h"

namespace hostile {

Cgroup::Cgroup(const std::string &name)
{
    const std::string root = vt::variable("ROX_CGROUP");
    if (root.empty())
        vt::fail("ROX_CGROUP is not set: run by tests/hostile/run");
    path_ = root + "/" + name;
    if (mkdir(path_.c_str(), 0755))
        vt::fail("mkdir " + path_, errno);
}

Cgroup::~Cgroup()
{
    /* Linux 6.1 and 6.12 keep a limit of a group that is gone in the device's list, and crash
       when the device goes. */
    if (limited_)
        std::ofstream(path_ + "/rdma.max")
            << vt::device_a() << " hca_handle=max hca_object=max" << std::flush;
    EXPECT_TRUE(vt::eventually([this] { return rmdir(path_.c_str()) == 0; }));
}

void Cgroup::set(const std::string &file, const std::string &value)
{
    limited_ |= file == "rdma.max";
    write_to(file, value);
}

void Cgroup::write_to(const std::string &file, const std::string &value) const
{
    std::ofstream out(path_ + "/" + file);
    if (!(out << value << std::flush))
        vt::fail(value + " > " + path_ + "/" + file, errno);
}

void Cgroup::enter() const
{
    write_to("cgroup.procs", "0");
}

std::uint64_t Cgroup::number(const std::string &file, const std::string &key) const
{
    std::ifstream in(path_ + "/" + file);
    std::string word;
    while (in >> word) {
        if (key.empty())
            return std::stoull(word);
        std::string value;
        in >> value;
        if (word == key)
            return std::stoull(value);
    }
    vt::fail("no " + key + " in " + path_ + "/" + file);
}

} // namespace hostile
