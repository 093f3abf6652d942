/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR BSD-2-Clause */
/*
 * The ABI between the rox kernel module and its user-space provider: the rings
 * that both map, their entries, and the driver's part of uverbs requests and
 * responses.
 *
 * Every structure has the same layout in 32-bit and 64-bit programs. All
 * values are in host byte order unless their type says otherwise.
 *
 * Requests and responses grow at their end. Module and provider accept shorter
 * and longer ones than their own; missing members are 0. Commands without a
 * structure here have no driver's part. Documentation/abi.md says how the ABI
 * grows.
 */
#ifndef RDMA_USER_ROX_ABI_H
#define RDMA_USER_ROX_ABI_H

#include <linux/ioctl.h>
#include <linux/types.h>
#include <rdma/ib_user_ioctl_cmds.h>

/* Changes only if a provider of one version cannot work with a module of the other. */
#define ROX_ABI_VERSION 1

/*
 * driver_id of rox in RDMA_NLDEV and ib_uverbs_ioctl_hdr, by which the provider
 * recognises its devices. No driver in the kernel has this ID.
 */
#define ROX_DRIVER_ID 0x726f78

/* Bytes from producer to consumer and from there to flags: each has its own cache line. */
#define ROX_CACHE_LINE 64

/**
 * struct rox_ring_ctrl - the shared indices of one ring
 * @producer: number of entries ever added, modulo 2^32; written by the
 *            producer, with release semantics
 * @consumer: number of entries ever taken, modulo 2^32; written by the
 *            consumer, with release semantics
 * @flags: enum rox_ring_flags
 *
 * The program is the producer of an SQ, RQ or SRQ, the kernel that of a CQ. The
 * other one is the consumer. Entry i of the ring starts (i & (entries - 1)) *
 * stride bytes after entry 0. An entry may be longer than its structure here;
 * the rest is reserved. The ring is empty when @producer == @consumer and full
 * when @producer - @consumer == entries. A larger difference is invalid: the
 * QP, SRQ or CQ of the ring fails.
 */
struct rox_ring_ctrl {
	__u32 producer;
	__u32 pad0[ROX_CACHE_LINE / 4 - 1];
	__u32 consumer;
	__u32 pad1[ROX_CACHE_LINE / 4 - 1];
	__u32 flags;
	__u32 pad2[ROX_CACHE_LINE / 4 - 1];
};

/**
 * enum rox_ring_flags - bits of struct rox_ring_ctrl.flags
 * @ROX_RING_NEED_WAKEUP: SQ and RQ, written by the kernel only. The kernel
 *	sleeps: after adding entries the program must ring the doorbell. The
 *	program stores @producer, issues a full barrier, then loads flags. The
 *	doorbell is ROX_DOORBELL_RING, or the uverbs command POST_SEND (for an
 *	SQ) or POST_RECV (for an RQ) without work requests.
 * @ROX_RING_ARM_SOLICITED: CQ, set by the program with an atomic OR, cleared
 *	by the kernel with an atomic exchange when it raises the event. Asks for
 *	an event at the next solicited or unsuccessful completion.
 * @ROX_RING_ARM_NEXT: as above, at the next completion of any kind.
 * @ROX_RING_WAKE_LATER: SQ, with ROX_RING_NEED_WAKEUP, written by the kernel only, if the context
 *	has ROX_FEATURE_LATE_DOORBELL: the program should ring one doorbell for many entries: when
 *	it polls a CQ in vain, arms one, or has added many. Nothing is lost if it never rings, but
 *	the kernel looks at the ring milliseconds later
 * @ROX_RING_ERROR: CQ, written by the kernel: the CQ has overflowed or its
 *	indices are invalid; the kernel adds no further entry.
 *
 * After a program has armed a CQ, it issues a full barrier and polls once more.
 */
