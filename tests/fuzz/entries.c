/* SPDX-License-Identifier: Apache-2.0 */
/* entries.c - one function for each parser of text, tables, databases and ELF files that people
 * or other programs write. Besides what sanitizers find, each checks that a refusal is one line
 * on stderr. Run from the root of the repository. */
#include "entries.h"
#include "texts.h"
#include "harness/base/base.h"
#include "harness/compile/code_object.h"
#include "harness/compile/compile.h"
#include "harness/generate/engine_sim.h"
#include "harness/machine/machine.h"
#include "harness/scenario/scenario.h"
#include "harness/settled/settled.h"
#include "harness/store/store.h"
#include "kernels/launch/run.h"
#include "kernels/select/selector.h"
#include "kernels/settle/settled.h"
#include "kernels/ship/shipped.h"
#include "tests/library/rules_header.h"
#include "tuner/forest/forest.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- what a call says -------------------------------------------------------------------- */

/* Sanitizers and libFuzzer write to the descriptor, so they are still heard when stderr is this
 * stream. */
static FILE *ear;
static char *heard;
static size_t heard_size;

__attribute__((format(printf, 1, 2))) static void fault(const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	vdprintf(STDERR_FILENO, format, ap);
	va_end(ap);
	dprintf(STDERR_FILENO, "\n");
	abort();
}

static void listen_to_stderr(void)
{
	if (!ear) {
		ear = open_memstream(&heard, &heard_size);
		if (!ear)
			fault("no memory for what is said");
		stderr = ear;
	}
	rewind(ear);
}

/* A message of at least one and at most `most` lines without control characters. */
static void check_lines(const char *text, size_t n, int most)
{
	int lines = 0;
	for (size_t i = 0; i < n; i++) {
		lines += text[i] == '\n';
		if (((unsigned char)text[i] < ' ' && text[i] != '\n') || text[i] == 127)
			fault("a control character in: %.*s", (int)n, text);
	}
	if (lines < 1 || lines > most || text[n - 1] != '\n')
		fault("%d lines instead of 1 to %d: %.*s", lines, most, (int)n, text);
}

static void was_refused(int most)
{
	fflush(ear);
	check_lines(heard, heard_size, most);
}

/* ---- inputs ------------------------------------------------------------------------------ */

/* The bytes with '\0' after them, in memory of just that size. */
static char *text_of(const unsigned char *bytes, size_t n)
{
	char *text = malloc(n + 1);
	if (!text)
		fault("no memory for an input");
	memcpy(text, bytes, n);
	text[n] = '\0';
	return text;
}

/* The path of a file in memory that has these bytes. */
static const char *file_of(const void *bytes, size_t n)
{
	static char path[40];
	static int file = -1;
	if (file < 0) {
		file = memfd_create("input", 0);
		snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	}
	if (ftruncate(file, 0) || pwrite(file, bytes, n, 0) != (ssize_t)n)
		fault("cannot write an input: %s", strerror(errno));
	return path;
}

/* ---- text -------------------------------------------------------------------------------- */

/* The text of a batch means the same batch. */
static void check_format(const attune_batch *b)
{
	char error[200], *text = batch_format(b);
	struct batch *again = text ? batch_parse(text, error, sizeof error) : NULL;
	const size_t n = (size_t)b->num_seqs;
	if (!again || again->view.num_seqs != b->num_seqs ||
	    memcmp(again->seq_lens, b->seq_lens, n * sizeof *again->seq_lens) ||
	    memcmp(again->query_start, b->query_start, (n + 1) * sizeof *again->query_start))
		fault("batch_format wrote another batch: %s", text ? text : "nothing");
	batch_free(again);
	free(text);
}

static void take_batch(const unsigned char *bytes, size_t n)
{
	char error[200] = "", *text = text_of(bytes, n);
	struct batch *b = batch_parse(text, error, sizeof error);
	if (b)
		check_format(&b->view);
	else if (!*error || strchr(error, '\n'))
		fault("refused without one line: %s", error);
	batch_free(b);
	free(text);
}

