/* SPDX-License-Identifier: Apache-2.0 */
/* peers.c - makes a plug-in of a peer. host.py prints what the peer's class says of itself; that
 * fills an attune_plugin. Its functions call host.py in the worker process (python.c). */
#include "peers.h"
#include "python.h"
#include "harness/base/base.h"
#include "harness/compile/compilers.h"
#include "harness/plugin/plugin.h"
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_VALUES = 32, MOST_LISTED = 32, MOST_BACKENDS = 3 };
enum { LOAD_S = 60 }; /* for loading a peer's file with all that it imports */

/* What the lists of a class may name: attributes `features`, `needs` (in the order of the bits
 * ATTUNE_PLUGIN_FINITE_SLOTS ...), `dtypes` and `backends`. */
enum { WINDOW, SOFTCAP, SINKS, ALIBI, LSE, NONCAUSAL, NO_KEYS, NUM_FEATURES };
static const char *const feature_words[NUM_FEATURES] = { "window", "softcap",   "sinks",  "alibi",
							 "lse",    "noncausal", "no_keys" };
static const char *const need_words[] = { "finite_slots", "dense_rows", "one_scale",
					  "no_scales",    "e4m3_math",  "q_type_math" };
static const char *const dtype_words[] = { "f32", "f16", "bf16", "e4m3" };
static const char *const backend_words[MOST_BACKENDS] = { "cpu", "cuda", "hip" };

struct list {
	int v[MOST_LISTED], n; /* n 0: any */
};

/* Registered plug-ins must live as long as the process. */
static struct peer {
	attune_plugin plugin;
	char path[PATH_MAX], library[PATH_MAX], executable[PATH_MAX];
	char name[32], version[MOST_VERSION + 1], about[100];
	attune_plugin_axis axis[ATTUNE_PLUGIN_AXES];
	char axis_name[ATTUNE_PLUGIN_AXES][24];
	int value[ATTUNE_PLUGIN_AXES][MOST_VALUES];
	struct list head_sizes, page_sizes, dtypes, kv_dtypes;
	int num_axes, has[NUM_FEATURES], max_query, backends; /* bits of backend_words */
	unsigned needs;
	int minor; /* of Python 3 */
	char error[200];
} peers[MOST_PEERS];
static int num_peers;

/* ---- what a peer can run --------------------------------------------------------------------------- */

static int is_in(const struct list *l, int value)
{
	int i = 0;
	while (i < l->n && l->v[i] != value)
		i++;
	return !l->n || i < l->n;
}

static const char *refuses(const struct peer *p, const attune_shape *s,
			   const attune_plugin_part *part)
{
	if (!is_in(&p->head_sizes, s->head_size))
		return "the peer does not list this head size";
	if (!is_in(&p->page_sizes, s->page_size))
		return "the peer does not list this page size";
	if (!is_in(&p->dtypes, s->dtype) ||
	    (p->kv_dtypes.n ? !is_in(&p->kv_dtypes, s->kv_dtype) : s->dtype != s->kv_dtype))
		return "the peer does not list this type";
	const int wants[NUM_FEATURES] = {
		[WINDOW] = s->window,   [SOFTCAP] = s->softcap > 0, [SINKS] = s->has_sinks,
		[ALIBI] = s->has_alibi, [LSE] = s->has_lse,         [NONCAUSAL] = !s->causal,
	};
	for (int i = 0; i < NUM_FEATURES; i++)
		if (wants[i] && !p->has[i])
			return "the peer does not list a feature of this shape";
	if (s->kv_layout != ATTUNE_KV_STRIDED)
		return "peers take the strided layout only";
	if (part && p->max_query && part->max_query > p->max_query)
		return "queries are longer than the peer takes";
	if (part && !p->has[NO_KEYS] &&
	    part->kv_tokens < part->query_tokens) /* host.py looks at each sequence later */
		return "queries are longer than their sequences";
	return NULL;
}

/* ---- calls in the worker --------------------------------------------------------------------------- */

struct op {
	const struct python_calls *python;
	long long number;
};

struct plan {
	long long number;
	long long fields[NUM_FIELDS]; /* those of tensors are written before each call */
};

