/* SPDX-License-Identifier: Apache-2.0 */
/* commands.h - the subcommands sweep, devices, scenarios, merge and merge --settled.
 * Includes any folder of the harness. */
#ifndef HARNESS_COMMANDS_COMMANDS_H
#define HARNESS_COMMANDS_COMMANDS_H

/* ---- sweep_cmd.c, devices_cmd.c, scenarios_cmd.c, merge_cmd.c, merge_settled_cmd.c */
int cmd_sweep(int argc, char **argv);
int cmd_devices(int argc, char **argv);
int cmd_scenarios(int argc, char **argv);
int cmd_merge(int argc, char **argv);
int cmd_merge_settled(int argc, char **argv);

#endif