static void take_scenarios(const unsigned char *bytes, size_t n)
{
	static struct models *models;
	struct scenario_list list = { 0 };
	listen_to_stderr();
	if (!models)
		models = models_load("scenarios/models.json");
	if (!models)
		fault("run this from the root of the repository");
	rewind(ear);
	if (!scenarios_load(&list, file_of(bytes, n), models))
		was_refused(1);
	for (int i = 0; i < list.n; i++) {
		struct facts f;
		scenario_facts(&f, &list.v[i].shape, &list.v[i].batch->view);
	}
	scenarios_free(&list);
}

static void take_models(const unsigned char *bytes, size_t n)
{
	listen_to_stderr();
	struct models *m = models_load(file_of(bytes, n));
	if (!m)
		was_refused(1);
	for (int i = 0; m && models_name(m, i); i++) {
		attune_shape shape;
		models_shape(m, models_name(m, i), &shape);
	}
	if (m) {
		char why[MODEL_WHY];
		models_why_unknown(m, "llama3.1-8b@1+lse", why, sizeof why);
		models_why_unknown(m, "x", why, sizeof why);
	}
	models_free(m);
}

static void take_settled_file(const unsigned char *bytes, size_t n)
{
	struct settled_file f;
	attune_shape shape;
	listen_to_stderr();
	if (!settled_file_read(&f, file_of(bytes, n))) {
		was_refused(1);
		return;
	}
	for (int i = 0; i < f.n; i++) {
		const struct store_settled *row = &f.row[i];
		if (row->n < 1 || row->winner >= row->n || !settled_op(&shape, row))
			fault("row %d is not legal", i);
	}
	settled_file_free(&f);
}

static void take_steps(const unsigned char *bytes, size_t n)
{
	listen_to_stderr();
	struct models *m = models_load("scenarios/models.json");
	struct capture c;
	if (!m)
		fault("run this from the root of the repository");
	rewind(ear);
	if (!capture_load(&c, file_of(bytes, n), NULL, m)) {
		was_refused(2); /* a last line that is not whole, then no step */
		models_free(m);
		return;
	}
	for (int i = 0; i < c.n; i++) {
		attune_shape shape;
		if (*c.v[i].model && !models_shape(m, c.v[i].model, &shape))
			fault("layers of no model");
	}
	capture_free(&c);
	models_free(m);
}

static void take_config(const unsigned char *bytes, size_t n)
{
	listen_to_stderr();
	struct models *m = models_load("scenarios/models.json");
	if (!m)
		fault("run this from the root of the repository");
	rewind(ear);
	if (!models_add_hf(m, file_of(bytes, n)))
		was_refused(1);
	else if (!models_own(m))
		fault("a config of no model");
	models_free(m);
}

static void take_trace(const unsigned char *bytes, size_t n)
{
	enum { REQUESTS = 1000, LONGEST_REQUEST = 1 << 17 };
	struct trace t;
	listen_to_stderr();
	if (!trace_load(&t, file_of(bytes, n), REQUESTS, LONGEST_REQUEST)) {
		was_refused(1);
		return;
	}
	for (int i = 0; i < t.n; i++) {
		const struct request *r = &t.v[i];
		if (r->prompt < 1 || r->output < 1 || r->cached < 0 ||
		    r->prompt + r->output > LONGEST_REQUEST ||
		    (i && r->arrival_ms < r[-1].arrival_ms))
			fault("request %d is not legal", i);
	}
	trace_set_rate(&t, 3.5);
	trace_free(&t);
}

/* ---- rules ------------------------------------------------------------------------------- */