static int prepare(const struct peer *p, void **out, const attune_shape *s, const int *values,
		   const attune_plugin_device *d, char *error)
{
	char shape[400];
	int backend = 0;
	struct op *op = calloc(1, sizeof *op);
	if (!op) {
		snprintf(error, ATTUNE_PLUGIN_ERROR, "out of memory");
		return 1;
	}
	while (backend < MOST_BACKENDS && strcmp(backend_words[backend], d->backend))
		backend++;
	snprintf(shape, sizeof shape,
		 "num_query_heads=%d num_kv_heads=%d head_size=%d page_size=%d dtype=%d "
		 "kv_dtype=%d causal=%d window=%d scale=%.9e softcap=%.9e has_sinks=%d "
		 "has_alibi=%d has_lse=%d backend=%d ordinal=%d units=%d",
		 s->num_query_heads, s->num_kv_heads, s->head_size, s->page_size, (int)s->dtype,
		 (int)s->kv_dtype, s->causal, s->window, (double)s->scale, (double)s->softcap,
		 s->has_sinks, s->has_alibi, s->has_lse, backend, d->ordinal, d->units);
	op->python = python_open(p->library, p->executable, error);
	if (op->python)
		op->number = op->python->prepare(p->path, shape, values, p->num_axes, error);
	if (!op->number) {
		free(op);
		return 1;
	}
	*out = op;
	return 0;
}

static void fill_tensors(long long *fields, const attune_tensors *t, void *stream)
{
#define FILL(name) fields[FIELD_##name] = (long long)t->name;
	EACH_TENSOR(FILL)
#undef FILL
	fields[FIELD_stream] = (long long)stream;
}

static int plan(void *op, const attune_plugin_batch *b, void **out, size_t *workspace, char *error)
{
	const struct op *o = op;
	struct plan *p = calloc(1, sizeof *p);
	if (!p) {
		snprintf(error, ATTUNE_PLUGIN_ERROR, "out of memory");
		return 1;
	}
	fill_tensors(p->fields, b->tensors, b->stream);
	p->fields[FIELD_num_seqs] = b->lengths->num_seqs;
	p->fields[FIELD_host_query_start] = (long long)b->lengths->query_start;
	p->fields[FIELD_host_seq_lens] = (long long)b->lengths->seq_lens;
	p->number = o->python->plan(o->number, p->fields, error);
	if (!p->number) {
		free(p);
		return 1;
	}
	*workspace = 0; /* a peer's memory is Python's */
	*out = p;
	return 0;
}

/* Called once for each plan, and not timed. It launches once, so that the peer compiles and
 * allocates before any launch is captured or timed. */
static int store(void *op, void *plan, const attune_tensors *t, void *stream, char *error)
{
	const struct op *o = op;
	struct plan *p = plan;
	fill_tensors(p->fields, t, stream);
	return !o->python->warm(p->number, p->fields, error);
}

static int launch(void *op, void *plan, const attune_tensors *t, void *workspace, void *stream,
		  char *error)
{
	const struct op *o = op;
	struct plan *p = plan;
	(void)workspace;
	fill_tensors(p->fields, t, stream);
	return !o->python->launch(p->number, p->fields, error);
}

static void free_plan(void *op, void *plan)
{
	const struct op *o = op;
	struct plan *p = plan;
	o->python->drop(p->number);
	free(p);
}

static void free_op(void *op)
{
	const struct op *o = op;
	o->python->drop(o->number);
	free(op);
}

/* `refuses` and `prepare` are not told which plug-in they belong to, so each peer has its own. */
#define DEFINE(n)                                                                   \
	static const char *refuses_##n(const attune_shape *s, const int *values,    \
				       const attune_plugin_part *part,              \
				       const attune_plugin_device *d)               \
	{                                                                           \
		(void)values, (void)d;                                              \
		return refuses(&peers[n], s, part);                                 \
	}                                                                           \
	static int prepare_##n(void **op, const attune_shape *s, const int *values, \
			       const attune_plugin_device *d, char *error)          \
	{                                                                           \
		return prepare(&peers[n], op, s, values, d, error);                 \
	}
EACH_PLUGIN_PLACE(DEFINE)
static const attune_plugin functions[] = {
#define PLACE(n) { .refuses = refuses_##n, .prepare = prepare_##n },
	EACH_PLUGIN_PLACE(PLACE)
};
_Static_assert(COUNT(functions) == MOST_PEERS, "functions for each peer");

/* ---- what the class says of itself ----------------------------------------------------------------- */

static int word_index(const char *word, const char *const *words, int n)
{
	int i = 0;
	while (i < n && strcmp(words[i], word))
		i++;
	return i < n ? i : -1;
}

static int add(struct list *l, int value)
{
	if (l->n < MOST_LISTED && value >= 0)
		l->v[l->n++] = value;
	else
		return 0;
	return 1;
}

