/* plugin_load.c - opens a plug-in's shared object and registers its kernels: "FILE", or of them
 * "FILE:one,two". */
#include "plugin.h"
#include "harness/base/base.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An empty list has all. */
static int is_asked(const char *names, const char *name)
{
	return !*names || list_has(names, name);
}

/* Each name must be of a kernel of the object. */
static int names_are_there(const char *file, const char *names, const attune_plugin *const *all)
{
	for (const char *at = names; *at; at += strcspn(at, ","), at += *at == ',') {
		const size_t n = strcspn(at, ",");
		const attune_plugin *const *p = all;
		while (*p && (strlen((*p)->name) != n || strncmp(at, (*p)->name, n)))
			p++;
		if (!*p) {
			complain("--plugin %s: it has no kernel \"%.*s\"", file, (int)n, at);
			return 0;
		}
	}
	return 1;
}

/* Splits "FILE:NAMES", unless a file has this name. */
static const char *split_names(char *path, const char *file)
{
	char *colon = strrchr(path, ':');
	if (!colon || !access(file, F_OK))
		return "";
	*colon = '\0';
	return colon + 1;
}

int plugin_load(const char *file)
{
	char asked[PATH_MAX], path[PATH_MAX];
	const attune_plugin *const *(*list)(void);
	snprintf(asked, sizeof asked, "%s", file);
	const char *names = split_names(asked, file);
	if (!realpath(asked, path)) {
		complain("--plugin %s: there is no such file", file);
		return 0;
	}
	void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!object) {
		complain("--plugin %s: %s", file, dlerror());
		return 0;
	}
	void *symbol = dlsym(object, "attune_plugins");
	if (!symbol) {
		complain("--plugin %s: it does not export attune_plugins (attune_plugin.h)", file);
		return 0;
	}
	memcpy(&list, &symbol, sizeof list);
	const attune_plugin *const *p = list();
	if (!p || !*p) {
		complain("--plugin %s: its attune_plugins lists no kernel", file);
		return 0;
	}
	if (!names_are_there(file, names, p))
		return 0;
	for (; *p; p++)
		if (is_asked(names, (*p)->name) && plugin_register(*p)) {
			complain("--plugin %s: %s", file, attune_last_error());
			return 0;
		}
	return 1;
}
