/* SPDX-License-Identifier: Apache-2.0 */
/* tune_here.c - finds, installs and restores the rules and databases of this machine. */
#include "tune.h"
#include "harness/base/base.h"
#include "tuner/base/base.h"
#include "tuner/forest/forest.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* 0 after a complaint. */
static int make_folder(const char *parent, const char *name)
{
	char path[PATH_MAX];
	snprintf(path, sizeof path, "%s/%s", parent, name);
	if (!mkdir(path, 0777) || errno == EEXIST)
		return 1;
	complain("%s: the folder cannot be created: %s", path, strerror(errno));
	return 0;
}

/* Whether local rules are there, in the form that this version writes. */
static int has_own_rules(const struct here *h)
{
	char *text = file_text(h->header);
	const int has = text && !header_is_older(text);
	free(text);
	return has;
}

/* Local rules come first: they belong to this machine. Otherwise those that the library selects
 * for the device: by instruction sets and threads for a CPU, by model for a GPU. */
static void find_rules(struct here *h, const struct device_info *d, const char *generated)
{
	const struct selector *s = selector_for(d, ATTUNE_BF16);
	h->rules = RULES_NONE;
	if (has_own_rules(h)) {
		h->rules = RULES_LOCAL;
		snprintf(h->rules_gpu, sizeof h->rules_gpu, "%s", h->gpu);
		snprintf(h->rules_path, sizeof h->rules_path, "%s", h->header);
		return;
	}
	if (!s)
		return;
	snprintf(h->rules_gpu, sizeof h->rules_gpu, "%s", s->gpu);
	snprintf(h->rules_path, sizeof h->rules_path, "%s/attune_%s.h", generated, s->gpu);
	if (!access(h->rules_path, R_OK))
		h->rules = strcmp(s->gpu, h->gpu) ? RULES_BORROWED : RULES_COMMITTED;
}

static void read_device(struct here *h)
{
	char *text = h->rules ? file_text(h->rules_path) : NULL;
	if (text)
		header_device(text, h->rules_device);
	free(text);
}

/* The committed database of this GPU, else of the one that the library borrows rules from. */
static void find_prior(struct here *h, const struct device_info *d, const char *results)
{
	const struct selector *s = selector_for(d, ATTUNE_BF16);
	const char *const names[] = { h->gpu, s ? s->gpu : "" };
	h->prior_db[0] = h->prior_gpu[0] = '\0';
	for (size_t i = 0; i < COUNT(names) && !*h->prior_gpu; i++) {
		snprintf(h->prior_db, sizeof h->prior_db, "%s/%s.sqlite", results, names[i]);
		if (*names[i] && !access(h->prior_db, R_OK))
			snprintf(h->prior_gpu, sizeof h->prior_gpu, "%s", names[i]);
	}
}

int here_find(struct here *h, const struct device_info *d, const char *results,
	      const char *generated)
{
	*h = (struct here){ 0 };
	snprintf(h->gpu, sizeof h->gpu, "%s", d->gpu);
	snprintf(h->db, sizeof h->db, "%s/local/%s.sqlite", results, h->gpu);
	snprintf(h->header, sizeof h->header, "%s/local/attune_%s.h", generated, h->gpu);
	snprintf(h->before, sizeof h->before, "%s/local/attune_%s.h.before", generated, h->gpu);
	find_rules(h, d, generated);
	read_device(h);
	find_prior(h, d, results);
	return make_folder(results, "local") && make_folder(generated, "local");
}

void here_rules_text(const struct here *h, char *text, size_t size)
{
	static const char *const kinds[] = { [RULES_NONE] = "the kernels' defaults",
					     [RULES_BORROWED] = "the borrowed rules of",
					     [RULES_COMMITTED] = "the committed rules of",
					     [RULES_LOCAL] = "the local rules of" };
	const int has_device = h->rules && *h->rules_device;
	snprintf(text, size, "%s%s%s%s%s", kinds[h->rules], h->rules ? " " : "",
		 h->rules ? h->rules_gpu : "", has_device ? ", measured on " : "",
		 has_device ? h->rules_device : "");
}

static int put_aside(const char *from, const char *to)
{
	if (!rename(from, to) || errno == ENOENT)
		return 1;
	complain("%s: cannot be renamed to %s: %s", from, to, strerror(errno));
	return 0;
}

/* Without previous rules, the committed ones are in force again. */
int here_undo(struct here *h)
{
	char aside[PATH_MAX + 8];
	snprintf(aside, sizeof aside, "%s.swap", h->before);
	if (access(h->header, R_OK) && access(h->before, R_OK) && access(aside, R_OK)) {
		complain("%s: no tune of this machine has installed rules", h->header);
		return 0;
	}
	h->has_installed = 0;
	/* A file aside is of an undo that was killed: this one ends it. */
	return (!access(aside, R_OK) || put_aside(h->header, aside)) &&
	       put_aside(h->before, h->header) && put_aside(aside, h->before);
}

/* old: the rules in force; NULL: there were none of this machine, so there are no previous ones. */
static int keep_before(const struct here *h, const char *old)
{
	if (old)
		return file_put(h->before, old);
	if (!unlink(h->before) || errno == ENOENT)
		return 1;
	complain("%s: cannot be removed: %s", h->before, strerror(errno));
	return 0;
}

int here_install(struct here *h, const char *text)
{
	char *old = file_text(h->header);
	if (!old && !access(h->header, R_OK)) {
		complain("%s: cannot be read, so it is neither kept nor replaced", h->header);
		return 0;
	}
	const int same = old && !strcmp(old, text);
	const int kept = same || h->has_installed || keep_before(h, old);
	free(old);
	h->has_installed |= !same;
	return kept && (same || file_put(h->header, text));
}