static void ask_rules(const struct selector *s)
{
	struct binary_walk w = { 0 };
	for (int turn = 0; turn < 8; turn++) {
		long long value[ATTUNE_NUM_FEATURES];
		struct attune_features f;
		for (int i = 0; i < ATTUNE_NUM_FEATURES; i++)
			value[i] = turn * 7919ll * (i + 1) % 100003;
		memcpy(&f, value, sizeof f);
		for (int d = 0; d < NUM_DECISIONS; d++)
			selector_says(s, (enum decision)d, &f);
	}
	while (selector_next_binary(s, &w))
		;
	for (int id = 0; id < s->num_choices; id++) {
		const struct attune_list row = selector_list(s, id);
		for (int i = 0; i < row.n; i++)
			if (row.at[i] < 0 || row.at[i] >= s->num_choices)
				fault("the row of choice %d has %d", id, row.at[i]);
	}
}

static void read_rules(const char *path, enum backend backend, const char *gpu)
{
	struct device_info d = { .units = 4, .lanes = 16, .smem_per_block = 232448 };
	struct override *o;
	d.backend = backend;
	snprintf(d.gpu, sizeof d.gpu, "%s", gpu);
	if (!override_open(&o, path, &d))
		ask_rules(override_selector(o));
	else if (o || !*attune_last_error() || strchr(attune_last_error(), '\n'))
		fault("refused without one line: %s", attune_last_error());
	override_close(o);
}

/* Unless they begin as a header does, the bytes follow the head of one, up to SHAPES: it has hashes
 * that change with the kernels, which seeds cannot. */
static void take_rules(const unsigned char *bytes, size_t n)
{
	static const char whole[] = "/* attune_";
	static const char *const gpus[] = { [BACKEND_GPU] = "h200", [BACKEND_CPU] = "cpu" };
	for (size_t b = 0; b < COUNT(gpus); b++) {
		const char *head = rules_head(gpus[b]);
		size_t length = strlen(head);
		if (n >= strlen(whole) && !memcmp(bytes, whole, strlen(whole)))
			length = 0;
		char *text = malloc(length + n + 1);
		if (!text)
			fault("no memory for an input");
		memcpy(text, head, length);
		memcpy(text + length, bytes, n);
		read_rules(file_of(text, length + n), (enum backend)b, gpus[b]);
		free(text);
	}
}

/* The fuzzer's build carries no binaries. */
static const struct shipped *find_any(const struct device *dev, const char *kernel,
				      const char *flags)
{
	static const struct shipped any = { .backend = BACKEND_GPU };
	(void)dev, (void)kernel, (void)flags;
	return &any;
}

/* A context on an H200, whose device line seeds have. */
static attune_context *settling_context(struct device *dev)
{
	static struct device_ops ops;
	attune_context *ctx = NULL;
	struct device_info info;
	if (!gpu_imagine(&info, "h200", NULL))
		fault("no H200 is known");
	planning_device(dev, &info);
	ops = *dev->ops;
	ops.find = find_any;
	dev->ops = &ops;
	if (attune_adopt(&ctx, dev))
		fault("%s", attune_last_error());
	return ctx;
}

static char *settled_text(const attune_context *ctx, size_t *size)
{
	if (attune_settled_text(ctx, NULL, 0, size))
		fault("%s", attune_last_error());
	char *text = malloc(*size + 1);
	if (!text || attune_settled_text(ctx, text, *size, size))
		fault("%s", attune_last_error());
	text[*size] = '\0';
	return text;
}

