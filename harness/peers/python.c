/* SPDX-License-Identifier: Apache-2.0 */
/* python.c - opens libpython, starts its interpreter and runs host.py in it.
 *
 * The interpreter is isolated as by `python -I`: neither the environment nor the current folder nor
 * the user's own site-packages change what is imported. It stays until the process ends. */
#include "python.h"
#include "harness/base/base.h"
#include "kernels/spec/choice.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

EMBED(peers_host, "harness/peers/host.py")

/* The part of libpython that is used here; it is the same in Python 3.9 to 3.13. */
struct python {
	void (*set_program)(const wchar_t *name);
	void (*initialize)(int signals);
	int (*run)(const char *text, void *flags);
	void *(*save_thread)(void);
	int *isolated, *no_environment, *no_user_site;
};

static int find_symbols(struct python *p, void *library, char *error)
{
	const struct {
		void *at;
		const char *name;
	} symbols[] = { { &p->set_program, "Py_SetProgramName" },
			{ &p->initialize, "Py_InitializeEx" },
			{ &p->run, "PyRun_SimpleStringFlags" },
			{ &p->save_thread, "PyEval_SaveThread" },
			{ &p->isolated, "Py_IsolatedFlag" },
			{ &p->no_environment, "Py_IgnoreEnvironmentFlag" },
			{ &p->no_user_site, "Py_NoUserSiteDirectory" } };
	for (size_t i = 0; i < COUNT(symbols); i++) {
		void *found = dlsym(library, symbols[i].name);
		memcpy(symbols[i].at, &found, sizeof found);
		if (!found) {
			snprintf(error, ATTUNE_PLUGIN_ERROR, "libpython has no %s",
				 symbols[i].name);
			return 0;
		}
	}
	return 1;
}

#define NAME(name) " " #name
static const char field_names[] = EACH_OF_BATCH(NAME) EACH_TENSOR(NAME);
#undef NAME

static int start(const struct python *p, const wchar_t *executable, struct python_calls *calls)
{
	char *text;
	*p->isolated = *p->no_environment = *p->no_user_site = 1;
	p->set_program(executable);
	p->initialize(0);
	if (asprintf(&text, "attune_calls, attune_fields = %llu, '%s'\n%s",
		     (unsigned long long)(uintptr_t)calls, field_names, peers_host) < 0)
		return 0;
	const int failed = p->run(text, NULL);
	free(text);
	p->save_thread(); /* releases the interpreter lock, so that any thread may call */
	return !failed && calls->drop;
}

const struct python_calls *python_open(const char *library, const char *executable, char *error)
{
	static struct python_calls calls;
	static wchar_t program[PATH_TEXT]; /* libpython keeps the pointer */
	struct python p;
	if (calls.drop)
		return &calls;
	/* Global: extension modules find libpython's symbols there. */
	void *object = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
	if (!object) {
		snprintf(error, ATTUNE_PLUGIN_ERROR, "%s", dlerror());
		return NULL;
	}
	if (!find_symbols(&p, object, error))
		return NULL;
	if (mbstowcs(program, executable, COUNT(program)) >= COUNT(program) ||
	    !start(&p, program, &calls)) {
		snprintf(error, ATTUNE_PLUGIN_ERROR, "%.80s did not start in this process",
			 executable);
		return NULL;
	}
	return &calls;
}
