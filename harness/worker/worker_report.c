/* worker_report.c - a worker's words to its parent. */
#include "records.h"
#include "harness/base/base.h"
#include "harness/measure/measure.h"
#include <stdio.h>
#include <unistd.h>

void work_say(const struct life *l, struct said *said)
{
	said->bytes = sizeof *said;
	if (!work_send(l->socket, said, sizeof *said))
		_exit(0); /* the parent is gone */
}

void work_stage(const struct life *l, int index, double seconds)
{
	struct said said = { .word = SAYS_STAGE, .index = index, .patience_s = seconds };
	work_say(l, &said);
}

void work_result(const struct life *l, int index, const struct measurement *m, int failed_gate)
{
	struct said said = { .word = SAYS_RESULT, .index = index };
	said.result.failed_gate = failed_gate;
	said.result.m = *m;
	work_say(l, &said);
}

void work_failed(const struct life *l, int index, enum outcome outcome, const char *text)
{
	struct measurement m = { .outcome = outcome };
	snprintf(m.detail, sizeof m.detail, "%s", text);
	work_result(l, index, &m, 1);
}

void work_die(const struct life *l, int index, const char *text)
{
	work_failed(l, index, OUTCOME_CRASH, text);
	_exit(1);
}
