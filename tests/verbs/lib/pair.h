// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Two ends of a connection in one process, each with a context of its own: the fixture of the
/// tests that move data.
#pragma once

#include <memory>

#include "context.h"
#include "cq.h"
#include "memory.h"
#include "qp.h"

namespace vt {

/// An open device with a PD and CQs. PairTest::make() adds the QP.
struct End {
    explicit End(const std::string &device)
        : context(device), pd(alloc_pd(context.get())), send_cq(context.get(), 512),
          recv_cq(context.get(), 512)
    {}

    Buffer buffer(std::size_t size, int access = kAllAccess) const
    {
        return {pd.get(), size, access};
    }

    Context context;
    Pd pd;
    Cq send_cq;
    Cq recv_cq;
    std::unique_ptr<Qp> qp;
};

/// Brings both QPs to RTS, connected to each other (except UD).
void connect(const Context &a_context, Qp &a, const Context &b_context, Qp &b,
             const Params &params = {});

class PairTest : public ::testing::Test {
protected:
    /// Destroys the QPs before the members of derived fixtures, which they may use.
    void TearDown() override
    {
        a.qp.reset();
        b.qp.reset();
    }

    /// Creates both QPs, in RESET.
    void make(const QpConfig &a_config = {}, const QpConfig &b_config = {});
    /// Creates and connects both.
    void start(const QpConfig &config = {}, const Params &params = {});
    void connect(const Params &params = {})
    {
        vt::connect(a.context, *a.qp, b.context, *b.qp, params);
    }

    /// An AH of @p from for @p to.
    static Ah ah(const End &from, const End &to, const Params &params = {});

    /// Sends a small message from a to b and checks that it arrives.
    void expect_works();

    End a{device_a()};
    End b{device_b()};
};

} // namespace vt
