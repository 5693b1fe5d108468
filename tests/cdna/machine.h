/* SPDX-License-Identifier: Apache-2.0 */
/* machine.h - between the files that execute code objects:
 *
 *   object.c    the ELF file: its segments, and what a kernel's descriptor says
 *   text.c      the disassembler's text, read once into instructions
 *   ops.c       rows of instructions; vector.def and scalar.def are most of them
 *   operands.c  registers and constants to values of 64 lanes, and back
 *   numbers.c   arithmetic that C does not have
 *   memory.c    device memory, LDS and scratch memory, with bounds
 *   lanes.c     from lane to lane, and matrices
 *   mistakes.c  other code than the compiler made
 *   wave.c      whose turn it is; branches and barriers
 *
 * One launch at a time, in one OS thread. */
#ifndef TESTS_CDNA_MACHINE_H
#define TESTS_CDNA_MACHINE_H

#include "tests/simt/simt.h"
#include "cdna.h"
#include <setjmp.h>
#include <stdint.h>
#include <time.h>

enum {
	LANES = 64,
	AGPR = 256, /* the first of them among vector registers */
	VECTORS = 512,
	MAX_WAVES = 16,
	MAX_OPERANDS = 6,
	MAX_LDS = 160 << 10,
	/* places among the scalar registers, as the encoding has them */
	VCC = 106,
	M0 = 124,
	EXEC = 126,
	SCALARS = 128,
	SHARED_BASE = 235,
	PRIVATE_BASE = 237,
	CONDITION = 253
};

/* A value in each lane, of 4 or of 8 bytes. */
union lanes {
	uint32_t u[LANES];
	int32_t i[LANES];
	float f[LANES];
	uint64_t U[LANES];
	int64_t I[LANES];
	double F[LANES];
	float p[LANES][2];
	uint16_t q[LANES][2];
};
union scalar {
	uint32_t u;
	int32_t i;
	uint64_t U;
	int64_t I;
};

/* Addresses of LDS and scratch memory among all others: never the host's. */
#define SHARED_WINDOW 0xfff1000000000000ull
#define PRIVATE_WINDOW 0xfff2000000000000ull

enum place { NOWHERE, VECTOR_REGISTER, SCALAR_REGISTER, NUMBER };
struct operand {
	unsigned char place, negated, absolute, sext;
	int reg, count; /* the first register, how many */
	int is_real;
	uint64_t number;
	double real; /* "1.0": its bits depend on the operand's type */
};

/* Modifiers after the operands; 0 where the text has none, except op_sel_hi. */
struct modifiers {
	int offset[2];
	int dpp; /* the control and 1 << 16; 0: none */
	int row_mask, bank_mask, zero_beyond;
	unsigned sel, sel_hi, neg_lo, neg_hi; /* sets of operands */
	int has_sel_hi;
	int source_part[2], result_part, keeps; /* SDWA; parts: 0 the whole, else enum part */
	int clamp, doubled;                     /* doubled: powers of two */
	int returns, by_lane, by_index, to_lds; /* sc0, offen, idxen, lds */
	int table;                              /* of bitop3 */
	int other;                              /* cbsz and the like are not 0 */
};
enum part { WHOLE, BYTE_0, BYTE_1, BYTE_2, BYTE_3, WORD_0, WORD_1 };
enum { PAD, SEXT, PRESERVE };

struct wave;
struct instruction;

/* What a row's statement works on. */
struct work {
	union lanes *d;
	const union lanes *a, *b, *c;
	uint64_t mask; /* in: the last mask operand; out: the resulting one */
	int table;     /* bitop3 */
};
struct scalar_work {
	union scalar d, a, b;
	uint64_t exec;
	int scc;
};

struct op {
	const char *name;
	const char *form; /* of a row of the .def files */
	void (*run)(struct wave *, const struct instruction *);
	void (*lanes)(struct work *);
	void (*scalar)(struct scalar_work *);
	int bytes, how; /* of an access to memory, or of a matrix product */
};

/* An access: a set of these. */
enum {
	IS_STORE = 1 << 0,
	IS_SIGNED = 1 << 1,
	IS_HALF = 1 << 2, /* of a register, the other half of which is kept */
	IS_UPPER = 1 << 3,
	IS_FLAT = 1 << 4,
	IS_SCRATCH = 1 << 5,
	IS_BUFFER = 1 << 6,
	BY_64 = 1 << 7,
	IS_LDS = 1 << 8,
	RETURNS = 1 << 9,
	IS_TO_LDS = 1 << 10
};
/* An atomic access: these sets and one of */
enum {
	ATOMIC_MASK = 15,
	ATOMIC_ADD = 0,
	ATOMIC_SUB,
	ATOMIC_SMIN,
	ATOMIC_SMAX,
	ATOMIC_UMIN,
	ATOMIC_UMAX,
	ATOMIC_AND,
	ATOMIC_OR,
	ATOMIC_XOR,
	ATOMIC_INC,
	ATOMIC_DEC,
	ATOMIC_SWAP,
	ATOMIC_CMPSWAP,
	ATOMIC_FADD
};
/* A product: its type, and above 8 bits how many values a lane has of an operand. */
enum { IS_BF16 = 1 };

