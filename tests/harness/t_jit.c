/* SPDX-License-Identifier: Apache-2.0 */
/* t_jit.c - compiling through the cache: what is found again, what is compiled again, and what a
 * refusal looks like. Four rows need NVRTC. */
#include "small_sources.h"
#include "kernels/spec/kernel.h"

static int files_in_cache(const char *suffix)
{
	int n = 0;
	DIR *d = opendir(in_folder("cache"));
	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d));) {
		const size_t len = strlen(e->d_name), end = strlen(suffix);
		n += e->d_name[0] != '.' && len > end && !strcmp(e->d_name + len - end, suffix);
	}
	closedir(d);
	return n;
}

static const char answer_c[] = "#include \"answer.h\"\nint ENTRY(void) { return ANSWER; }\n";

static int loaded_answer(const char *flags)
{
	struct binary b;
	assert_int_equal(jit_compile_source(&b, in_folder("answer.c"), flags, "scalar"), 0);
	assert_non_null(b.blob.path);
	assert_int_equal(b.registers, -1);
	void *library = dlopen(b.blob.path, RTLD_NOW);
	assert_non_null(library);
	void *symbol = dlsym(library, b.blob.entry);
	assert_non_null(symbol);
	int (*function)(void);
	memcpy(&function, &symbol, sizeof function);
	const int answer = function();
	dlclose(library);
	jit_free(&b);
	return answer;
}

static void found_again(void **state)
{
	(void)state;
	int cached;
	source("answer.h", "#define ANSWER (40 + MORE)\n");
	source("answer.c", answer_c);
	const int before = files_in_cache(".so");
	assert_int_equal(loaded_answer("-DMORE=2"), 42);
	assert_int_equal(compile("answer.c", "-DMORE=2", "scalar", &cached), 0);
	assert_true(cached);
	assert_int_equal(loaded_answer("-DMORE=2"), 42);
	assert_int_equal(files_in_cache(".so"), before + 1);
	assert_int_equal(compile("answer.c", "-DMORE=3", "scalar", &cached), 0);
	assert_false(cached);
	assert_int_equal(loaded_answer("-DMORE=3"), 43);
	assert_int_equal(files_in_cache(".so"), before + 2);
	assert_int_equal(files_in_cache(".so") + files_in_cache(".cubin"), files_in_cache(".txt"));
}

static void changed_header(void **state)
{
	(void)state;
	int cached;
	source("answer.c", answer_c);
	source("answer.h", "  #  include \"deeper.h\"\n#include \"answer.h\"\n");
	source("deeper.h", "#ifndef ANSWER\n#define ANSWER 1\n#endif\n");
	assert_int_equal(compile("answer.c", "", "scalar", &cached), 1); /* includes itself */
	source("answer.h", "  #  include \"deeper.h\"\n");
	assert_int_equal(loaded_answer(""), 1);
	source("deeper.h", "#define ANSWER 2 /* a comment, then another */\n");
	assert_int_equal(compile("answer.c", "", "scalar", &cached), 0);
	assert_false(cached);
	assert_int_equal(loaded_answer(""), 2);
	source("deeper.h", "// prose alone\n\n#define   ANSWER 2\n");
	assert_int_equal(compile("answer.c", "", "scalar", &cached), 0);
	assert_true(cached);
}

static void refusal(void **state)
{
	(void)state;
	struct binary b;
	source("wrong.c", "int ENTRY(void) { return missing_thing; }\n");
	for (int cached = 0; cached < 2; cached++) {
		assert_int_equal(jit_compile_source(&b, in_folder("wrong.c"), "", "scalar"), 1);
		assert_non_null(strstr(b.log, "missing_thing"));
		assert_int_equal(b.cached, cached);
		assert_null(b.blob.path);
		jit_free(&b);
	}
	source("wrong.c", "int missing_thing;\nint ENTRY(void) { return missing_thing; }\n");
	assert_int_equal(jit_compile_source(&b, in_folder("wrong.c"), "", "scalar"), 0);
	assert_false(b.cached);
	jit_free(&b);
}

/* A compiler that was killed says nothing of the source. The second try counts, and no record is
 * kept; without room it is impossible to compile. */