static int take_axis(struct peer *p, const char *text)
{
	int n = 0, value;
	if (p->num_axes == ATTUNE_PLUGIN_AXES ||
	    sscanf(text, "%23s%n", p->axis_name[p->num_axes], &n) != 1)
		return 0;
	attune_plugin_axis *a = &p->axis[p->num_axes];
	int *values = p->value[p->num_axes];
	*a = (attune_plugin_axis){ p->axis_name[p->num_axes++], "", values, 0, 0 };
	for (text += n; sscanf(text, "%d%n", &value, &n) == 1; text += n) {
		if (a->num_values == MOST_VALUES)
			return 0;
		values[a->num_values++] = value;
	}
	a->dflt = values[0];
	return !text[strspn(text, " ")] && a->num_values > 0;
}

static int copy(char *to, size_t size, const char *text)
{
	return snprintf(to, size, "%s", text) < (int)size;
}

/* Takes a line "KEY TEXT" of host.py. 0: the key is unknown, or the text is wrong or too long. */
static int take_line(struct peer *p, const char *key, const char *text)
{
	int index;
	if (!strcmp(key, "python"))
		return sscanf(text, "3 %d", &p->minor) == 1;
	if (!strcmp(key, "executable"))
		return copy(p->executable, sizeof p->executable, text);
	if (!strcmp(key, "library"))
		return copy(p->library, sizeof p->library, text);
	if (!strcmp(key, "name"))
		return copy(p->name, sizeof p->name, text);
	if (!strcmp(key, "version"))
		return copy(p->version, sizeof p->version, text);
	if (!strcmp(key, "about"))
		return copy(p->about, sizeof p->about, text);
	if (!strcmp(key, "error"))
		return copy(p->error, sizeof p->error, text);
	if (!strcmp(key, "axis"))
		return take_axis(p, text);
	if (!strcmp(key, "max_query"))
		return sscanf(text, "%d", &p->max_query) == 1 && p->max_query >= 0;
	if (!strcmp(key, "head_sizes"))
		return add(&p->head_sizes, atoi(text));
	if (!strcmp(key, "page_sizes"))
		return add(&p->page_sizes, atoi(text));
	if (!strcmp(key, "dtypes"))
		return add(&p->dtypes, word_index(text, dtype_words, COUNT(dtype_words)));
	if (!strcmp(key, "kv_dtypes"))
		return add(&p->kv_dtypes, word_index(text, dtype_words, COUNT(dtype_words)));
	if (!strcmp(key, "backend")) {
		index = word_index(text, backend_words, MOST_BACKENDS);
		p->backends |= index < 0 ? 0 : 1 << index;
		return index >= 0;
	}
	if (!strcmp(key, "features")) {
		index = word_index(text, feature_words, NUM_FEATURES);
		return index >= 0 && (p->has[index] = 1);
	}
	index = strcmp(key, "needs") ? -1 : word_index(text, need_words, COUNT(need_words));
	p->needs |= index < 0 ? 0 : 1u << index;
	return index >= 0;
}

/* Lines of host.py begin with "attune: ". Any others come from the file or what it imports. */
static int take_lines(struct peer *p, const char *option, char *text)
{
	char *rest = text, *last = NULL;
	for (char *line; (line = strsep(&rest, "\n"));) {
		if (*line)
			last = line;
		if (strncmp(line, "attune: ", 8))
			continue;
		char *value = line + 8, *key = strsep(&value, " ");
		if (!take_line(p, key, value ? value : "")) {
			complain("%s: its class Peer says %.40s %.60s, which attune does not take",
				 option, key, value ? value : "");
			return 0;
		}
	}
	if (*p->error)
		complain("%s: %s", option, p->error);
	else if (!*p->library)
		complain("%s: the interpreter stopped: %.150s", option, last ? last : "no output");
	else if (p->minor < 9 || p->minor > 13)
		complain("%s: %.100s is Python 3.%d; peers run in 3.9 to 3.13", option,
			 p->executable, p->minor);
	else
		return 1;
	return 0;
}

