/* trace_options.c - the options of a simulated trace, for eval and bench. */
#include "eval.h"
#include "harness/base/base.h"
#include <argp.h>
#include <stdlib.h>

static double load_of(const char *arg, struct argp_state *state)
{
	char *end;
	const double load = strtod(arg, &end);
	if (*end || !(load > 0 && load <= 10))
		argp_error(state, "--load '%s' should be a share as in 0.95", arg);
	return load;
}

int trace_option(struct trace_options *o, int key, const char *arg, struct argp_state *state)
{
	switch (key) {
	case OPT_TRACE: o->path = arg; return 0;
	case 'm': o->given = "model", o->model = arg; return 0;
	case OPT_LOAD: o->given = "load", o->load = load_of(arg, state); return 0;
	case OPT_STEPS: o->steps = whole_option(o->given = "steps", arg, state); return 0;
	case OPT_REQUESTS: o->requests = whole_option(o->given = "requests", arg, state); return 0;
	case OPT_BATCHED:
		o->max_batched = whole_option(o->given = "max-batched-tokens", arg, state);
		return 0;
	case ARGP_KEY_END:
		if (o->path && !o->model)
			argp_error(state, "--trace needs --model, as in llama3.1-8b@1");
		if (o->given && !o->path)
			argp_error(state, "--%s is of --trace, which is not given", o->given);
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}
