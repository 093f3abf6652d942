/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Objects without rings: protection, thread, parent and XRC domains, memory regions,
 * address handles.
 */
#include "message.hpp"
#include "objects.hpp"
#include "verbs.hpp"

#include <cerrno>
#include <cstring>

namespace rox {
namespace {

/*
 * ibv_init_ah_from_wc() takes the first entry of the GID table that has the packet's destination
 * address. If several VLANs or other netdevs have it, the completion has the index of the right one
 * in dlid_path_bits, which RoCE has no other use for and which comes here as src_path_bits.
 */
uint8_t sgid_index_of(ibv_context *context, const ibv_ah_attr &attr)
{
    ibv_gid chosen = {};
    ibv_gid meant = {};

    if (attr.is_global == 0 || attr.src_path_bits == 0 ||
        ibv_query_gid(context, attr.port_num, attr.grh.sgid_index, &chosen) != 0 ||
        ibv_query_gid(context, attr.port_num, attr.src_path_bits, &meant) != 0 ||
        std::memcmp(&chosen, &meant, sizeof(chosen)) != 0) {
        return attr.grh.sgid_index;
    }
    return attr.src_path_bits;
}

/* Sets errno, for functions that return a pointer. */
std::nullptr_t failed(int error)
{
    errno = error;
    return nullptr;
}

} // namespace

ibv_pd *alloc_pd(ibv_context *context)
{
    std::unique_ptr<Pd> pd = make_object<Pd>();
    rdmacore::alloc_pd_cmd cmd = {};
    ib_uverbs_alloc_pd_resp resp = {};

    if (!pd) {
        return nullptr;
    }
    if (const int error = rdmacore::ibv_cmd_alloc_pd(context, &pd->pd, &cmd, sizeof(cmd), &resp,
                                                     sizeof(resp));
        error != 0) {
        return failed(error);
    }
    return &pd.release()->pd;
}

int dealloc_pd(ibv_pd *ibpd)
{
    Pd *pd = Pd::of(ibpd);

    if (pd->users != 0) {
        return EBUSY;
    }
    if (pd->parent_of != nullptr) {
        pd->parent_of->users--;
        if (pd->td != nullptr) {
            pd->td->users--;
        }
    } else if (const int error = rdmacore::ibv_cmd_dealloc_pd(ibpd); error != 0) {
        return error;
    }
    delete pd;
    return 0;
}

ibv_xrcd *open_xrcd(ibv_context *context, ibv_xrcd_init_attr *attr)
{
    std::unique_ptr<Xrcd> xrcd = make_object<Xrcd>();
    rdmacore::open_xrcd_cmd cmd = {};
    ib_uverbs_open_xrcd_resp resp = {};

    if (!xrcd) {
        return nullptr;
    }
    if (const int error = rdmacore::ibv_cmd_open_xrcd(context, &xrcd->vxrcd, sizeof(xrcd->vxrcd),
                                                      attr, &cmd, sizeof(cmd), &resp, sizeof(resp));
        error != 0) {
        return failed(error);
    }
    return &xrcd.release()->vxrcd.xrcd;
}

int close_xrcd(ibv_xrcd *ibxrcd)
{
    Xrcd *xrcd = object_of<Xrcd>(ibxrcd);

    if (const int error = rdmacore::ibv_cmd_close_xrcd(&xrcd->vxrcd); error != 0) {
        return error;
    }
    delete xrcd;
    return 0;
}

ibv_td *alloc_td(ibv_context *context, ibv_td_init_attr *attr)
{
    if (attr->comp_mask != 0) {
        return failed(EOPNOTSUPP);
    }
    std::unique_ptr<Td> td = make_object<Td>();

    if (!td) {
        return nullptr;
    }
    td->td.context = context;
    return &td.release()->td;
}

int dealloc_td(ibv_td *ibtd)
{
    Td *td = object_of<Td>(ibtd);

    if (td->users != 0) {
        return EBUSY;
    }
    delete td;
    return 0;
}

/*
 * The kernel knows only the protection domain. Allocators are accepted but not
 * called: the kernel allocates the rings.
 */
ibv_pd *alloc_parent_domain(ibv_context *context, ibv_parent_domain_init_attr *attr)
{
    constexpr uint32_t supported = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
                                   IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;

    if (attr->pd == nullptr) {
        return failed(EINVAL);
    }
    if ((attr->comp_mask & ~supported) != 0) {
        return failed(EOPNOTSUPP);
    }
    std::unique_ptr<Pd> parent = make_object<Pd>();

    if (!parent) {
        return nullptr;
    }
    parent->parent_of = Pd::of(attr->pd);
    parent->parent_of->users++;
    parent->pd.context = context;
    parent->pd.handle = attr->pd->handle;
    if (attr->td != nullptr) {
        parent->td = object_of<Td>(attr->td);
        parent->td->users++;
    }
    return &parent.release()->pd;
}

ibv_mr *reg_mr(ibv_pd *pd, void *addr, size_t length, uint64_t hca_va, int access)
{
    std::unique_ptr<Mr> mr = make_object<Mr>();
    rdmacore::reg_mr_cmd cmd = {};
    ib_uverbs_reg_mr_resp resp = {};

    if (!mr) {
        return nullptr;
    }
    if (const int error = rdmacore::ibv_cmd_reg_mr(pd, addr, length, hca_va, access, &mr->vmr, &cmd,
                                                   sizeof(cmd), &resp, sizeof(resp));
        error != 0) {
        return failed(error);
    }
    return &mr.release()->vmr.mr;
}

/* libibverbs has checked the flags. It updates address, length and PD of the MR itself. */
int rereg_mr(rdmacore::verbs_mr *vmr, int flags, ibv_pd *pd, void *addr, size_t length, int access)
{
    rdmacore::rereg_mr_cmd cmd = {};
    ib_uverbs_rereg_mr_resp resp = {};

    if ((flags & IBV_REREG_MR_CHANGE_PD) != 0 && pd == nullptr) {
        return EINVAL;
    }
    if (const int error = rdmacore::ibv_cmd_rereg_mr(
            vmr, static_cast<uint32_t>(flags), addr, length, reinterpret_cast<uintptr_t>(addr),
            access, pd, &cmd, sizeof(cmd), &resp, sizeof(resp));
        error != 0) {
        return error;
    }
    if ((flags & IBV_REREG_MR_CHANGE_ACCESS) != 0) {
        vmr->access = access;
    }
    return 0;
}

ibv_mr *reg_dmabuf_mr(ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
    std::unique_ptr<Mr> mr = make_object<Mr>();

    if (!mr) {
        return nullptr;
    }
    if (const int error = rdmacore::ibv_cmd_reg_dmabuf_mr(pd, offset, length, iova, fd, access,
                                                          &mr->vmr, nullptr);
        error != 0) {
        return failed(error);
    }
    return &mr.release()->vmr.mr;
}

int dereg_mr(rdmacore::verbs_mr *vmr)
{
    if (const int error = rdmacore::ibv_cmd_dereg_mr(vmr); error != 0) {
        return error;
    }
    delete object_of<Mr>(vmr);
    return 0;
}

ibv_ah *create_ah(ibv_pd *pd, ibv_ah_attr *attr)
{
    std::unique_ptr<Ah> ah = make_object<Ah>();
    Message<ib_uverbs_create_ah_resp, rox_create_ah_resp> resp;
    ibv_ah_attr meant = *attr;

    if (!ah) {
        return nullptr;
    }
    meant.grh.sgid_index = sgid_index_of(pd->context, *attr);
    if (const int error = rdmacore::ibv_cmd_create_ah(pd, &ah->ah, &meant, resp.core(),
                                                      resp.size());
        error != 0) {
        return failed(error);
    }
    ah->index = resp.driver.ah;
    return &ah.release()->ah;
}

int destroy_ah(ibv_ah *ah)
{
    if (const int error = rdmacore::ibv_cmd_destroy_ah(ah); error != 0) {
        return error;
    }
    delete object_of<Ah>(ah);
    return 0;
}

} // namespace rox
