/* compile.h - binaries of kernels: compilers, the cache of what they made, and the identity of a source.
 * Includes base and kernels. */
#ifndef HARNESS_COMPILE_COMPILE_H
#define HARNESS_COMPILE_COMPILE_H

#include "kernels/device/device.h"
#include "kernels/kernel.h"

struct builders;

/* ---- jit.c: binaries; compile.c alone knows the run-time compilers --------------- */
/* Outcome of a compilation, as data. `log` is the caller's to free. */
struct binary {
	struct blob blob;
	char *log;
	/* -1: not known. On AMD GPUs spill_bytes is all of the scratch memory of a lane. */
	int registers, spill_bytes, smem_static;
	int agprs, sgprs, spills; /* of these GPUs; agprs: of registers */
	double seconds;
	int cached;
};
/* kernel + flags -> binary for `arch`, through the disk cache (build/cache, or
 * ATTUNE_CACHE). 0: compiled; 1: the compiler refused (log says why);
 * 2: no compiler here (complains). Safe to call from several threads. */
int jit_compile(struct binary *, const struct kernel *, const char *flags, const char *arch);
/* The same of another kernels folder. */
int jit_compile_below(struct binary *, const char *root, const struct kernel *, const char *flags,
		      const char *arch);
/* Whether the cache has it. */
int jit_has(const struct kernel *, const char *flags, const char *arch);
void jit_free(struct binary *);
/* The same for a source outside kernels/: ".cu" or ".c" says which compiler. */
int jit_compile_source(struct binary *, const char *source_path, const char *flags,
		       const char *arch);
/* "nvrtc 13.0", "hiprtc 7.2.70203", "cc 12.2.0"; "none" */
const char *jit_version(enum backend, const char *arch);

/* ---- source_paths.c: where sources and cached binaries are ---------------------------- */
/* The kernels folder: ATTUNE_SOURCE, else beside the executable's folder, else below
 * the working directory. NULL when there is none. */
const char *source_root(void);
/* Where compiled binaries are kept, ATTUNE_CACHE_MB of them (cache_trim.c): ATTUNE_CACHE, else
 * cache/ beside the executable, else ~/.cache/attune; made when absent. NULL + complain when it
 * cannot be. */
const char *cache_root(void);
char *source_text(const char *path); /* the caller's to free; NULL when unreadable */

/* ---- identity.c: what tells one binary's source from another -------------------- */
/* The hash of the tokens of the kernel's source and of all our files that it includes. Comments,
 * layout and the names and places of files do not count; helpers have an identity of their own.
 * 0 when a file is not here. Thread-safe; kept as long as the program runs. */
int source_identity(const struct kernel *, char hex[33]);
/* The same of any source, read anew. Included files are looked for in the folder of the file that
 * includes them, then in `root`, which may be NULL. */
int source_identity_of(const char *path, const char *root, char hex[33]);

/* ---- binaries.c ----------------------------------------------------------------- */
/* USES_SCRATCH: built, but on an AMD GPU it would keep registers in memory, which is never
 * worth a measurement. */
enum { BUILT, REFUSED_BY_COMPILER, NO_COMPILER, NOT_BUILT, USES_SCRATCH };

struct built {
	const struct kernel *kernel;
	const char *root; /* a kernels folder other than today's, else NULL */
	char flags[MAX_FLAGS];
	struct binary binary;
	int status;
	char asked, tries; /* of builders.c: it is in the queue; builders that died over it */
};
struct binaries {
	const char *arch;
	struct built *v;
	int n, room;
	int spare_cpu;             /* builders leave one CPU to the process that drives the GPU */
	int compiled;              /* not from the cache */
	double seconds;            /* that somebody waited for them */
	double budget_s;           /* the same by budget_now */
	double until;              /* of budget_now: nobody waits longer; 0: no limit */
	struct builders *builders; /* NULL: none runs */
	int found;                 /* the one that was asked for last */
};
/* Where the binary of a choice for a shape is, or will be; -1: no memory. */
int binaries_add(struct binaries *, const struct choice *, const attune_shape *);
/* The same of the helpers that it takes; -1 of the others. 0 without memory. */
int binaries_add_helpers(struct binaries *, const struct choice *, const attune_shape *,
			 int helper[NUM_HELPERS]);
/* The same of the kernel's source below `root`, NULL: today's, with these flags. */
int binaries_add_source(struct binaries *, const struct kernel *, const char *root,
			const char *flags);
/* Compiles all that are not yet, in several processes (builders.h); what takes more than two
 * minutes is refused. 0 when there is no compiler or the user interrupted. */
int binaries_compile(struct binaries *);
void binaries_free(struct binaries *);

/* ---- gpu_models.c --------------------------------------------------------------- */
/* What each unit of an architecture has; NULL: kernels do not compile for it. */
struct arch_limits {
	const char *arch;
	int smem_per_block, smem_per_unit; /* 0: the chip's, of AMD */
	int threads_per_unit, blocks_per_unit;
};
const struct arch_limits *arch_limits(const char *arch);
extern const char arch_names[]; /* for messages: "sm_80, sm_86, ..." */
/* A GPU as it would be found here. */
void gpu_describe(struct device_info *, const struct gpu_model *);
/* A row of the table by its name; else, named `gpu`, what the table has of that architecture; with
 * neither 0 + complain. */
int gpu_imagine(struct device_info *, const char *gpu, const char *arch);

/* ---- occupancy.c ----------------------------------------------------------------- */
struct resident { /* on one unit, at a time */
	int blocks;
	int waves;    /* on AMD GPUs: of a SIMD, of at most 8; else 0 */
	double share; /* of the threads that it could hold */
};
void gpu_resident(struct resident *, const struct arch_limits *, const struct binary *,
		  const struct geometry *);
/* On a SIMD of AMD's, as far as registers tell. */
int waves_by_registers(int vgprs, int sgprs);

#endif