static void killed(void **state)
{
	(void)state;
	static const struct {
		const char *script;
		int status;
		const char *log;
	} rows[] = {
		{ "mkdir \"$0.once\" 2>/dev/null && kill -9 $$", 0, "" },
		{ "mkdir \"$0.once2\" 2>/dev/null && { echo 'gcc: fatal error: Killed signal "
		  "terminated program cc1' >&2; exit 1; }",
		  0, "" },
		{ "kill -9 $$", 1, "was killed: Killed" },
		{ "echo 'collect2: fatal error: ld terminated with signal 9 [Killed]' >&2; exit 1",
		  1, "terminated with signal 9" },
		{ "echo 'cc1: out of memory allocating 65536 bytes' >&2; exit 1", 1,
		  "out of memory" },
		{ "echo 'a.c:1: fatal error: when writing output to /x.s: No space left on device' "
		  ">&2; exit 1",
		  2, "" },
	};
	char path[128];
	const char *before = getenv("CC");
	char *cc = before ? strdup(before) : NULL;
	snprintf(path, sizeof path, "%s", in_folder("killed_cc"));
	source("steady.c", "int ENTRY(void) { return 7; }\n");
	jit_version(BACKEND_CPU, "scalar"); /* asks the real compiler */
	setenv("CC", path, 1);
	for (size_t i = 0; i < COUNT(rows); i++) {
		char script[400], flags[20];
		struct binary b;
		snprintf(script, sizeof script, "#!/bin/sh\n%s\nexec cc \"$@\"\n", rows[i].script);
		snprintf(flags, sizeof flags, "-DROW=%zu", i);
		source("killed_cc", script);
		assert_int_equal(chmod(path, 0755), 0);
		const int status = jit_compile_source(&b, in_folder("steady.c"), flags, "scalar");
		assert_int_equal(status, rows[i].status);
		assert_true(status != 1 || strstr(b.log, rows[i].log));
		jit_free(&b);
		source("killed_cc", "#!/bin/sh\nexec cc \"$@\"\n");
		assert_int_equal(jit_compile_source(&b, in_folder("steady.c"), flags, "scalar"), 0);
		assert_int_equal(b.cached, rows[i].status == 0);
		jit_free(&b);
	}
	assert_int_equal(cc ? setenv("CC", cc, 1) : unsetenv("CC"), 0);
	free(cc);
}

enum damage { REMOVED, EMPTIED, HALVED, REPLACED, ONE_BYTE, NUM_DAMAGES };

static void damage(const char *path, enum damage how)
{
	struct stat s;
	const int fd = open(path, O_RDWR | O_CLOEXEC);
	char byte;
	assert_true(fd >= 0 && fstat(fd, &s) == 0 && pread(fd, &byte, 1, s.st_size / 2) == 1);
	byte ^= 1;
	assert_true(how != REMOVED || unlink(path) == 0);
	assert_true(how != EMPTIED || ftruncate(fd, 0) == 0);
	assert_true(how != HALVED || ftruncate(fd, s.st_size / 2) == 0);
	assert_true(how != REPLACED || (ftruncate(fd, 0) == 0 && pwrite(fd, "text\n", 5, 0) == 5));
	assert_true(how != ONE_BYTE || pwrite(fd, &byte, 1, s.st_size / 2) == 1);
	close(fd);
}

/* A binary or a record that a power loss damaged is compiled again, and is right from then on. */
static void damaged_cache(void **state)
{
	(void)state;
	struct binary b;
	char file[2][300];
	source("answer.h", "#define ANSWER 42\n");
	source("answer.c", answer_c);
	assert_int_equal(jit_compile_source(&b, in_folder("answer.c"), "", "scalar"), 0);
	for (int i = 0; i < 2; i++)
		snprintf(file[i], sizeof file[i], "%s", b.blob.path);
	strcpy(strrchr(file[1], '.'), ".txt");
	jit_free(&b);
	for (int i = 0; i < 2; i++)
		for (enum damage how = REMOVED; how < NUM_DAMAGES; how++) {
			damage(file[i], how);
			for (int cached = 0; cached < 2; cached++) {
				assert_int_equal(
				    jit_compile_source(&b, in_folder("answer.c"), "", "scalar"), 0);
				assert_int_equal(b.cached, cached);
				jit_free(&b);
			}
			assert_int_equal(loaded_answer(""), 42);
		}
}

/* A compiler that fails without a word: what it made has the hash of the record, and does not load.
 * The first load says so; the next compiles again, and the kernel is not blamed. */
static void failed_load(void **state)
{
	(void)state;
	char path[128];
	const char *before = getenv("CC");
	char *cc = before ? strdup(before) : NULL;
	struct device dev;
	struct code *code = NULL;
	assert_int_equal(device_open(&dev, "cpu"), ATTUNE_OK);
	snprintf(path, sizeof path, "%s", in_folder("broken_cc"));
	source("broken_cc",
	       "#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done; echo text >\"$2\"\n");
	source("loads.c", "int ENTRY(void) { return 7; }\n");
	assert_int_equal(chmod(path, 0755), 0);
	jit_version(BACKEND_CPU, "scalar"); /* asks the real compiler */
	setenv("CC", path, 1);
	for (int i = 0; i < 2; i++) {
		assert_int_not_equal(
		    jit_load_source(&dev, &code, in_folder("loads.c"), "", "scalar"), ATTUNE_OK);
		assert_null(code);
	}
	source("broken_cc", "#!/bin/sh\nexec cc \"$@\"\n");
	assert_int_equal(jit_load_source(&dev, &code, in_folder("loads.c"), "", "scalar"),
			 ATTUNE_OK);
	dev.ops->unload(&dev, code);
	assert_int_equal(cc ? setenv("CC", cc, 1) : unsetenv("CC"), 0);
	free(cc);
	device_close(&dev);
}