enum rox_ring_flags {
	ROX_RING_NEED_WAKEUP	= 1U << 0,
	ROX_RING_ARM_SOLICITED	= 1U << 1,
	ROX_RING_ARM_NEXT	= 1U << 2,
	ROX_RING_ERROR		= 1U << 3,
	ROX_RING_WAKE_LATER	= 1U << 4,
};

/**
 * struct rox_sge - one scatter/gather element, as struct ibv_sge
 * @addr: virtual address (or offset, for zero-based MRs)
 * @length: bytes
 * @lkey: local key of the MR
 */
struct rox_sge {
	__aligned_u64 addr;
	__u32 length;
	__u32 lkey;
};

/**
 * struct rox_bind - binding of a memory window
 * @addr: first address of the window, as an address in the memory region
 * @length: bytes; 0 unbinds a window of type 1
 * @mr_lkey: key of the memory region; ignored if @length is 0
 * @mw_rkey: any key that the window has had; its upper 24 bits name the window
 * @new_rkey: key of the window after the bind; only the lower 8 bits may differ
 * @access: enum ibv_access_flags
 */
struct rox_bind {
	__aligned_u64 addr;
	__aligned_u64 length;
	__u32 mr_lkey;
	__u32 mw_rkey;
	__u32 new_rkey;
	__u32 access;
};

/**
 * struct rox_send_wqe - header of an entry of the send queue, 64 bytes
 * @wr_id: returned in the completion
 * @opcode: enum ib_uverbs_wr_opcode
 * @send_flags: enum ibv_send_flags: FENCE, SIGNALED, SOLICITED, INLINE
 * @num_sge: elements in the SGE list that follows; 0 if @send_flags has INLINE
 * @inline_len: bytes of payload that follow if @send_flags has INLINE, else 0
 * @xrc_srqn: XRC: number of the peer's SRQ, for every opcode; else 0
 * @ex: immediate data (big endian) or rkey to invalidate (host order)
 * @rdma: READ, WRITE, ATOMIC and ATOMIC_WRITE work requests. @rdma.compare_add and
 *	@rdma.swap are those of ibv_send_wr.wr.atomic
 * @ud: UD work requests. @ud.ah is the index that CREATE_AH returned. @ud.pkey_index
 *	is used for the kernel's GSI QP only; programs store 0. All other QPs send with
 *	the P_Key of the QP
 *
 * Followed by @num_sge struct rox_sge, or by @inline_len bytes. Members with
 * reserved in their names are 0. A WQE completes with IB_WC_LOC_QP_OP_ERR if the
 * kernel does not know its opcode, a flag or a bit of @bind.access, or if a
 * reserved member is not 0.
 */
struct rox_send_wqe {
	__aligned_u64 wr_id;
	__u32 opcode;
	__u32 send_flags;
	__u32 num_sge;
	__u32 inline_len;
	union {
		__be32 imm_data;
		__u32 invalidate_rkey;
	} ex;
	__u32 xrc_srqn;
	union {
		struct {
			__aligned_u64 remote_addr;
			__aligned_u64 compare_add;
			__aligned_u64 swap;
			__u32 rkey;
			__u32 reserved;
		} rdma;
		struct {
			__u32 ah;
			__u32 remote_qpn;
			__u32 remote_qkey;
			__u16 pkey_index;
			__u16 reserved0;
			__u32 reserved[4];
		} ud;
		struct rox_bind bind;
	} wr;
};

/**
 * struct rox_recv_wqe - header of an entry of a receive queue or SRQ, 16 bytes
 * @wr_id: returned in the completion
 * @num_sge: elements in the SGE list that follows
 * @reserved: 0; otherwise the receive completes with IB_WC_LOC_QP_OP_ERR
 */
struct rox_recv_wqe {
	__aligned_u64 wr_id;
	__u32 num_sge;
	__u32 reserved;
};