static int ask_interpreter(struct peer *p, const char *option, const char *python)
{
	char folder[PATH_TEXT], *output = NULL;
	struct words w = { .n = 0 };
	if (!code_path(folder, "harness/peers", "host.py")) {
		complain("%s: attune's own harness/peers/host.py is not there", option);
		return 0;
	}
	word(&w, "%s", python);
	word(&w, "-I");
	word(&w, "%s/host.py", folder);
	word(&w, "%s", p->path);
	const int status = w.lost ? -1 : run_words_within(&w, LOAD_S, &output);
	int done = 0;
	if (status == -1 && !w.lost && errno == ETIMEDOUT)
		complain("%s: loading the file took more than %d s; it may define its class and "
			 "import packages, but not compute",
			 option, LOAD_S);
	else if (status == -1 || !output)
		complain("%s: %s could not run: is there a Python? --python PATH names one", option,
			 python);
	else
		done = take_lines(p, option, output);
	words_free(&w);
	free(output);
	return done;
}

/* ---- registration --------------------------------------------------------------------------- */

static int register_peer(struct peer *p, const char *option)
{
	p->plugin = functions[p - peers];
	p->plugin.abi = ATTUNE_PLUGIN_ABI;
	p->plugin.name = p->name;
	p->plugin.version = p->version;
	p->plugin.about = p->about;
	p->plugin.needs = p->needs;
	p->plugin.axes = p->axis;
	p->plugin.num_axes = p->num_axes;
	p->plugin.plan = plan;
	p->plugin.launch = launch;
	p->plugin.free_plan = free_plan;
	p->plugin.free_op = free_op;
	p->plugin.store = store;
	for (int i = 0; i < MOST_BACKENDS; i++) {
		static attune_plugin of[MOST_PEERS][MOST_BACKENDS];
		attune_plugin *one = &of[p - peers][i];
		if (!(p->backends >> i & 1))
			continue;
		*one = p->plugin;
		one->backend = backend_words[i];
		if (plugin_register(one)) {
			complain("%s: %s", option, attune_last_error());
			return 0;
		}
	}
	return 1;
}

static int load(const char *option, const char *path, const char *python)
{
	struct peer *p = &peers[num_peers];
	if (num_peers == MOST_PEERS) {
		complain("%s: at most %d peers can be raced together", option, MOST_PEERS);
		return 0;
	}
	memset(p, 0, sizeof *p);
	snprintf(p->path, sizeof p->path, "%s", path);
	if (!ask_interpreter(p, option, python ? python : "python3") || !register_peer(p, option))
		return 0;
	num_peers++;
	return 1;
}

int peer_load(const char *file, const char *python)
{
	char path[PATH_MAX], option[PATH_MAX + 20];
	struct stat s;
	snprintf(option, sizeof option, "--peer %s", file);
	if (!realpath(file, path) || stat(path, &s))
		complain("%s: there is no such file", option);
	else if (!S_ISREG(s.st_mode))
		complain("%s: it is not a regular file", option);
	else
		return load(option, path, python);
	return 0;
}

static int is_peer(const struct dirent *d)
{
	const size_t n = strlen(d->d_name);
	return n > 3 && !strcmp(d->d_name + n - 3, ".py") && strcmp(d->d_name, "host.py");
}

/* Says which peers there are. */
static void complain_of_name(const char *option, const char *name, int length)
{
	char path[PATH_TEXT], list[300] = "";
	struct dirent **v = NULL;
	size_t at = 0;
	const int n =
	    code_path(path, "harness/peers", "host.py") ? scandir(path, &v, is_peer, alphasort) : 0;
	for (int i = 0; i < n; i++) {
		if (at < sizeof list)
			at += (size_t)snprintf(list + at, sizeof list - at, "%s%.*s",
					       i ? ", " : "; it has ",
					       (int)strlen(v[i]->d_name) - 3, v[i]->d_name);
		free(v[i]);
	}
	free(v);
	complain("%s: attune has no peer \"%.*s\"%s; --peer FILE.py takes one of your own", option,
		 length, name, list);
}

int peer_load_named(const char *names, const char *python)
{
	const char *at = names;
	do {
		char option[100], file[100], path[PATH_TEXT], full[PATH_TEXT + 100];
		const int n = (int)strcspn(at, ",");
		snprintf(option, sizeof option, "--with %.60s", names);
		snprintf(file, sizeof file, "%.*s.py", n < 60 ? n : 60, at);
		if (strchr(file, '/') || !strcmp(file, "host.py") ||
		    !code_path(path, "harness/peers", file)) {
			complain_of_name(option, at, n);
			return 0;
		}
		snprintf(full, sizeof full, "%s/%s", path, file);
		if (!load(option, full, python))
			return 0;
		at += n + (at[n] == ',');
	} while (*at);
	return 1;
}
