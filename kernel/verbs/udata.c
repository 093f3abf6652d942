// SPDX-License-Identifier: GPL-2.0
/*
 * The driver's part of requests and responses. Its length depends on the provider's
 * version. The rules are in Documentation/abi.md.
 */
#include "internal.h"

/* The request of the create commands of CQs, SRQs and QPs. */
struct rox_flags_req {
	u32 flags;
	u32 reserved;
};

static_assert(sizeof(struct rox_create_cq_req) == sizeof(struct rox_flags_req));
static_assert(sizeof(struct rox_create_srq_req) == sizeof(struct rox_flags_req));
static_assert(sizeof(struct rox_create_qp_req) == sizeof(struct rox_flags_req));

/**
 * rox_udata_get() - copies the driver's part of a request
 * @udata: the command's udata; NULL for a kernel user
 * @req: filled as far as there is data; the caller has zeroed it
 * @size: size of @req
 * @least: least number of bytes that the request must have
 *
 * A newer provider may send more than @size bytes, if the rest is 0.
 * Process context if @udata is not NULL.
 *
 * Return: 0; -EINVAL if the request is too short; -EOPNOTSUPP, as the core returns
 * for its own part, if the rest is not 0; -EFAULT.
 */
int rox_udata_get(struct ib_udata *udata, void *req, size_t size, size_t least)
{
	size_t len;

	if (!udata)
		return 0;
	if (udata->inlen < least)
		return -EINVAL;
	if (udata->inlen > size && !ib_is_udata_cleared(udata, size, udata->inlen - size))
		return -EOPNOTSUPP;
	/* Do not copy 0 bytes: the core calls some ops from threads without an address space. */
	len = min(udata->inlen, size);
	return len ? ib_copy_from_udata(req, udata, len) : 0;
}

/**
 * rox_udata_get_flags() - reads the flags of a create command's request
 * @udata: the command's udata; NULL for a kernel user
 * @known: the flags that are allowed
 * @flags: set to the flags, or to 0 if there is no request
 *
 * Process context.
 *
 * Return: 0; -EINVAL for an unknown flag, or a reserved word that is
 * not 0; else as rox_udata_get().
 */
int rox_udata_get_flags(struct ib_udata *udata, u32 known, u32 *flags)
{
	struct rox_flags_req req = {};
	int err;

	err = rox_udata_get(udata, &req, sizeof(req), 0);
	if (err)
		return err;
	if (req.flags & ~known || req.reserved)
		return -EINVAL;
	*flags = req.flags;
	return 0;
}

/**
 * rox_udata_put() - copies the driver's part of a response to the program
 * @udata: the command's udata
 * @resp: response
 * @size: size of @resp; what the program has no room for is cut off
 *
 * Process context. Return: 0 or -EFAULT.
 */
int rox_udata_put(struct ib_udata *udata, const void *resp, size_t size)
{
	return ib_copy_to_udata(udata, (void *)resp, min(udata->outlen, size));
}