static void *compile_many(void *arg)
{
	long bad = 0;
	for (int i = 0; i < 6; i++) {
		struct binary b;
		char flags[32];
		snprintf(flags, sizeof flags, "-DANSWER=%d", i);
		bad += jit_compile_source(&b, ((char **)arg)[0], flags, ((char **)arg)[1]) != 0;
		jit_free(&b);
	}
	return (void *)bad;
}

static void two_threads(char *name, char *arch)
{
	pthread_t t[2];
	char path[128];
	char *arg[2] = { path, arch };
	snprintf(path, sizeof path, "%s", in_folder(name));
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&t[i], NULL, compile_many, arg), 0);
	for (int i = 0; i < 2; i++) {
		void *bad;
		assert_int_equal(pthread_join(t[i], &bad), 0);
		assert_null(bad);
	}
	for (int cached, i = 0; i < 6; i++) {
		char flags[32];
		snprintf(flags, sizeof flags, "-DANSWER=%d", i);
		assert_int_equal(compile(name, flags, arch, &cached), 0);
		assert_true(cached);
	}
}

static void threads_cc(void **state)
{
	(void)state;
	source("threads.c", "int ENTRY(void) { return ANSWER; }\n");
	two_threads("threads.c", "scalar");
}

/* Complaints are one line; `compile` returns 2. */
static void no_way(void **state)
{
	(void)state;
	struct binary b;
	static const struct {
		const char *name, *arch, *says;
	} rows[] = {
		{ "absent.c", "scalar", "absent.c: cannot be read" },
		{ "answer.c", "pdp11", "pdp11" },
		{ "answer.txt", "scalar", "neither" },
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		char said[500] = "";
		const int kept = dup(2),
			  fd = open(in_folder("stderr"), O_RDWR | O_CREAT | O_TRUNC, 0600);
		assert_true(kept >= 0 && fd >= 0 && dup2(fd, 2) == 2);
		const int status =
		    jit_compile_source(&b, in_folder(rows[i].name), "", rows[i].arch);
		dup2(kept, 2);
		assert_true(pread(fd, said, sizeof said - 1, 0) > 0);
		close(kept);
		close(fd);
		jit_free(&b);
		assert_int_equal(status, 2);
		assert_non_null(strstr(said, rows[i].says));
		assert_true(strchr(said, '\n') == said + strlen(said) - 1);
	}
}

/* A row names each binary of its choice: a helper's too, whatever the number of segments. */
static void code_of_choices(void **state)
{
	(void)state;
	static const struct {
		const char *choice, *helper;
	} rows[] = {
		{ "COMBINE=0 SEGMENTS=8", "reduce:" },
		{ "COMBINE=0 SEGMENTS=1", "reduce:" },
		{ "COMBINE=2 SEGMENTS=8", "reduce_wide:" },
		{ "COMBINE=2 SEGMENTS=1", "reduce_wide:" },
	};
	char text[200], code[CODE_TEXT], hash[33], want[100];
	const struct kernel *ring = kernel_find(BACKEND_GPU, "ring");
	assert_int_equal(source_identity(ring, hash), 1);
	snprintf(want, sizeof want, " ring:%s", hash);
	for (size_t i = 0; i < COUNT(rows); i++) {
		snprintf(text, sizeof text,
			 "ring BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=2 %s", rows[i].choice);
		store_code(code, BACKEND_GPU, text);
		assert_int_equal(strncmp(code, rows[i].helper, strlen(rows[i].helper)), 0);
		assert_string_equal(strchr(code, ' '), want);
	}
	store_code(code, BACKEND_GPU, "no_such_kernel A=1");
	assert_string_equal(code, "none");
}

/* ---- NVRTC ------------------------------------------------------------------------ */

static const char kernel_cu[] = "#include \"answer.h\"\n"
				"extern \"C\" __global__ void ENTRY(float *p)\n"
				"{\n"
				"	__shared__ float s[100];\n"
				"	s[threadIdx.x] = p[threadIdx.x] + ANSWER;\n"
				"	__syncthreads();\n"
				"	p[threadIdx.x] = s[threadIdx.x ^ 1];\n"
				"}\n";

