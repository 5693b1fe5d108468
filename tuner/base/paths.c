/* SPDX-License-Identifier: Apache-2.0 */
/* paths.c - finds the GPU that is meant, its database and its header. */
#include "base.h"
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "kernels/device/shared/gpu_names.h"
#include "kernels/select/selector.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int gpu_or_own(const char *asked, char gpu[GPU_NAME])
{
	struct device dev;
	if (!asked && device_open(&dev, NULL)) {
		complain("%s; name a measured one with --gpu", attune_last_error());
		return 0;
	}
	snprintf(gpu, GPU_NAME, "%s", asked ? asked : dev.info.gpu);
	if (!asked)
		device_close(&dev);
	return 1;
}

/* Prefers files of this machine to those that come with the project. */
static void prefer_local(char path[PATH_TEXT], const char *folder, const char *format,
			 const char *gpu)
{
	char name[128];
	snprintf(name, sizeof name, format, gpu);
	snprintf(path, PATH_TEXT, "%s/local/%s", folder, name);
	if (access(path, R_OK))
		snprintf(path, PATH_TEXT, "%s/%s", folder, name);
}

/* The GPU whose header the library uses for this one. "": none, or the GPU is unknown. */
static const char *borrowed_from(const char *gpu)
{
	const int length = gpu_length(gpu);
	char whole[GPU_NAME];
	struct device_info d;
	snprintf(whole, sizeof whole, "%.*s", length, gpu);
	const struct gpu_model *m = gpu_model(whole);
	if (!m)
		return "";
	gpu_describe(&d, m);
	const struct selector *s = selector_for(&d, gpu[length] ? ATTUNE_E4M3 : ATTUNE_BF16);
	return s ? s->gpu : "";
}

void gpu_of_rows(char gpu[GPU_NAME], const char *header)
{
	if (!strcmp(header, PORTABLE_GPU))
		snprintf(gpu, GPU_NAME, "%s", PORTABLE_ROWS);
	else
		snprintf(gpu, GPU_NAME, "%.*s", gpu_length(header), header);
}

void own_header(char path[PATH_TEXT], const char *gpu)
{
	prefer_local(path, "generated", "attune_%s.h", gpu);
}

void db_path(char path[PATH_TEXT], const char *asked, const char *gpu)
{
	const char *name = strcmp(gpu, PORTABLE_GPU) ? gpu : PORTABLE_ROWS;
	const int is_folder = asked && *asked && asked[strlen(asked) - 1] == '/';
	if (asked)
		snprintf(path, PATH_TEXT, "%s%s%s", asked, is_folder ? name : "",
			 is_folder ? ".sqlite" : "");
	else
		prefer_local(path, "results", "%s.sqlite", name);
}

/* The file of `make install`, if there is none here. */
static void installed(char path[PATH_TEXT])
{
	char found[PATH_TEXT];
	strcpy(path, data_path(found, path));
}

void db_path_to_read(char path[PATH_TEXT], const char *asked, const char *gpu)
{
	db_path(path, asked, gpu);
	if (!asked)
		installed(path);
}

void rules_path(char path[PATH_TEXT], const char *asked, const char *gpu)
{
	const char *from = "";
	if (asked) {
		snprintf(path, PATH_TEXT, "%s", asked);
		return;
	}
	own_header(path, gpu);
	if (access(path, R_OK))
		installed(path);
	if (access(path, R_OK))
		from = borrowed_from(gpu);
	if (*from) {
		snprintf(path, PATH_TEXT, "generated/attune_%s.h", from);
		installed(path);
		complain(strcmp(from, PORTABLE_GPU)
			     ? "%s has no rules of its own: these are borrowed from %s"
			     : "%s has no rules of its own and no nearer ones: these are the %s ones",
			 gpu, from);
	}
}
