/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoints of rox: doorbell, post, packet out, packet in, completion, its CQ, retry, congestion.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM rox

#if !defined(ROX_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define ROX_TRACE_H

#include <linux/tracepoint.h>
#include <rdma/rox-abi.h>

TRACE_EVENT(rox_doorbell,
	TP_PROTO(u32 qpn),
	TP_ARGS(qpn),
	TP_STRUCT__entry(
		__field(u32, qpn)
	),
	TP_fast_assign(
		__entry->qpn = qpn;
	),
	TP_printk("qpn=%u", __entry->qpn)
);

TRACE_EVENT(rox_post_send,
	TP_PROTO(u32 qpn, u64 wr_id, u32 opcode, u32 length, u32 psn),
	TP_ARGS(qpn, wr_id, opcode, length, psn),
	TP_STRUCT__entry(
		__field(u64, wr_id)
		__field(u32, qpn)
		__field(u32, opcode)
		__field(u32, length)
		__field(u32, psn)
	),
	TP_fast_assign(
		__entry->wr_id = wr_id;
		__entry->qpn = qpn;
		__entry->opcode = opcode;
		__entry->length = length;
		__entry->psn = psn;
	),
	TP_printk("qpn=%u wr_id=%llu opcode=%u length=%u psn=%u", __entry->qpn,
		  __entry->wr_id, __entry->opcode, __entry->length, __entry->psn)
);

DECLARE_EVENT_CLASS(rox_packet,
	TP_PROTO(u32 qpn, u32 dqpn, u8 opcode, u32 psn, u32 npkts, u32 len),
	TP_ARGS(qpn, dqpn, opcode, psn, npkts, len),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(u32, dqpn)
		__field(u32, psn)
		__field(u32, npkts)
		__field(u32, len)
		__field(u8, opcode)
	),
	TP_fast_assign(
		__entry->qpn = qpn;
		__entry->dqpn = dqpn;
		__entry->psn = psn;
		__entry->npkts = npkts;
		__entry->len = len;
		__entry->opcode = opcode;
	),
	TP_printk("qpn=%u dqpn=%u opcode=0x%02x psn=%u packets=%u payload=%u", __entry->qpn,
		  __entry->dqpn, __entry->opcode, __entry->psn, __entry->npkts, __entry->len)
);

DEFINE_EVENT(rox_packet, rox_packet_out,
	TP_PROTO(u32 qpn, u32 dqpn, u8 opcode, u32 psn, u32 npkts, u32 len),
	TP_ARGS(qpn, dqpn, opcode, psn, npkts, len));

DEFINE_EVENT(rox_packet, rox_packet_in,
	TP_PROTO(u32 qpn, u32 dqpn, u8 opcode, u32 psn, u32 npkts, u32 len),
	TP_ARGS(qpn, dqpn, opcode, psn, npkts, len));

TRACE_EVENT(rox_completion,
	TP_PROTO(u32 qpn, u64 wr_id, u32 opcode, u32 status, u32 byte_len),
	TP_ARGS(qpn, wr_id, opcode, status, byte_len),
	TP_STRUCT__entry(
		__field(u64, wr_id)
		__field(u32, qpn)
		__field(u32, opcode)
		__field(u32, status)
		__field(u32, byte_len)
	),
	TP_fast_assign(
		__entry->wr_id = wr_id;
		__entry->qpn = qpn;
		__entry->opcode = opcode;
		__entry->status = status;
		__entry->byte_len = byte_len;
	),
	TP_printk("qpn=%u wr_id=%llu opcode=%u status=%u byte_len=%u", __entry->qpn,
		  __entry->wr_id, __entry->opcode, __entry->status, __entry->byte_len)
);

TRACE_EVENT(rox_cq,
	TP_PROTO(u32 cqn, u32 depth, u32 entries, bool event),
	TP_ARGS(cqn, depth, entries, event),
	TP_STRUCT__entry(
		__field(u32, cqn)
		__field(u32, depth)
		__field(u32, entries)
		__field(bool, event)
	),
	TP_fast_assign(
		__entry->cqn = cqn;
		__entry->depth = depth;
		__entry->entries = entries;
		__entry->event = event;
	),
	TP_printk("cqn=%u depth=%u of %u%s", __entry->cqn, __entry->depth, __entry->entries,
		  __entry->event ? " event" : "")
);

TRACE_EVENT(rox_retry,
	TP_PROTO(u32 qpn, u32 psn, u32 kind, u32 left),
	TP_ARGS(qpn, psn, kind, left),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(u32, psn)
		__field(u32, kind)
		__field(u32, left)
	),
	TP_fast_assign(
		__entry->qpn = qpn;
		__entry->psn = psn;
		__entry->kind = kind;
		__entry->left = left;
	),
	TP_printk("qpn=%u from psn=%u cause=%s retries left=%u", __entry->qpn, __entry->psn,
		  __print_symbolic(__entry->kind, { 0, "timeout" }, { 1, "sequence NAK" },
				   { 2, "RNR NAK" }, { 3, "implied NAK" },
				   { 4, "missing response" }),
		  __entry->left)
);

TRACE_EVENT(rox_congestion,
	TP_PROTO(u32 qpn, u32 event, u64 rate, u32 window, u64 round_trip),
	TP_ARGS(qpn, event, rate, window, round_trip),
	TP_STRUCT__entry(
		__field(u64, rate)
		__field(u64, round_trip)
		__field(u32, qpn)
		__field(u32, event)
		__field(u32, window)
	),
	TP_fast_assign(
		__entry->rate = rate;
		__entry->round_trip = round_trip;
		__entry->qpn = qpn;
		__entry->event = event;
		__entry->window = window;
	),
	TP_printk("qpn=%u event=%s rate=%llu window=%u round_trip=%llu", __entry->qpn,
		  __print_symbolic(__entry->event, { 0, "ACK" }, { 1, "CNP" }, { 2, "loss" },
				   { 3, "timeout" }),
		  __entry->rate, __entry->window, __entry->round_trip)
);

#endif /* ROX_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
