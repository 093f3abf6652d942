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
 * struct rox_fixture - a device with the objects that most cases need
 * @ndev: an Ethernet netdev that discards all frames; up, MTU 1500
 * @dev: the device on it
 * @pd: a PD of a kernel user
 * @cq: a CQ for 64 completions
 * @gid_index: index of a RoCE v2 GID
 */
struct rox_fixture {
	struct net_device *ndev;
	struct rox_dev *dev;
	struct ib_pd *pd;
	struct ib_cq *cq;
	int gid_index;
};

/* init and exit of a suite. The fixture is test->priv. init returns 0 or fails the test. */
int rox_fixture_init(struct kunit *test);
void rox_fixture_exit(struct kunit *test);

/* Fills @attr with the peer's address, the same for all QPs. No machine has it. */
void rox_fixture_address(struct kunit *test, struct rdma_ah_attr *attr);
/* Skips the case where packets to that address have no route: it is one of IPv6. */
void rox_fixture_needs_route(struct kunit *test);
/* Creates a QP in RESET. The case destroys it with ib_destroy_qp(). */
struct rox_qp *rox_fixture_qp(struct kunit *test, enum ib_qp_type type);
/* Moves @qp to @state by modify_qp, from RESET on. Only SQE is entered by a send error. */
void rox_fixture_move(struct kunit *test, struct rox_qp *qp, enum ib_qp_state state);
/* Fills @attr with the attributes that a transition requires. Return: their mask. */
int rox_fixture_attr(struct kunit *test, const struct rox_qp *qp, enum ib_qp_state from,
		     enum ib_qp_state to, struct ib_qp_attr *attr);
/* Connects two QPs in RESET with each other. */
void rox_fixture_join(struct kunit *test, struct rox_qp *a, struct rox_qp *b);
/* Waits for the next completion. Return: it; its status must be success. */
struct ib_wc rox_fixture_wc(struct kunit *test);
/* Return: an MR of the pages of @sg, which has one entry, registered by a work request of @qp. */
struct ib_mr *rox_fixture_register(struct kunit *test, struct rox_qp *qp, struct scatterlist *sg);
/* Calls rox_mr_get() for the owner of memory in @pd. Return: as rox_mr_get(). */
struct rox_mr *rox_fixture_mr(struct kunit *test, struct ib_pd *pd, u32 key, u64 addr, u64 len,
			      int access, bool user);
/* Return: a value of @qp's counter set, summed over all CPUs. */
u64 rox_fixture_counted(const struct rox_qp *qp, enum rox_counter counter);

#endif /* ROX_KUNIT_FIXTURE_H */
