/* list_shipped.c - a build tool: says which binaries the library is to carry, as
 * make rules (--make) and as the table that names them (--table).
 *
 * Carried are: for each measured GPU the BINARIES of its header; and the default
 * configuration of every kernel for the shapes of carried.c, on the CPU for
 * each instruction set, on NVIDIA GPUs as PTX. Without a CUDA compiler
 * (--no-cuda) the GPU's rows are left out.
 *
 *   build/list_shipped --make  [--no-cuda] [--skip-stale] > build/shipped.mk
 *   build/list_shipped --table [--no-cuda] [--skip-stale] > build/shipped.inc */
#include "heuristics.h"
#include "recorded.h"
#include "shipped.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Named by what it is made of, so that a new header rebuilds only what is new. */
struct row {
	unsigned long long name;
	enum backend backend;
	char arch[16], kernel[32], flags[MAX_FLAGS];
};

static struct row *rows;
static int num_rows, skip_stale, cuda = 1;

static const char *const cpu_isas[] = {
#if defined(__x86_64__)
	"avx512",
	"avx2",
#elif defined(__aarch64__)
	"neon",
#endif
	"scalar",
};

static unsigned long long mix(unsigned long long h, const char *text)
{
	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 1099511628211ull;
	return (h ^ '\n') * 1099511628211ull;
}

static void add(enum backend backend, const char *arch, const char *kernel, const char *flags)
{
	for (int i = 0; i < num_rows; i++)
		if (!strcmp(rows[i].arch, arch) && !strcmp(rows[i].kernel, kernel) &&
		    !strcmp(rows[i].flags, flags))
			return;
	struct row *more = realloc(rows, (size_t)(num_rows + 1) * sizeof *rows);
	if (!more) {
		fputs("list_shipped: out of memory\n", stderr);
		exit(1);
	}
	rows = more;
	rows[num_rows].backend = backend;
	snprintf(rows[num_rows].arch, sizeof rows->arch, "%s", arch);
	snprintf(rows[num_rows].kernel, sizeof rows->kernel, "%s", kernel);
	snprintf(rows[num_rows].flags, sizeof rows->flags, "%s", flags);
	rows[num_rows].name = mix(mix(mix(14695981039346656037ull, arch), kernel), flags);
	num_rows++;
}

static int stands_in(const struct kernel *k)
{
	for (const char *const *name = attune_fallbacks; *name; name++)
		if (!strcmp(*name, k->name))
			return 1;
	return !k->selectable;
}

/* Page sizes that kernels which compile them in are carried for; others do not care. */
static const int pages[] = { 16, 8, 32 };

/* The defaults of one kernel for one shape, on all architectures of its backend. */
static void add_defaults(const struct kernel *k, const struct carried_shape *c, int page_size)
{
	const struct device_info any = { .smem_per_block = 96 << 10, .lanes = 32, .units = 1 };
	const attune_shape shape = { .num_query_heads = 8,
				     .num_kv_heads = 1,
				     .head_size = c->head_size,
				     .page_size = page_size,
				     .dtype = c->dtype,
				     .kv_dtype = c->dtype,
				     .causal = 1,
				     .kv_layout =
					 k->space->kv_layout == KV_LAYOUT_ANY
					     ? ATTUNE_KV_STRIDED
					     : (enum attune_kv_layout)k->space->kv_layout };
	struct config config;
	char flags[MAX_FLAGS];
	config_default(&config, k->space);
	if (k->space->why_illegal(&config, &shape, NULL, &any))
		return;
	binary_flags(flags, sizeof flags, k, &config, &shape);
	if (k->backend == BACKEND_GPU)
		add(BACKEND_GPU, "ptx", k->name, flags);
	else
		for (size_t i = 0; i < COUNT(cpu_isas); i++)
			add(BACKEND_CPU, cpu_isas[i], k->name, flags);
}

