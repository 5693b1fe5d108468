/* SPDX-License-Identifier: Apache-2.0 */
/* ops.c - the table of instructions: vector.def, scalar.def, and those that take more than one
 * statement. Code that needs a missing row fails to load, and the message names the row. */
#include "machine.h"
#include <math.h>
#include <string.h>

// clang-format off
#define A(t) (x->a->t[l])
#define B(t) (x->b->t[l])
#define C(t) (x->c->t[l])
#define D(t) (x->d->t[l])
#define A_OF(t) (x->a->t[l][half])
#define B_OF(t) (x->b->t[l][half])
#define C_OF(t) (x->c->t[l][half])
#define D_OF(t) (x->d->t[l][half])
#define BIT (x->mask >> l & 1)
#define YES(is) (mask |= (uint64_t)((is) != 0) << l)
#define BELOW ((1ull << l) - 1)
#define LOW24(v) ((v) & 0xffffff)
#define SIGNED24(v) ((uint32_t)((int32_t)((v) << 8) >> 8))
#define LEAST(a, b) ((a) < (b) ? (a) : (b))
#define MOST(a, b) ((a) > (b) ? (a) : (b))
#define MIDDLE(a, b, c) MOST(LEAST(a, b), LEAST(MOST(a, b), c))

/* ---- each lane ------------------------------------------------------------------------ */
#define VECTOR(name, form, ...) \
	static void do_##name(struct work *x) \
	{ \
		uint64_t mask = 0; \
		for (int l = 0; l < LANES; l++) { \
			__VA_ARGS__; \
		} \
		x->mask = mask; \
	}
#define BOTH(statement) \
	for (int half = 0; half < 2; half++) { \
		statement; \
	}
#define CMP(name, type, form, is) VECTOR(v_cmp_##name##_##type, form, YES(is))
#define COMPARE(type, form, t) \
	CMP(lt, type, form, A(t) < B(t)) \
	CMP(eq, type, form, A(t) == B(t)) \
	CMP(le, type, form, A(t) <= B(t)) \
	CMP(gt, type, form, A(t) > B(t)) \
	CMP(ne, type, form, A(t) != B(t)) \
	CMP(ge, type, form, A(t) >= B(t))
#define COMPARE_FLOATS(type, form, t) \
	CMP(lt, type, form, A(t) < B(t)) \
	CMP(eq, type, form, A(t) == B(t)) \
	CMP(le, type, form, A(t) <= B(t)) \
	CMP(gt, type, form, A(t) > B(t)) \
	CMP(ge, type, form, A(t) >= B(t)) \
	CMP(lg, type, form, A(t) < B(t) || A(t) > B(t)) \
	CMP(o, type, form, A(t) == A(t) && B(t) == B(t)) \
	CMP(u, type, form, A(t) != A(t) || B(t) != B(t)) \
	CMP(nge, type, form, !(A(t) >= B(t))) \
	CMP(nlg, type, form, !(A(t) < B(t) || A(t) > B(t))) \
	CMP(ngt, type, form, !(A(t) > B(t))) \
	CMP(nle, type, form, !(A(t) <= B(t))) \
	CMP(neq, type, form, A(t) != B(t)) \
	CMP(nlt, type, form, !(A(t) < B(t)))
#include "vector.def"
#undef VECTOR
#undef A
#undef B
#undef D

/* ---- once a wave ---------------------------------------------------------------------- */
#define A(t) (x->a.t)
#define B(t) (x->b.t)
#define D(t) (x->d.t)
#define SCC (x->scc)
#define SCALAR(name, form, ...) \
	static void do_##name(struct scalar_work *x) \
	{ \
		__VA_ARGS__; \
	}
#define LOGIC(name, result) \
	SCALAR(name##_b32, "u=uu", const uint32_t a = A(u), b = B(u); D(u) = result; \
	       SCC = D(u) != 0) \
	SCALAR(name##_b64, "U=UU", const uint64_t a = A(U), b = B(U); D(U) = result; \
	       SCC = D(U) != 0)
