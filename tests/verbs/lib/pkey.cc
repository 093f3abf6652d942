// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "pkey.h"

#include <arpa/inet.h>

#include "attribute.h"

namespace vt {

int write_pkey(const std::string &device, const std::string &text)
{
    return write_attribute(attribute(device, "ports/1/rox/set_pkey"), text);
}

std::uint16_t PkeyTable::get(int index) const
{
    __be16 pkey = 0;
    check(ibv_query_pkey(context_.get(), 1, index, &pkey), "ibv_query_pkey");
    return ntohs(pkey);
}

void PkeyTable::set(int index, std::uint16_t pkey)
{
    std::uint16_t now = get(index);
    if (now == pkey)
        return;
    before_.emplace(index, now);
    change(index, pkey);
}

void PkeyTable::change(int index, std::uint16_t pkey)
{
    // Another context of the same device may have changed it.
    while (context_.next_event(0ms))
        ;
    check(write_pkey(context_.name(), std::to_string(index) + " " + std::to_string(pkey)),
          "set_pkey");
    EXPECT_EQ(context_.wait_event(IBV_EVENT_PKEY_CHANGE).port, 1);
}

PkeyTable::~PkeyTable()
{
    for (auto [index, pkey] : before_) {
        try {
            if (get(index) != pkey)
                change(index, pkey);
        } catch (const Failure &failure) {
            ADD_FAILURE() << failure.what();
        }
    }
}

} // namespace vt