/**
 * enum rox_packet_type - values of rox_cqe.sl in receive completions of a program's UD QP
 * @ROX_PACKET_IPV6: the GRH is an IPv6 header
 * @ROX_PACKET_IPV4: the GRH is 20 bytes of 0 and an IPv4 header
 * @ROX_PACKET_UDP: a flag: RoCE v2
 *
 * RoCE v2 has no service level on the wire. Adapters (mlx5) report the packet type
 * in its place, from which programs (UCX) learn the format of the GRH.
 */
enum rox_packet_type {
	ROX_PACKET_IPV6 = 1,
	ROX_PACKET_IPV4 = 2,
	ROX_PACKET_UDP = 8,
};

/**
 * struct rox_cqe - an entry of a completion queue, 64 bytes
 * @wr_id: of the work request
 * @timestamp: CLOCK_MONOTONIC_RAW in ns, if the CQ was created with
 *	ROX_CQ_TIMESTAMP, else 0
 * @wallclock: CLOCK_REALTIME in ns, if the CQ was created with ROX_CQ_TIMESTAMP, else 0
 * @status: enum ib_wc_status (the same values as enum ibv_wc_status)
 * @opcode: enum ibv_wc_opcode
 * @byte_len: bytes of the message, received ones with the 40 bytes of GRH for UD
 * @ex: immediate data (big endian) or the invalidated rkey
 * @qp_num: number of the local QP
 * @src_qp: receive completions of UD: number of the sender's QP
 * @sq_consumer: send completions: the SQ's consumer index after the completed
 *	WQE. The ring entries of this WQE and of unsignaled WQEs before it are in
 *	use until the program has polled this completion
 * @wc_flags: enum ibv_wc_flags
 * @vendor_err: 0, or details of an error
 * @pkey_index: receive completions of UD and GSI: index of the P_Key table entry that
 *	matched the packet's P_Key
 * @sl: service level; receive completions of UD: enum rox_packet_type
 * @network_hdr_type: UD and GSI: enum rdma_network_type of the packet (kernel use)
 * @vlan_id: UD and GSI: VLAN of the netdev that received the packet, 0 if none (kernel use)
 * @sgid_index: receive completions of UD: GID table entry that the packet was for, if one before it
 *	has the same GID, else 0
 */
struct rox_cqe {
	__aligned_u64 wr_id;
	__aligned_u64 timestamp;
	__aligned_u64 wallclock;
	__u32 status;
	__u32 opcode;
	__u32 byte_len;
	union {
		__be32 imm_data;
		__u32 invalidate_rkey;
	} ex;
	__u32 qp_num;
	union {
		__u32 src_qp;
		__u32 sq_consumer;
	};
	__u32 wc_flags;
	__u32 vendor_err;
	__u16 pkey_index;
	__u8 sl;
	__u8 network_hdr_type;
	__u16 vlan_id;
	__u16 sgid_index;
};

/**
 * struct rox_ring_desc - location of a ring in its mapping
 * @ctrl_offset: byte offset of struct rox_ring_ctrl
 * @entries_offset: byte offset of entry 0
 * @entries: a power of two, or 0 if there is no such ring
 * @stride: bytes from entry to entry, a multiple of 16
 */
struct rox_ring_desc {
	__u32 ctrl_offset;
	__u32 entries_offset;
	__u32 entries;
	__u32 stride;
};

/**
 * struct rox_mapping - an area to mmap from the uverbs command fd
 * @offset: the offset argument of mmap
 * @size: the length argument of mmap, a multiple of the page size
 */
struct rox_mapping {
	__aligned_u64 offset;
	__aligned_u64 size;
};

/**
 * struct rox_place - where the rings of an object lie in their mapping
 * @slab: 0: the mapping is of this object alone, and begins with the rings. Else the number of a
 *	mapping that several objects of the context share: the same number is the same memory. No
 *	number is used again in the context, while an offset is, as soon as the mapping's last
 *	object is gone
 * @position: bytes from the start of the mapping to what @ctrl_offset and @entries_offset count
 *	from, a multiple of ROX_CACHE_LINE
 * @reserved: 0
 *
 * The kernel lets objects share mappings if the context has ROX_FEATURE_SLABS and the response has
 * room for this.
 */
