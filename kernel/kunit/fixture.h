/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A rox device on a netdev of its own, for suites that need one.
 */
#ifndef ROX_KUNIT_FIXTURE_H
#define ROX_KUNIT_FIXTURE_H

#include <kunit/test.h>
#include "../observe/observe.h"
#include "../verbs/verbs.h"

/**
 * struct rox_fixture - a device with what most cases need
 * @ndev: an Ethernet netdev that swallows what it is given; up, MTU 1500
 * @dev: the device on it
 * @pd: a PD of a kernel user
 * @cq: room for 64 completions
 * @gid_index: of a RoCE v2 GID
 */
struct rox_fixture {
	struct net_device *ndev;
	struct rox_dev *dev;
	struct ib_pd *pd;
	struct ib_cq *cq;
	int gid_index;
};

/* init and exit of a suite; the fixture is the test's priv. */
int rox_fixture_init(struct kunit *test);
void rox_fixture_exit(struct kunit *test);

/* The peer of all QPs; nobody has the address. */
void rox_fixture_address(struct kunit *test, struct rdma_ah_attr *attr);
/* A QP in RESET; the case destroys it with ib_destroy_qp(). */
struct rox_qp *rox_fixture_qp(struct kunit *test, enum ib_qp_type type);
/* Goes by the usual ways to a state; SQE as an error would bring it there. */
void rox_fixture_move(struct kunit *test, struct rox_qp *qp, enum ib_qp_state state);
/* What the transition wants: fills @attr, returns its mask. */
int rox_fixture_attr(struct kunit *test, const struct rox_qp *qp, enum ib_qp_state from,
		     enum ib_qp_state to, struct ib_qp_attr *attr);
/* What @qp's counter set has counted so far, on all CPUs. */
u64 rox_fixture_counted(const struct rox_qp *qp, enum rox_counter counter);

#endif /* ROX_KUNIT_FIXTURE_H */