struct instruction {
	const struct op *op;
	const char *text; /* to the end of the line */
	uint32_t at, next;
	int num_operands, target; /* target: of a branch, an instruction */
	struct operand o[MAX_OPERANDS];
	struct modifiers m;
};

struct cdna_code {
	char *memory; /* segments, as the loader lays them */
	size_t size;
	char *listing;
	struct instruction *v;
	int n, first;
	uint32_t lds, scratch, kernarg, rsrc2, properties;
};

struct wave {
	uint32_t v[VECTORS][LANES];
	uint32_t s[SCALARS];
	int scc, pc, at_barrier, ended, must_yield;
	unsigned unit; /* the CU that it pretends to be on */
	struct block *block;
	char *scratch; /* of each lane in turn */
};

struct block {
	struct wave wave[MAX_WAVES];
	int num_waves, is_out; /* is_out: no more blocks begin here */
	unsigned turn;
	uint32_t lds_bytes;
	char lds[MAX_LDS];
};

struct launch {
	const struct cdna_code *code;
	const struct cdna_machine *machine;
	char *kernarg;
	size_t kernarg_bytes;
	uint64_t steps;
	clock_t begun;
	unsigned random; /* 0: turns in order */
	/* the allocation of the last access */
	uintptr_t begin, end;
	jmp_buf dead;
	char *error;
	size_t size;
};
extern struct launch cdna_now;

static inline uint64_t pair(const struct wave *w, int reg)
{
	return (uint64_t)w->s[reg + 1] << 32 | w->s[reg];
}
static inline void set_pair(struct wave *w, int reg, uint64_t value)
{
	w->s[reg] = (uint32_t)value;
	w->s[reg + 1] = (uint32_t)(value >> 32);
}
static inline uint64_t exec_of(const struct wave *w)
{
	return pair(w, EXEC);
}

/* The launch ends here with this text and the instruction. */
__attribute__((noreturn, format(printf, 2, 3))) void die(const struct instruction *,
							 const char *format, ...);

/* ---- text.c, ops.c -------------------------------------------------------------------- */
/* NULL, else the message about what cannot be read, in `room`. */
const char *read_listing(struct cdna_code *, char *room, size_t size);
const struct op *find_op(const char *name, size_t length);

/* ---- mistakes.c ----------------------------------------------------------------------- */
void make_mistakes(struct cdna_code *);

/* ---- operands.c ----------------------------------------------------------------------- */
void run_vector(struct wave *, const struct instruction *);
void run_scalar(struct wave *, const struct instruction *);
uint64_t scalar_value(const struct wave *, const struct instruction *, const struct operand *,
		      char type);
/* Operand i as values of that letter; in `room`, or in place. */
const union lanes *fetch(const struct wave *, const struct instruction *, int i, char type,
			 union lanes *room);
void store32(struct wave *, const struct operand *, int word, const uint32_t *values,
	     uint64_t lanes);

/* ---- numbers.c ------------------------------------------------------------------------ */
uint32_t field(uint32_t value, uint32_t at, uint32_t bits);
uint32_t signed_field(uint32_t value, uint32_t at, uint32_t bits);
uint32_t reversed(uint32_t);
uint32_t looked_up(uint32_t a, uint32_t b, uint32_t c, int table);
uint32_t permuted(uint64_t bytes, uint32_t which);
uint16_t half_to_zero(float);
float normal(float); /* 0 where it is denormal */
float div_scale(float value, float below, float above, int *scaled);
float div_fmas(float a, float b, float c, int scaled);
float div_fixup(float quotient, float below, float above);
uint32_t class_of(float);

/* ---- memory.c ------------------------------------------------------------------------- */
void run_scalar_load(struct wave *, const struct instruction *);
void run_global(struct wave *, const struct instruction *);
void run_lds(struct wave *, const struct instruction *);
void run_lds_pair(struct wave *, const struct instruction *);
void run_atomic(struct wave *, const struct instruction *);

/* ---- lanes.c -------------------------------------------------------------------------- */
void run_readlane(struct wave *, const struct instruction *);
void run_writelane(struct wave *, const struct instruction *);
void run_swap(struct wave *, const struct instruction *);
void run_bpermute(struct wave *, const struct instruction *);
void run_permute(struct wave *, const struct instruction *);
void run_swizzle(struct wave *, const struct instruction *);
void run_mfma(struct wave *, const struct instruction *);
/* By DPP: the lane that this one reads; -1: none. */
int dpp_lane(const struct instruction *, int lane);

/* ---- wave.c --------------------------------------------------------------------------- */
enum { ALWAYS, IF_SCC0, IF_SCC1, IF_VCCZ, IF_VCCNZ, IF_EXECZ, IF_EXECNZ };
void run_branch(struct wave *, const struct instruction *);
void run_end(struct wave *, const struct instruction *);
void run_barrier(struct wave *, const struct instruction *);
void run_nothing(struct wave *, const struct instruction *);
void run_trap(struct wave *, const struct instruction *);
void run_yield(struct wave *, const struct instruction *);
void run_getreg(struct wave *, const struct instruction *);
void run_time(struct wave *, const struct instruction *);
void run_getpc(struct wave *, const struct instruction *);

#endif