/* What is taken is written, and read again as the same. */
static void take_settled(const unsigned char *bytes, size_t n)
{
	static struct device dev[2];
	static attune_context *ctx[2];
	char *text[2];
	size_t size[2];
	for (int i = 0; i < 2 && !ctx[i]; i++)
		ctx[i] = settling_context(&dev[i]);
	if (attune_settled_read(ctx[0], (const char *)bytes, n, NULL, NULL)) {
		if (strncmp(attune_last_error(), "line ", 5))
			fault("refused without its line: %s", attune_last_error());
		return;
	}
	for (int i = 0; i < 2; i++) {
		int dropped = 0;
		if (i && attune_settled_read(ctx[1], text[0], size[0], NULL, &dropped))
			fault("cannot read what was written: %s", attune_last_error());
		if (dropped || attune_settled_commit(ctx[i]))
			fault("%d of what was written are dropped", dropped);
		text[i] = settled_text(ctx[i], &size[i]);
	}
	if (strcmp(text[0], text[1]) ||
	    attune_settled_digest(ctx[0]) != attune_settled_digest(ctx[1]))
		fault("read again as another: %s", text[1]);
	for (int i = 0; i < 2; i++) {
		free(text[i]);
		settled_forget(ctx[i]);
	}
}

static void take_header(const unsigned char *bytes, size_t n)
{
	static struct forest f;
	char *text = text_of(bytes, n);
	listen_to_stderr();
	header_is_older(text);
	if (forest_parse(&f, text, "attune_h200.h")) {
		const struct attune_features zero = { 0 };
		for (int id = 0; id < f.num_choices; id++)
			for (int i = 0; i < f.list[id].n; i++)
				if (f.list[id].at[i] < 0 || f.list[id].at[i] >= f.num_choices)
					fault("the row of choice %d has %d", id, f.list[id].at[i]);
		forest_leaves(&f);
		forest_kernels(&f);
		forest_early(&f, &zero);
		forest_free(&f);
	} else {
		was_refused(1);
	}
	free(text);
}

/* ---- databases --------------------------------------------------------------------------- */

static int touch_cell(void *arg, const struct store_cell *c)
{
	size_t *sum = arg;
	*sum += strlen(c->gpu) + strlen(c->model) + strlen(c->set) + strlen(c->split) +
		strlen(c->batch) + strlen(c->outcome) + strlen(c->protocol) + strlen(c->dtype) +
		strlen(c->layout) + strlen(c->phase) + strlen(c->kernel) + strlen(c->choice) +
		strlen(c->stage) + strlen(c->sources) + (c->stopped ? strlen(c->stopped) : 0);
	return 1;
}

static int touch_ceiling(void *arg, const struct ceiling *c)
{
	size_t *sum = arg;
	*sum += strlen(c->name) + strlen(c->detail) + strlen(c->unit);
	return 1;
}

static int touch_use(void *arg, const struct store_use *u)
{
	size_t *sum = arg;
	*sum += strlen(u->kernel) + strlen(u->identity) + (u->plan ? strlen(u->plan) : 0);
	return 1;
}

static int use_cells(struct store *s)
{
	size_t sum = 0;
	return store_each(s, "h200", touch_cell, &sum);
}

static int use_ceilings(struct store *s)
{
	size_t sum = 0;
	return store_each_ceiling(s, "h200", touch_ceiling, &sum);
}

static int use_sources(struct store *s)
{
	size_t sum = 0;
	return store_uses(s, "h200", touch_use, &sum);
}

static int use_noise(struct store *s)
{
	struct noise noise;
	return store_noise(s, "h200", &noise);
}

static int use_device(struct store *s)
{
	struct run_info run;
	return store_device(s, "h200", &run);
}

static int use_hash(struct store *s)
{
	char hash[33];
	return store_hash(s, "h200", hash);
}

static int use_basis(struct store *s)
{
	struct store_basis basis;
	const int has = store_get_basis(s, "h200", &basis);
	if (has == 1)
		store_basis_free(&basis);
	return has >= 0;
}

/* Beginning with another use each time, since a handle calls its file damaged only once. */
static void read_store(struct store *s, size_t first)
{
	static int (*const uses[])(struct store *) = { use_cells, use_ceilings, use_sources,
						       use_noise, use_device,   use_hash,
						       use_basis, store_check };
	for (size_t i = 0; i < COUNT(uses); i++) {
		const int is_known = store_is_damaged(s);
		rewind(ear);
		if (!uses[(first + i) % COUNT(uses)](s) && !is_known)
			was_refused(3);
	}
}

