/* plugin_decision.h - learns where plug-ins run: the trees over plug-ins of a forest whose other
 * trees are made. */
#ifndef TUNER_INDUCE_PLUGIN_DECISION_H
#define TUNER_INDUCE_PLUGIN_DECISION_H

struct data;
struct forest;
struct limits;

/* From data that have the times of the plug-ins to be named, and of no others. Adds rows of plugin
 * and the three trees; neither, if a plug-in gains nowhere. 0 without memory. */
int fit_plugins(struct forest *, const struct data *, const struct limits *);

#endif
