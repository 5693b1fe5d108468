/* SPDX-License-Identifier: Apache-2.0 */
/* words.cu - compiles dialect.cu as a kernel; it traps at a wrong answer. */
#define simt_die(...)  __builtin_trap()
#define simt_dynamic() ((void *)simt_lds)
extern "C" __attribute__((shared)) char simt_lds[];
#include "../dialect/dialect.cu"
