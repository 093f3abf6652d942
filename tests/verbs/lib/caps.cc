// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "caps.h"

#include <array>
#include <exception>
#include <thread>

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "error.h"

namespace vt {

namespace {

/// Of the calling thread.
void drop(int capability)
{
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    std::array<__user_cap_data_struct, 2> data{};
    if (syscall(SYS_capget, &header, data.data()))
        fail("capget", errno);
    data[static_cast<unsigned>(capability) / 32].effective &= ~(1U << capability % 32);
    if (syscall(SYS_capset, &header, data.data()))
        fail("capset", errno);
}

} // namespace

void without_capability(int capability, const std::function<void()> &body)
{
    std::exception_ptr problem;
    std::thread thread([&] {
        try {
            drop(capability);
            body();
        } catch (...) {
            problem = std::current_exception();
        }
    });
    thread.join();
    if (problem)
        std::rethrow_exception(problem);
}

} // namespace vt