#define SAVE_EXEC(name, result) \
	SCALAR(name, "U=U", const uint64_t a = A(U), exec = x->exec; D(U) = exec; \
	       x->exec = result; \
	       SCC = x->exec != 0)
#define CMP_BOTH(name, type, form, short_form, is) \
	SCALAR(s_cmp_##name##_##type, form, SCC = is) \
	SCALAR(s_cmpk_##name##_##type, short_form, SCC = is)
#define SCALAR_COMPARE(type, form, short_form, t) \
	CMP_BOTH(eq, type, form, short_form, A(t) == B(t)) \
	CMP_BOTH(lg, type, form, short_form, A(t) != B(t)) \
	CMP_BOTH(gt, type, form, short_form, A(t) > B(t)) \
	CMP_BOTH(ge, type, form, short_form, A(t) >= B(t)) \
	CMP_BOTH(lt, type, form, short_form, A(t) < B(t)) \
	CMP_BOTH(le, type, form, short_form, A(t) <= B(t))
#include "scalar.def"
#undef SCALAR

/* ---- the table ------------------------------------------------------------------------ */
#define VECTOR(name, form, ...) { #name, form, run_vector, do_##name, NULL, 0, 0 },
#define SCALAR(name, form, ...) { #name, form, run_scalar, NULL, do_##name, 0, 0 },
#define OTHER(name, run, bytes, how) { name, "", run, NULL, NULL, bytes, how },

#define LOADS(prefix, run, how) \
	OTHER(prefix "ubyte", run, 1, how) OTHER(prefix "sbyte", run, 1, (how) | IS_SIGNED) \
	OTHER(prefix "ushort", run, 2, how) OTHER(prefix "sshort", run, 2, (how) | IS_SIGNED) \
	OTHER(prefix "ubyte_d16", run, 1, (how) | IS_HALF) \
	OTHER(prefix "ubyte_d16_hi", run, 1, (how) | IS_HALF | IS_UPPER) \
	OTHER(prefix "short_d16", run, 2, (how) | IS_HALF) \
	OTHER(prefix "short_d16_hi", run, 2, (how) | IS_HALF | IS_UPPER) \
	OTHER(prefix "dword", run, 4, how) OTHER(prefix "dwordx2", run, 8, how) \
	OTHER(prefix "dwordx3", run, 12, how) OTHER(prefix "dwordx4", run, 16, how)
#define STORES(prefix, run, how) \
	OTHER(prefix "byte", run, 1, how) OTHER(prefix "short", run, 2, how) \
	OTHER(prefix "byte_d16_hi", run, 1, (how) | IS_UPPER) \
	OTHER(prefix "short_d16_hi", run, 2, (how) | IS_UPPER) \
	OTHER(prefix "dword", run, 4, how) OTHER(prefix "dwordx2", run, 8, how) \
	OTHER(prefix "dwordx3", run, 12, how) OTHER(prefix "dwordx4", run, 16, how)
#define MEMORY(name, how) \
	LOADS(name "_load_", run_global, how) STORES(name "_store_", run_global, (how) | IS_STORE)

#define GLOBAL_ATOMIC(name, how) \
	OTHER("global_atomic_" name, run_atomic, 4, how) \
	OTHER("global_atomic_" name "_x2", run_atomic, 8, how) \
	OTHER("flat_atomic_" name, run_atomic, 4, (how) | IS_FLAT) \
	OTHER("flat_atomic_" name "_x2", run_atomic, 8, (how) | IS_FLAT)
#define LDS_ATOMIC(name, type, how) \
	OTHER("ds_" name "_" type "32", run_atomic, 4, (how) | IS_LDS) \
	OTHER("ds_" name "_" type "64", run_atomic, 8, (how) | IS_LDS) \
	OTHER("ds_" name "_rtn_" type "32", run_atomic, 4, (how) | IS_LDS | RETURNS) \
	OTHER("ds_" name "_rtn_" type "64", run_atomic, 8, (how) | IS_LDS | RETURNS)
#define ATOMIC(global, lds, type, how) GLOBAL_ATOMIC(global, how) LDS_ATOMIC(lds, type, how)

#define PRODUCT(shape, side, each) \
	OTHER("v_mfma_f32_" shape "_f16", run_mfma, side, (each) << 8) \
	OTHER("v_mfma_f32_" shape "_bf16", run_mfma, side, (each) << 8 | IS_BF16)

static const struct op ops[] = {
#include "vector.def"
#include "scalar.def"
	OTHER("s_load_dword", run_scalar_load, 4, 0)
	OTHER("s_load_dwordx2", run_scalar_load, 8, 0)
	OTHER("s_load_dwordx4", run_scalar_load, 16, 0)
	OTHER("s_load_dwordx8", run_scalar_load, 32, 0)
	OTHER("s_load_dwordx16", run_scalar_load, 64, 0)
	MEMORY("global", 0) MEMORY("flat", IS_FLAT) MEMORY("scratch", IS_SCRATCH)
	MEMORY("buffer", IS_BUFFER)
	OTHER("global_load_lds_dword", run_global, 4, IS_TO_LDS)

	OTHER("ds_read_u8", run_lds, 1, 0) OTHER("ds_read_i8", run_lds, 1, IS_SIGNED)
	OTHER("ds_read_u16", run_lds, 2, 0) OTHER("ds_read_i16", run_lds, 2, IS_SIGNED)
	OTHER("ds_read_u8_d16", run_lds, 1, IS_HALF)
	OTHER("ds_read_u8_d16_hi", run_lds, 1, IS_HALF | IS_UPPER)
	OTHER("ds_read_u16_d16", run_lds, 2, IS_HALF)
	OTHER("ds_read_u16_d16_hi", run_lds, 2, IS_HALF | IS_UPPER)
	OTHER("ds_read_b32", run_lds, 4, 0) OTHER("ds_read_b64", run_lds, 8, 0)
	OTHER("ds_read_b96", run_lds, 12, 0) OTHER("ds_read_b128", run_lds, 16, 0)
	OTHER("ds_write_b8", run_lds, 1, IS_STORE)
	OTHER("ds_write_b8_d16_hi", run_lds, 1, IS_STORE | IS_UPPER)
	OTHER("ds_write_b16", run_lds, 2, IS_STORE)
	OTHER("ds_write_b16_d16_hi", run_lds, 2, IS_STORE | IS_UPPER)
	OTHER("ds_write_b32", run_lds, 4, IS_STORE) OTHER("ds_write_b64", run_lds, 8, IS_STORE)
	OTHER("ds_write_b96", run_lds, 12, IS_STORE) OTHER("ds_write_b128", run_lds, 16, IS_STORE)
	OTHER("ds_read2_b32", run_lds_pair, 4, 0) OTHER("ds_read2_b64", run_lds_pair, 8, 0)
	OTHER("ds_read2st64_b32", run_lds_pair, 4, BY_64)
	OTHER("ds_read2st64_b64", run_lds_pair, 8, BY_64)
	OTHER("ds_write2_b32", run_lds_pair, 4, IS_STORE)
	OTHER("ds_write2_b64", run_lds_pair, 8, IS_STORE)
	OTHER("ds_write2st64_b32", run_lds_pair, 4, IS_STORE | BY_64)
	OTHER("ds_write2st64_b64", run_lds_pair, 8, IS_STORE | BY_64)

	ATOMIC("add", "add", "u", ATOMIC_ADD) ATOMIC("sub", "sub", "u", ATOMIC_SUB)
	ATOMIC("smin", "min", "i", ATOMIC_SMIN) ATOMIC("smax", "max", "i", ATOMIC_SMAX)
	ATOMIC("umin", "min", "u", ATOMIC_UMIN) ATOMIC("umax", "max", "u", ATOMIC_UMAX)
	ATOMIC("and", "and", "b", ATOMIC_AND) ATOMIC("or", "or", "b", ATOMIC_OR)
	ATOMIC("xor", "xor", "b", ATOMIC_XOR) ATOMIC("inc", "inc", "u", ATOMIC_INC)
	ATOMIC("dec", "dec", "u", ATOMIC_DEC) ATOMIC("cmpswap", "cmpst", "b", ATOMIC_CMPSWAP)
	GLOBAL_ATOMIC("swap", ATOMIC_SWAP) LDS_ATOMIC("wrxchg", "b", ATOMIC_SWAP)
	OTHER("global_atomic_add_f32", run_atomic, 4, ATOMIC_FADD)
	OTHER("ds_add_f32", run_atomic, 4, ATOMIC_FADD | IS_LDS)

	OTHER("ds_bpermute_b32", run_bpermute, 4, 0) OTHER("ds_permute_b32", run_permute, 4, 0)
	OTHER("ds_swizzle_b32", run_swizzle, 4, 0)
	OTHER("v_readlane_b32", run_readlane, 4, 0) OTHER("v_writelane_b32", run_writelane, 4, 0)
	OTHER("v_swap_b32", run_swap, 4, 0)
	PRODUCT("16x16x16", 16, 4) PRODUCT("32x32x8", 32, 4)
	/* gfx90a's names */
	OTHER("v_mfma_f32_16x16x16f16", run_mfma, 16, 4 << 8)
	OTHER("v_mfma_f32_32x32x8f16", run_mfma, 32, 4 << 8)
	OTHER("v_mfma_f32_16x16x16bf16_1k", run_mfma, 16, 4 << 8 | IS_BF16)
	OTHER("v_mfma_f32_32x32x8bf16_1k", run_mfma, 32, 4 << 8 | IS_BF16)

	OTHER("s_branch", run_branch, 0, ALWAYS)
	OTHER("s_cbranch_scc0", run_branch, 0, IF_SCC0)
	OTHER("s_cbranch_scc1", run_branch, 0, IF_SCC1)
	OTHER("s_cbranch_vccz", run_branch, 0, IF_VCCZ)
	OTHER("s_cbranch_vccnz", run_branch, 0, IF_VCCNZ)
	OTHER("s_cbranch_execz", run_branch, 0, IF_EXECZ)
	OTHER("s_cbranch_execnz", run_branch, 0, IF_EXECNZ)
	OTHER("s_endpgm", run_end, 0, 0) OTHER("s_barrier", run_barrier, 0, 0)
	OTHER("s_sleep", run_yield, 0, 0) OTHER("s_trap", run_trap, 0, 0)
	OTHER("s_getreg_b32", run_getreg, 0, 0)
	OTHER("s_memtime", run_time, 0, 0) OTHER("s_memrealtime", run_time, 0, 0)
	OTHER("s_getpc_b64", run_getpc, 0, 0)
	/* order and time, which are not modelled */
	OTHER("s_waitcnt", run_nothing, 0, 0) OTHER("s_nop", run_nothing, 0, 0)
	OTHER("s_setprio", run_nothing, 0, 0) OTHER("s_inst_prefetch", run_nothing, 0, 0)
	OTHER("s_sethalt", run_nothing, 0, 0) OTHER("s_code_end", run_nothing, 0, 0)
	OTHER("s_dcache_wb", run_nothing, 0, 0) OTHER("s_dcache_inv", run_nothing, 0, 0)
	OTHER("s_icache_inv", run_nothing, 0, 0) OTHER("buffer_wbl2", run_nothing, 0, 0)
	OTHER("buffer_wbinvl1_vol", run_nothing, 0, 0) OTHER("buffer_invl2", run_nothing, 0, 0)
	OTHER("buffer_inv", run_nothing, 0, 0) OTHER("v_nop", run_nothing, 0, 0)
};
	       // clang-format on

	       const struct op *find_op(const char *name, size_t length)
	       {
		       for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
			       if (!strncmp(ops[i].name, name, length) && !ops[i].name[length])
				       return &ops[i];
		       return NULL;
	       }
