/* worker_report.c - sends a worker's messages to its parent. */
#include "records.h"
#include "harness/base/base.h"
#include "harness/measure/measure.h"
#include <stdio.h>
#include <unistd.h>

void report_message(const struct worker_state *l, struct message *message)
{
	message->bytes = sizeof *message;
	if (!pipe_send(l->socket, message, sizeof *message))
		_exit(0); /* the parent is gone */
}

void report_stage(const struct worker_state *l, int index, double seconds)
{
	struct message message = { .kind = MESSAGE_STAGE, .index = index, .patience_s = seconds };
	report_message(l, &message);
}

void report_result(const struct worker_state *l, int index, const struct measurement *m,
		   int failed_gate)
{
	struct message message = { .kind = MESSAGE_RESULT, .index = index };
	message.result.failed_gate = failed_gate;
	message.result.m = *m;
	report_message(l, &message);
}

void report_failure(const struct worker_state *l, int index, enum outcome outcome, const char *text)
{
	struct measurement m = { .outcome = outcome };
	snprintf(m.detail, sizeof m.detail, "%s", text);
	report_result(l, index, &m, 1);
}

void report_crash(const struct worker_state *l, int index, const char *text)
{
	report_failure(l, index, OUTCOME_CRASH, text);
	_exit(1);
}