/* The kernels of recorded steps, for each shape of which the GPU's choices are carried. */
static void add_recorded(const struct selector *h)
{
	add(BACKEND_GPU, h->arch, "planner", "");
	add(BACKEND_GPU, h->arch, "leaf", "");
	for (int i = 0; i < h->num_binaries; i++) {
		attune_shape shape = { .num_query_heads = 1, .num_kv_heads = 1 };
		char dtype[16], flags[MAX_FLAGS];
		struct bodies bodies;
		if (strcmp(h->binaries[i].kernel, "reduce") ||
		    sscanf(h->binaries[i].text, "-DHEAD_SIZE=%d -DDTYPE=%15s", &shape.head_size,
			   dtype) != 2)
			continue;
		shape.dtype = strcmp(dtype, "F16") ? ATTUNE_BF16 : ATTUNE_F16;
		shape.kv_dtype = shape.dtype;
		for (int which = 0; which < NUM_RECORDED; which++) {
			bodies_of(&bodies, h, which, &shape);
			bodies_flags(flags, sizeof flags, &bodies, &shape);
			if (bodies.n > 1)
				add(BACKEND_GPU, h->arch, "recorded", flags);
		}
	}
}

static void add_measured(const struct selector *h)
{
	if (selector_is_stale(h)) {
		if (skip_stale)
			return;
		fprintf(
		    stderr,
		    "generated/attune_%s.h was made for other tunables than kernels/*/*.def now "
		    "have; refresh it: make heuristics GPU=%s\n",
		    h->gpu, h->gpu);
		exit(1);
	}
	enum backend backend = strcmp(h->gpu, "cpu") ? BACKEND_GPU : BACKEND_CPU;
	for (int i = 0; i < h->num_binaries; i++)
		if (backend == BACKEND_GPU)
			add(backend, h->arch, h->binaries[i].kernel, h->binaries[i].text);
		else
			for (size_t isa = 0; isa < COUNT(cpu_isas) - 1; isa++)
				add(backend, cpu_isas[isa], h->binaries[i].kernel,
				    h->binaries[i].text);
	if (backend == BACKEND_GPU)
		add_recorded(h);
}

static void print_make(void)
{
	for (int i = 0; i < num_rows; i++) {
		const struct row *r = &rows[i];
		const struct kernel *k = kernel_find(r->backend, r->kernel);
		const char *compile = r->backend == BACKEND_CPU ? cpu_compile_flags(r->arch) : "";
		printf("$(eval $(call shipped_%s,%016llx,%s,kernels/%s,%s,%s))\n",
		       r->backend == BACKEND_CPU ? "cpu" : "gpu", r->name, r->arch, k->source,
		       r->flags, compile);
	}
}

static void print_table(void)
{
	puts("#ifdef SYMBOLS");
	for (int i = 0; i < num_rows; i++)
		if (rows[i].backend == BACKEND_CPU)
			printf("void attune_b%016llx(const struct attune_args *, int, int, int);\n",
			       rows[i].name);
		else
			printf("extern const unsigned char attune_b%016llx[];\n", rows[i].name);
	puts("#else");
	for (int i = 0; i < num_rows; i++)
		printf("%s(\"%s\", \"%s\", \"%s\", attune_b%016llx)\n",
		       rows[i].backend == BACKEND_CPU ? "CELL" : "BLOB", rows[i].arch,
		       rows[i].kernel, rows[i].flags, rows[i].name);
	puts("#endif");
}

int main(int argc, char **argv)
{
	int make = 0, table = 0;
	for (int i = 1; i < argc; i++) {
		make |= !strcmp(argv[i], "--make");
		table |= !strcmp(argv[i], "--table");
		skip_stale |= !strcmp(argv[i], "--skip-stale");
		if (!strcmp(argv[i], "--no-cuda"))
			cuda = 0;
	}
	if (make == table) {
		fputs("usage: list_shipped --make|--table [--no-cuda] [--skip-stale]\n", stderr);
		return 2;
	}
	for (const struct kernel *k = attune_kernels; k->name; k++)
		if (stands_in(k) && (k->backend == BACKEND_CPU || cuda))
			for (const struct carried_shape *c = attune_carried_shapes; c->head_size;
			     c++)
				for (size_t i = 0; i < COUNT(pages); i++)
					add_defaults(k, c, pages[i]);
	for (int i = 0; i < attune_num_selectors; i++)
		if (cuda || !strcmp(attune_selectors[i].gpu, "cpu"))
			add_measured(&attune_selectors[i]);
	if (make)
		print_make();
	else
		print_table();
	free(rows);
	return ferror(stdout) ? 1 : 0;
}
