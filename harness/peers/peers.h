/* peers.h - kernels in Python, races as plug-ins (attune_plugin.h): a file with a class Peer, which
 * README.md in this folder describes. What the class says of itself an interpreter prints, in a
 * process of its own; what it does it does in the worker process, which opens libpython. */
#ifndef HARNESS_PEERS_PEERS_H
#define HARNESS_PEERS_PEERS_H

#include <argp.h>

/* peers.c: registers the peer of a file, or those of names, separated by commas, that come with
 * attune. `python`: the interpreter; NULL: python3. 0 + complain. */
int peer_load(const char *file, const char *python);
int peer_load_named(const char *names, const char *python);

/* options.c: options of a command, as children of its argp. They register the peers before the
 * command's own parser gets ARGP_KEY_END. */
extern const struct argp_child peers_options[2];

#endif