static void cubin(void **state)
{
	(void)state;
	struct binary b;
	int cached;
	source("answer.h", "#define ANSWER 1\n");
	source("kernel.cu", kernel_cu);
	for (int again = 0; again < 2; again++) {
		assert_int_equal(jit_compile_source(&b, in_folder("kernel.cu"), "", "sm_90"), 0);
		assert_int_equal(b.cached, again);
		assert_true(b.blob.size > 64 && !memcmp(b.blob.data, "\177ELF", 4));
		assert_true(b.registers > 0 && b.registers < 64);
		assert_int_equal(b.spill_bytes, 0);
		assert_int_equal(b.smem_static, 400);
		jit_free(&b);
	}
	assert_int_equal(compile("kernel.cu", "", "sm_90a", &cached), 0);
	assert_false(cached);
	source("answer.h", "#define ANSWER 2\n");
	assert_int_equal(compile("kernel.cu", "", "sm_90", &cached), 0);
	assert_false(cached);
}

/* HIPCC names the compiler. It is asked once what it takes and which version it is. */
static void compiler_for_amd(void **state)
{
	char command[200];
	(void)state;
	source("hipcc.sh",
	       "case \"$*\" in\n"
	       "*--version*) printf 'A vendor clang version 99.1.2 (x)\\nTarget: y\\n' ;;\n"
	       "*--offload-arch=gfx942*) ;;\n"
	       "*) exit 1 ;;\n"
	       "esac\n");
	snprintf(command, sizeof command, "sh %s", in_folder("hipcc.sh"));
	assert_int_equal(setenv("HIPCC", command, 1), 0);
	assert_int_equal(setenv("ATTUNE_HIP_LIBRARY", "/nowhere/libamdhip64.so", 1), 0);
	assert_string_equal(jit_version(BACKEND_GPU, "gfx942"), "clang 99.1.2");
	assert_string_equal(jit_version(BACKEND_GPU, "gfx950"), "none");
	unsetenv("HIPCC");
	unsetenv("ATTUNE_HIP_LIBRARY");
}

static void spills(void **state)
{
	(void)state;
	struct binary b;
	source("spill.cu", "extern \"C\" __global__ void __maxnreg__(24) ENTRY(float *p)\n"
			   "{\n"
			   "	float a[64];\n"
			   "#pragma unroll\n"
			   "	for (int i = 0; i < 64; i++)\n"
			   "		a[i] = p[i * 33];\n"
			   "	__syncthreads();\n"
			   "#pragma unroll\n"
			   "	for (int i = 0; i < 64; i++)\n"
			   "		p[(i * 7) % 64] = a[i] * a[63 - i];\n"
			   "}\n");
	assert_int_equal(jit_compile_source(&b, in_folder("spill.cu"), "", "sm_90"), 0);
	assert_int_equal(b.registers, 24);
	assert_true(b.spill_bytes > 0);
	jit_free(&b);
}

static void cubin_refused(void **state)
{
	(void)state;
	struct binary b;
	source("wrong.cu", "extern \"C\" __global__ void ENTRY() { missing_thing(); }\n");
	for (int cached = 0; cached < 2; cached++) {
		assert_int_equal(jit_compile_source(&b, in_folder("wrong.cu"), "", "sm_90"), 1);
		assert_non_null(strstr(b.log, "missing_thing"));
		assert_int_equal(b.cached, cached);
		jit_free(&b);
	}
}

static void threads_nvrtc(void **state)
{
	(void)state;
	source("threads.cu", "extern \"C\" __global__ void ENTRY(int *p) { *p = ANSWER; }\n");
	two_threads("threads.cu", "sm_90");
}

int main(void)
{
	const struct CMUnitTest t[] = {
		cmocka_unit_test(found_again),     cmocka_unit_test(changed_header),
		cmocka_unit_test(refusal),         cmocka_unit_test(damaged_cache),
		cmocka_unit_test(failed_load),     cmocka_unit_test(threads_cc),
		cmocka_unit_test(no_way),          cmocka_unit_test(killed),
		cmocka_unit_test(code_of_choices), cmocka_unit_test(compiler_for_amd),
		cmocka_unit_test(cubin),           cmocka_unit_test(spills),
		cmocka_unit_test(cubin_refused),   cmocka_unit_test(threads_nvrtc),
	};
	enum { NVRTC_ROWS = 4 };
	const int nvrtc = strcmp(jit_version(BACKEND_GPU, "sm_90"), "none") != 0;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("jit", t, COUNT(t) - (nvrtc ? 0 : NVRTC_ROWS), make_folder,
				       remove_folder);
}
