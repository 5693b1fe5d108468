/* plugin_load.c - opens a plug-in's shared object and registers its kernels. */
#include "plugin.h"
#include "harness/base/base.h"
#include "kernels/spec/plugin.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

int plugin_load(const char *file)
{
	char path[PATH_MAX];
	const attune_plugin *const *(*list)(void);
	if (!realpath(file, path)) {
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
	for (; *p; p++)
		if (attune_register_plugin(*p)) {
			complain("--plugin %s: %s", file, attune_last_error());
			return 0;
		}
	return 1;
}
