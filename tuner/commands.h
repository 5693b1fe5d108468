/* SPDX-License-Identifier: Apache-2.0 */
/* commands.h - the entry points of the subcommands in tuner/. main.c has the table. Each returns
 * an exit code. */
#ifndef TUNER_COMMANDS_H
#define TUNER_COMMANDS_H

int cmd_tune(int argc, char **argv);
int cmd_contribute(int argc, char **argv);
int cmd_induce(int argc, char **argv);
int cmd_eval(int argc, char **argv);
int cmd_show(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_plot(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_confirm(int argc, char **argv);
int cmd_settled_next(int argc, char **argv);

#endif
