/* SPDX-License-Identifier: Apache-2.0 */
/* compile.h - compiles kernels to binaries: compilers, the binary cache, identities of sources,
 * GPU models. */
#ifndef HARNESS_COMPILE_COMPILE_H
#define HARNESS_COMPILE_COMPILE_H

#include "kernels/device/device.h"
#include "kernels/spec/choice.h"

struct builders;

/* ---- jit.c --------------------------------------------------------------------------- */
/* The result of a compilation; jit_free frees it. */
struct binary {
	struct blob blob;
	char *log;
	/* -1: not known. On AMD GPUs spill_bytes is the whole scratch memory of a lane. */
	int registers, spill_bytes, smem_static;
	int agprs, sgprs, spills; /* AMD GPUs only; registers include agprs */
	double seconds;
	int cached;
};
/* Compiles kernel + flags for `arch` through the disk cache (cache_root). 0: compiled; 1: the
 * compiler refused, for the reason in log; 2: no compiler (complains). Thread-safe. */
int jit_compile(struct binary *, const struct kernel *, const char *flags, const char *arch);
/* The same from another kernels folder. */
int jit_compile_below(struct binary *, const char *root, const struct kernel *, const char *flags,
		      const char *arch);
/* Whether the cache has it. */
int jit_has(const struct kernel *, const char *flags, const char *arch);
void jit_free(struct binary *);
/* The same for a source outside kernels/; ".cu" or ".c" selects the compiler. */
int jit_compile_source(struct binary *, const char *source_path, const char *flags,
		       const char *arch);
/* Compiles and loads. A binary of the cache that does not load is removed and compiled again, once.
 * root: another kernels folder; NULL: source_root(). */
enum attune_status jit_load_source(struct device *, struct code **, const char *source_path,
				   const char *flags, const char *arch);
enum attune_status jit_load(struct device *, struct code **, const char *root,
			    const struct kernel *, const char *flags);
/* "nvrtc 13.0", "hiprtc 7.2.70203", "cc 12.2.0"; "none" */
const char *jit_version(enum backend, const char *arch);

/* ---- source_paths.c ------------------------------------------------------------------ */
/* The kernels folder: ATTUNE_SOURCE, else the one that code_path finds. NULL: none. */
const char *source_root(void);
char *source_text(const char *path); /* the caller frees it; NULL: unreadable */

/* ---- cache.c ------------------------------------------------------------------ */
/* The cache of binaries, limited to ATTUNE_CACHE_MB: a folder that only this user
 * may write in. Created if missing; NULL + complain if that fails. */
const char *cache_root(void);

/* ---- identity.c ---------------------------------------------------------------------- */
/* Hashes the tokens of the kernel's source and of our files that it includes. Comments, layout, and
 * names and folders of files do not matter. Helpers have their own identity. 0: a file is missing.
 * Thread-safe; cached for the life of the program. */
int source_identity(const struct kernel *, char hex[33]);
/* The 128 bits as 32 digits: of a state of xxHash, or of bytes. */
struct XXH3_state_s;
void hash_text(char hex[33], const struct XXH3_state_s *);
void hash_of_bytes(char hex[33], const void *, size_t n);
/* The same for any source, not cached. Included files are searched in the folder of the including
 * file, then in `root`, which may be NULL. */
int source_identity_of(const char *path, const char *root, char hex[33]);

/* ---- builders.c: binaries ----------------------------------------------------------------- */
/* USES_SCRATCH: built, but it spills registers to memory on an AMD GPU, and is not worth timing. */
enum { BUILT, REFUSED_BY_COMPILER, NO_COMPILER, NOT_BUILT, USES_SCRATCH };

struct built {
	const struct kernel *kernel;
	const char *root; /* another kernels folder; NULL: source_root() */
	char flags[MAX_FLAGS];
	struct binary binary;
	int status;
	char asked, tries; /* in the queue; builders that died on it */
};
struct binaries {
	const char *arch;
	struct built *v;
	int n, room;
	int spare_cpu;             /* builders leave one CPU to the process that drives the GPU */
	int compiled;              /* not from the cache */
	double seconds;            /* spent waiting for them */
	double budget_s;           /* the same by budget_now */
	double until;              /* by budget_now: binaries_need stops waiting; 0: no limit */
	struct builders *builders; /* NULL: none runs */
	int found;                 /* index found last */
};
/* Index of the binary of a choice for a shape, added if new; -1: no memory. */
int binaries_add(struct binaries *, const struct choice *, const attune_shape *);
/* The same for the choice's helpers; -1 for helpers that it does not use. 0: no memory. */
int binaries_add_helpers(struct binaries *, const struct choice *, const attune_shape *,
			 int helper[NUM_HELPERS]);
/* The same for the kernel's source below `root` (NULL: source_root()) with these flags. */
int binaries_add_source(struct binaries *, const struct kernel *, const char *root,
			const char *flags);
/* Compiles all that are not built, in several processes. A compilation of more than
 * two minutes counts as refused. 0: no compiler, or the user interrupted. */
int binaries_compile(struct binaries *);
void binaries_free(struct binaries *);

/* ---- builders.c: processes that compile in the background ------------------------- */
/* The parent waits for a binary only when it needs it, and can stop all compilers at once. A
 * builder writes binaries to the cache (jit.c), where the parent reads them. */
/* Appends a binary to the queue. 0: no memory. */
int binaries_ask(struct binaries *, int index);
/* Number of binaries in the queue that are not started. */
int binaries_waiting(const struct binaries *);
/* Assigns queued work and collects finished binaries, without waiting. */
void binaries_poll(struct binaries *);
/* Compiles these before all others and waits for them. 0: the user interrupted, `until` passed,
 * or there is no compiler (complains). */
int binaries_need(struct binaries *, const int *index, int n);
/* Whether `until` of struct binaries has passed. */
int binaries_too_late(const struct binaries *);
/* Suspends the builders (1) or resumes them (0), so that no compiler disturbs timing on the CPU. */
void binaries_hold(struct binaries *, int hold);
/* Kills the builders. Unfinished binaries stay NOT_BUILT. */
void binaries_end(struct binaries *);

/* ---- gpu_models.c --------------------------------------------------------------- */
/* Limits of one unit of an architecture; NULL: kernels do not compile for it. */
struct arch_limits {
	const char *arch;
	int smem_per_block, smem_per_unit; /* 0: AMD, the chip has it */
	int threads_per_unit, blocks_per_unit;
};
const struct arch_limits *arch_limits(const char *arch);
extern const char arch_names[]; /* for messages: "sm_80, sm_86, ..." */
/* Describes the GPU as if it were installed. */
void gpu_describe(struct device_info *, const struct gpu_model *);
/* Describes the model named `gpu`; else the first model of that architecture, under the name `gpu`.
 * 0 + complain if neither is known. */
int gpu_imagine(struct device_info *, const char *gpu, const char *arch);

/* ---- machine_code.c -------------------------------------------------------------- */
/* Hashes what the processor executes: contents, sizes and flags of the loaded sections,
 * relocations, and NVIDIA's attributes of registers, parameters and shared memory. Leaves out
 * names of symbols, symbol tables, debug data and notes. 0: not a readable ELF file. */
int machine_code(const struct blob *, char hex[33]);

/* ---- gpu_models.c: occupancy ------------------------------------------------------- */
struct resident { /* on one unit at a time */
	int blocks;
	int waves;    /* per SIMD of an AMD GPU, at most 8; else 0 */
	double share; /* of the unit's threads */
};
void gpu_resident(struct resident *, const struct arch_limits *, const struct binary *,
		  const struct geometry *);

#endif
