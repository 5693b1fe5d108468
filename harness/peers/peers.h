/* SPDX-License-Identifier: Apache-2.0 */
/* peers.h - peers: kernels that are called from Python. Each is a file with a class Peer
 * (README.md in this folder) and races as a plug-in (attune_plugin.h).
 *
 * A Python process of its own loads the file and prints what the class says of itself. The kernel
 * runs in attune's worker process, which opens libpython. */
#ifndef HARNESS_PEERS_PEERS_H
#define HARNESS_PEERS_PEERS_H

#include <argp.h>

enum { MOST_PEERS = 12 }; /* as many as plug-ins */

/* ---- peers.c ---- */
/* Registers the peer of a file. `python`: the interpreter; NULL: python3. 0 + complain. */
int peer_load(const char *file, const char *python);
/* The same for peers of this folder: their names, separated by commas. */
int peer_load_named(const char *names, const char *python);

/* ---- options.c ---- */
/* --with, --peer and --python, for the argp of a command. They register the peers before the
 * command's own parser gets ARGP_KEY_END. */
extern const struct argp_child peers_options[2];

#endif
