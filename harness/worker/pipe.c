/* pipe.c - the socket between a worker and its parent: sending, receiving, and how both number
 * binaries. */
#include "records.h"
#include "harness/search/search.h"
#include <errno.h>
#include <sys/socket.h>

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