/* SQLite wants a file with a name. */
static void take_database(const unsigned char *bytes, size_t n)
{
	static const char *const beside[] = { "", "-wal", "-shm", "-journal" };
	const char *folder = getenv("TMPDIR");
	char path[4096], name[sizeof path + 16];
	snprintf(path, sizeof path, "%s/attune_fuzz_%d.sqlite", folder ? folder : "/tmp",
		 (int)getpid());
	FILE *f = fopen(path, "wb");
	if (!f || fwrite(bytes, 1, n, f) != n || fclose(f))
		fault("cannot write %s: %s", path, strerror(errno));
	for (int readonly = 1; n && readonly >= 0; readonly--) {
		listen_to_stderr();
		struct store *s = store_open(path, readonly);
		if (s)
			read_store(s, n + bytes[n / 2] + (size_t)readonly);
		else
			was_refused(3);
		store_close(s);
	}
	for (size_t i = 0; i < COUNT(beside); i++) {
		snprintf(name, sizeof name, "%s%s", path, beside[i]);
		unlink(name);
	}
}

/* "device.name\n", then the text of that column; of an unknown one any. */
static void take_texts(const unsigned char *bytes, size_t n)
{
	static int began;
	char why[TEXTS_WHY];
	const unsigned char *end = memchr(bytes, '\n', n);
	const size_t head = end ? (size_t)(end - bytes) : n, text = head + (head < n);
	int column = 0;
	if (!began && !texts_begin())
		fault("a database cannot be made; run this from the root of the repository");
	if (!began)
		atexit(texts_end);
	began = 1;
	while (column < texts_columns() && (strlen(texts_column(column)) != head ||
					    memcmp(texts_column(column), bytes, head) != 0))
		column++;
	if (column == texts_columns())
		column = head ? bytes[0] % texts_columns() : 0;
	if (texts_try(column, bytes + text, n - text, why) == TEXTS_FAULT)
		fault("%s", why);
}

/* ---- ELF files --------------------------------------------------------------------------- */

static void take_code_object(const unsigned char *bytes, size_t n)
{
	struct code_object o;
	const char *why = code_object_read(&o, bytes, n, "attune_kernel");
	if (why ? !*why || o.vgprs != -1 || o.lds != -1 : o.vgprs < 0 || o.lds < 0)
		fault("%s: %d VGPRs, %d bytes", why ? why : "read", o.vgprs, o.lds);
}

static void take_machine_code(const unsigned char *bytes, size_t n)
{
	char hex[33];
	const struct blob b = { .data = bytes, .size = n };
	if (machine_code(&b, hex) && strspn(hex, "0123456789abcdef") != 32)
		fault("no hash: %s", hex);
}

const struct entry entries[] = {
	// clang-format off
	{ "batch",        take_batch,        20000, 400 },
	{ "code_object",  take_code_object,  20000, 4096 },
	{ "config",       take_config,       5000,  4096 },
	{ "database",     take_database,     400,   40000 },
	{ "header",       take_header,       20000, 16384 },
	{ "machine_code", take_machine_code, 20000, 8192 },
	{ "models",       take_models,       20000, 4096 },
	{ "rules",        take_rules,        20000, 8192 },
	{ "scenarios",    take_scenarios,    20000, 4096 },
	{ "settled",      take_settled,      2000,  4096 },
	{ "settled_file", take_settled_file, 5000,  4096 },
	{ "steps",        take_steps,        5000,  4096 },
	{ "texts",        take_texts,        24,    400 },
	{ "trace",        take_trace,        20000, 4096 },
	{ NULL, NULL, 0, 0 },
	// clang-format on
};

const struct entry *entry_find(const char *name)
{
	for (const struct entry *e = entries; e->name; e++)
		if (!strcmp(e->name, name))
			return e;
	return NULL;
}