struct rox_place {
	__aligned_u64 slab;
	__u32 position;
	__u32 reserved;
};

/**
 * enum rox_features - bits of @features below
 * @ROX_FEATURE_DOORBELL: ROX_OBJECT_DOORBELL exists; in a response only
 * @ROX_FEATURE_NO_ENGINE: the kernel never polls the SQs of the context: each post that finds
 *	ROX_RING_NEED_WAKEUP needs a doorbell. The provider sets it for a program that asks for that
 * @ROX_FEATURE_SLABS: objects may share mappings, see struct rox_place
 * @ROX_FEATURE_LATE_DOORBELL: SQs may have ROX_RING_WAKE_LATER
 * @ROX_FEATURE_CQ_WAIT: CQs have the method ROX_METHOD_CQ_WAIT
 */
enum rox_features {
	ROX_FEATURE_DOORBELL = 1U << 0,
	ROX_FEATURE_NO_ENGINE = 1U << 1,
	ROX_FEATURE_SLABS = 1U << 2,
	ROX_FEATURE_LATE_DOORBELL = 1U << 3,
	ROX_FEATURE_CQ_WAIT = 1U << 4,
};

/**
 * struct rox_alloc_ucontext_req - driver part of the GET_CONTEXT request (may be absent)
 * @features: enum rox_features that the provider supports. The kernel
 *	ignores bits that it does not know
 * @flags: features that the provider requires; no bit is defined. The kernel
 *	refuses bits that it does not know (EINVAL)
 * @reserved: 0
 */
struct rox_alloc_ucontext_req {
	__aligned_u64 features;
	__u32 flags;
	__u32 reserved;
};

/**
 * struct rox_alloc_ucontext_resp - driver part of the GET_CONTEXT response
 * @abi_version: ROX_ABI_VERSION
 * @max_inline: the largest inline payload of a QP, in bytes
 * @features: features that the kernel supports, bits as in the request. The
 *	provider ignores bits that it does not know. A feature that both support
 *	is in use
 */
struct rox_alloc_ucontext_resp {
	__u32 abi_version;
	__u32 max_inline;
	__aligned_u64 features;
};

/*
 * A doorbell of the context, an object of the uverbs ioctl. ROX_METHOD_DOORBELL_ALLOC makes a file
 * descriptor, ROX_ATTR_DOORBELL_FD, with O_CLOEXEC. Who closes it destroys the object.
 */
enum rox_objects {
	ROX_OBJECT_DOORBELL = (1U << UVERBS_ID_NS_SHIFT),
};

enum rox_doorbell_methods {
	ROX_METHOD_DOORBELL_ALLOC = (1U << UVERBS_ID_NS_SHIFT),
};

enum rox_doorbell_attrs {
	ROX_ATTR_DOORBELL_FD = (1U << UVERBS_ID_NS_SHIFT),
};

/**
 * enum rox_doorbell_bits - the argument of ROX_DOORBELL_RING, which is no pointer
 * @ROX_DOORBELL_QPN: mask: number of the QP
 * @ROX_DOORBELL_RECV: the RQ has new entries, else the SQ has
 */
enum rox_doorbell_bits {
	ROX_DOORBELL_QPN = 0xffffff,
	ROX_DOORBELL_RECV = 1U << 24,
};

/*
 * The only ioctl of a doorbell. Errors: EINVAL: unknown bits, or a QP that is not of the
 * doorbell's context; EIO: the context or the device is gone; EPERM: the process did not make the
 * doorbell, but has it by fork() or from another one; ENOTTY: another ioctl.
 */
#define ROX_DOORBELL_RING _IO(0x1b, 0x80)

