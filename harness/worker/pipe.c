/* SPDX-License-Identifier: Apache-2.0 */
/* pipe.c - the socket between a worker and its parent: sending, receiving, how both number
 * binaries, and the messages of a worker. */
#include "records.h"
#include "harness/base/base.h"
#include "harness/measure/measure.h"
#include "harness/search/search.h"
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

int pipe_send(int socket, const void *bytes, size_t n)
{
	const char *at = bytes;
	while (n) {
		ssize_t sent = send(socket, at, n, MSG_NOSIGNAL);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			return 0;
		at += sent;
		n -= (size_t)sent;
	}
	return 1;
}

int pipe_receive(int socket, void *bytes, size_t n)
{
	char *at = bytes;
	while (n) {
		ssize_t got = recv(socket, at, n, 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return 0;
		at += got;
		n -= (size_t)got;
	}
	return 1;
}

int worker_binaries(const struct problems *problems)
{
	int n = 1;
	for (int i = 0; problems && i < problems->num_built_choices; i++) {
		const struct built_choice *e = &problems->built_choice[i];
		n = e->built >= n ? e->built + 1 : n;
		for (enum helper h = 0; h < NUM_HELPERS; h++)
			n = e->helper[h] >= n ? e->helper[h] + 1 : n;
	}
	return n;
}

/* ---- messages to the parent -------------------------------------------------------- */
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
