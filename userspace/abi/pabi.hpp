/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * The private provider interface of the libibverbs that we build for. The
 * makefile finds its generation and defines ROX_PABI.
 */
#ifndef ROX_ABI_PABI_HPP
#define ROX_ABI_PABI_HPP

#ifndef ROX_PABI
#error "ROX_PABI is not defined: build with userspace/Makefile"
#elif ROX_PABI == 34
#include "abi/pabi34.hpp" // IWYU pragma: export
#else
#error "This generation of libibverbs' private interface is not declared in userspace/abi"
#endif

#endif // ROX_ABI_PABI_HPP
