/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR BSD-2-Clause */
/*
 * What the rox kernel module and its user-space provider share: the rings that
 * both map, the entries in them, and the driver's part of create responses.
 *
 * Every structure has the same layout for 32-bit and 64-bit programs. All
 * values are in host byte order unless their type says otherwise.
 */
#ifndef RDMA_USER_ROX_ABI_H
#define RDMA_USER_ROX_ABI_H

#include <linux/types.h>

#define ROX_ABI_VERSION 1

/*
 * driver_id of rox in RDMA_NLDEV / ib_uverbs_ioctl_hdr. No driver of the kernel
 * uses it; the provider recognises the device by it.
 */
#define ROX_DRIVER_ID 0x726f78

/* Bytes that producer, consumer and flags are apart, so that they do not share a cache line. */
#define ROX_CACHE_LINE 64

/**
 * struct rox_ring_ctrl - the shared indices of one ring
 * @producer: number of entries ever added, modulo 2^32; written by the side
 *            that adds entries, with release semantics
 * @consumer: number of entries ever taken, modulo 2^32; written by the side
 *            that takes entries, with release semantics
 * @flags: enum rox_ring_flags
 *
 * Entry i of the ring is at (i & (entries - 1)) * stride. The ring is empty
 * when @producer == @consumer and full when @producer - @consumer == entries.
 * For SQ, RQ and SRQ the program produces and the kernel consumes; for a CQ it
 * is the other way round. An index that the peer cannot have written (more
 * entries than the ring has) is treated as an error of the ring's owner.
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
 * @ROX_RING_NEED_WAKEUP: SQ and RQ, written by the kernel only. The consumer
 *	sleeps: after publishing entries the program must ring the doorbell.
 *	The program stores @producer, issues a full barrier, then loads flags.
 *	The doorbell is the uverbs command POST_SEND (for an SQ) or POST_RECV
 *	(for an RQ) with no work requests.
 * @ROX_RING_ARM_SOLICITED: CQ, set by the program with an atomic OR, cleared
 *	by the kernel with an atomic exchange when it raises the event. Asks for
 *	an event at the next solicited or unsuccessful completion.
 * @ROX_RING_ARM_NEXT: as above, at the next completion of any kind.
 * @ROX_RING_ERROR: CQ, written by the kernel: the CQ has overflowed or its
 *	indices were corrupted; no further entry will be added.
 *
 * A program that arms a CQ issues a full barrier after it and polls once more.
 */