/*
 * A method of UVERBS_OBJECT_CQ: sleeps until the CQ has a completion or is in error, for
 * ROX_ATTR_CQ_WAIT_NS nanoseconds at most (__u32), and never for more than 10 ms. Errors: EINTR: a
 * signal came.
 */
enum rox_cq_methods {
	ROX_METHOD_CQ_WAIT = (1U << UVERBS_ID_NS_SHIFT),
};

enum rox_cq_wait_attrs {
	ROX_ATTR_CQ_WAIT_CQ = (1U << UVERBS_ID_NS_SHIFT),
	ROX_ATTR_CQ_WAIT_NS,
};

/**
 * struct rox_create_ah_resp - driver part of the CREATE_AH response
 * @ah: index by which WQEs name the address handle
 * @reserved: 0
 */
struct rox_create_ah_resp {
	__u32 ah;
	__u32 reserved;
};

/**
 * enum rox_cq_flags - bits of struct rox_create_cq_req.flags
 * @ROX_CQ_TIMESTAMP: completions have @timestamp and @wallclock
 */
enum rox_cq_flags {
	ROX_CQ_TIMESTAMP = 1U << 0,
};

/**
 * struct rox_create_cq_req - driver part of the CREATE_CQ request (may be absent)
 * @flags: enum rox_cq_flags; other bits are refused (EINVAL)
 * @reserved: 0
 */
struct rox_create_cq_req {
	__u32 flags;
	__u32 reserved;
};

/**
 * struct rox_create_cq_resp - driver part of the CREATE_CQ and RESIZE_CQ responses
 * @map: the mapping that contains the ring
 * @cq: location of the ring in it
 * @place: what @cq counts from
 */
struct rox_create_cq_resp {
	struct rox_mapping map;
	struct rox_ring_desc cq;
	struct rox_place place;
};

/**
 * struct rox_create_srq_req - driver part of the CREATE_SRQ request (may be absent)
 * @flags: no bit is defined; all are refused (EINVAL)
 * @reserved: 0
 */
struct rox_create_srq_req {
	__u32 flags;
	__u32 reserved;
};

/**
 * struct rox_create_srq_resp - driver part of the CREATE_SRQ response
 * @map: the mapping that contains the ring
 * @rq: location of the ring in it
 * @srq_num: XRC: as in the common part of the response, else 0
 * @reserved: 0
 * @place: what @rq counts from
 */
struct rox_create_srq_resp {
	struct rox_mapping map;
	struct rox_ring_desc rq;
	__u32 srq_num;
	__u32 reserved;
	struct rox_place place;
};

/**
 * struct rox_modify_srq_req - driver part of the MODIFY_SRQ request
 * @resp_addr: user address of a struct rox_create_srq_resp, which the kernel
 *	writes after a resize (MODIFY_SRQ has no response of its own)
 * @resp_len: size of the buffer at @resp_addr; 0 stands for a structure that
 *	ends with the reserved word after @srq_num
 * @reserved: 0
 */
struct rox_modify_srq_req {
	__aligned_u64 resp_addr;
	__u32 resp_len;
	__u32 reserved;
};

/**
 * struct rox_create_qp_req - driver part of the CREATE_QP request (may be absent)
 * @flags: no bit is defined; all are refused (EINVAL)
 * @reserved: 0
 */
struct rox_create_qp_req {
	__u32 flags;
	__u32 reserved;
};

/**
 * struct rox_create_qp_resp - driver part of the CREATE_QP response
 * @map: the mapping that contains the rings
 * @sq: location of the send queue in it
 * @rq: location of the receive queue in it
 * @place: what @sq and @rq count from
 */
struct rox_create_qp_resp {
	struct rox_mapping map;
	struct rox_ring_desc sq;
	struct rox_ring_desc rq;
	struct rox_place place;
};

#endif /* RDMA_USER_ROX_ABI_H */
