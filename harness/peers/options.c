/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - the options of commands that race peers: --with, --peer, --python. */
#include "peers.h"
#include "harness/base/base.h"
#include <argp.h>
#include <stdlib.h>

enum { OPT_WITH = 5000, OPT_PEER, OPT_PYTHON };

static const struct argp_option rows[] = {
	{ 0, 0, 0, 0, "Kernels in Python (harness/peers/README.md):", 8 },
	{ "with", OPT_WITH, "NAMES", 0,
	  "Also race these peers of attune: torch_sdpa,triton_paged,... (the page lists them)", 0 },
	{ "peer", OPT_PEER, "FILE", 0,
	  "Also race the class Peer of this Python file; may be repeated", 0 },
	{ "python", OPT_PYTHON, "PATH", 0,
	  "The Python that has the packages of the peers (default: python3)", 0 },
	{ 0 }
};

static struct {
	const char *with, *python, *file[MOST_PEERS];
	int num_files;
} asked;

static int load(void)
{
	for (int i = 0; i < asked.num_files; i++)
		if (!peer_load(asked.file[i], asked.python))
			return 0;
	return !asked.with || peer_load_named(asked.with, asked.python);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case OPT_WITH: asked.with = arg; return 0;
	case OPT_PYTHON: asked.python = arg; return 0;
	case OPT_PEER:
		if (asked.num_files == MOST_PEERS)
			argp_error(state, "at most %d peers can be raced together", MOST_PEERS);
		asked.file[asked.num_files++] = arg;
		return 0;
	case ARGP_KEY_END:
		if (!load())
			exit(EXIT_USAGE);
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = { .options = rows, .parser = parse };
const struct argp_child peers_options[2] = { { .argp = &argp, .group = 8 } };