enum rox_ring_flags {
	ROX_RING_NEED_WAKEUP	= 1U << 0,
	ROX_RING_ARM_SOLICITED	= 1U << 1,
	ROX_RING_ARM_NEXT	= 1U << 2,
	ROX_RING_ERROR		= 1U << 3,
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
 * struct rox_bind - what a memory window is bound to
 * @addr: first address, as work requests name it in the memory region
 * @length: bytes; 0 unbinds a window of type 1
 * @mr_lkey: the memory region; not looked at if @length is 0
 * @mw_rkey: the window, by any key that it has had
 * @new_rkey: its key from now on; only the lower 8 bits may differ
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
 * @wr_id: given back in the completion
 * @opcode: enum ib_uverbs_wr_opcode
 * @send_flags: enum ibv_send_flags (IB_UVERBS_SEND_*)
 * @num_sge: elements in the SGE list that follows; 0 if @send_flags has INLINE
 * @inline_len: bytes of payload that follow if @send_flags has INLINE
 * @xrc_srqn: XRC: number of the peer's SRQ, for every opcode
 * @ex: immediate data (big endian, as given) or rkey to invalidate (host order)
 * @rdma: READ, WRITE, ATOMIC and ATOMIC_WRITE work requests. @rdma.compare_add and
 *	@rdma.swap as in ibv_send_wr.wr.atomic
 * @ud: UD work requests. @ud.ah is the index that create_ah returned. @ud.pkey_index
 *	is for the GSI QP only (kernel use): other QPs send with their own P_Key
 *
 * Followed by @num_sge struct rox_sge, or by @inline_len bytes.
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
 * @wr_id: given back in the completion
 * @num_sge: elements in the SGE list that follows
 * @reserved: 0
 */
struct rox_recv_wqe {
	__aligned_u64 wr_id;
	__u32 num_sge;
	__u32 reserved;
};

/**
 * enum rox_packet_type - what the receive completions of a program's UD QP have as service level
 * @ROX_PACKET_IPV6: the GRH is an IPv6 header
 * @ROX_PACKET_IPV4: the GRH is 20 bytes of 0 and an IPv4 header
 * @ROX_PACKET_UDP: a flag: RoCE v2
 *
 * RoCE v2 has no service level on the wire. NICs tell the kind of packet in its
 * place (those of NVIDIA do), and programs tell the GRH's form by it (UCX does).
 */
enum rox_packet_type {
	ROX_PACKET_IPV6 = 1,
	ROX_PACKET_IPV4 = 2,
	ROX_PACKET_UDP = 8,
};

/**
 * struct rox_cqe - an entry of a completion queue, 64 bytes
 * @wr_id: of the work request
 * @timestamp: CLOCK_MONOTONIC raw hardware clock in ns, if the CQ was created with
 *	ROX_CQ_TIMESTAMP, else 0
 * @wallclock: CLOCK_REALTIME in ns, if the CQ was created with ROX_CQ_TIMESTAMP, else 0
 * @status: enum ib_wc_status (the same values as enum ibv_wc_status)
 * @opcode: enum ibv_wc_opcode
 * @byte_len: bytes received (with the 40 bytes of GRH for UD), read or atomically fetched
 * @ex: immediate data (big endian) or the invalidated rkey
 * @qp_num: number of the local QP
 * @src_qp: receive completions of UD: number of the sender's QP
 * @sq_consumer: send completions: the SQ's consumer index behind the completed
 *	WQE. Its place in the ring, and those of unsignalled WQEs before it, are
 *	outstanding until the program has polled this
 * @wc_flags: enum ibv_wc_flags
 * @vendor_err: 0, or details of an error
 * @pkey_index: receive completions of UD and GSI: the entry of the P_Key table that let
 *	the packet in
 * @sl: service level; receive completions of UD: enum rox_packet_type
 * @network_hdr_type: UD and GSI: enum rdma_network_type of the packet (kernel use)
 * @vlan_id: GSI: VLAN of the netdev that got the packet, 0 if none (kernel use)
 * @reserved: 0
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
	__u16 reserved;
};

/**
 * struct rox_ring_desc - where a ring lies in its mapping
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
 * struct rox_alloc_ucontext_resp - driver part of the GET_CONTEXT response
 * @abi_version: ROX_ABI_VERSION
 * @max_inline: the largest inline payload of a QP, in bytes
 */
struct rox_alloc_ucontext_resp {
	__u32 abi_version;
	__u32 max_inline;
};

/** struct rox_create_ah_resp - driver part of the CREATE_AH response */
struct rox_create_ah_resp {
	__u32 ah;
	__u32 reserved;
};

enum rox_cq_flags {
	ROX_CQ_TIMESTAMP = 1U << 0,
};

/**
 * struct rox_create_cq_req - driver part of the CREATE_CQ request (may be absent)
 * @flags: enum rox_cq_flags
 */
struct rox_create_cq_req {
	__u32 flags;
	__u32 reserved;
};

/** struct rox_create_cq_resp - driver part of the CREATE_CQ and RESIZE_CQ responses */
struct rox_create_cq_resp {
	struct rox_mapping map;
	struct rox_ring_desc cq;
};

/**
 * struct rox_create_srq_resp - driver part of the CREATE_SRQ response
 * @map: where the ring is to be had
 * @rq: where it lies there
 * @srq_num: XRC: as in the common part of the response, else 0
 * @reserved: 0
 */
struct rox_create_srq_resp {
	struct rox_mapping map;
	struct rox_ring_desc rq;
	__u32 srq_num;
	__u32 reserved;
};

/**
 * struct rox_modify_srq_req - driver part of the MODIFY_SRQ request
 * @resp_addr: user address of a struct rox_create_srq_resp; filled when the
 *	SRQ was resized (MODIFY_SRQ has no response of its own)
 */
struct rox_modify_srq_req {
	__aligned_u64 resp_addr;
};

/** struct rox_create_qp_resp - driver part of the CREATE_QP response */
struct rox_create_qp_resp {
	struct rox_mapping map;
	struct rox_ring_desc sq;
	struct rox_ring_desc rq;
};

#endif /* RDMA_USER_ROX_ABI_H */
