/* SPDX-License-Identifier: Apache-2.0 */
/* t_cuda_launch.c - the arguments of launches through a driver that only records them: the
 * kernel's parameter is passed by value where it is a prefix of what the kernel takes, else by
 * pointer; clusters and early launches set attributes. */
#include "kernels/args_maps.h"
#include "kernels/args_more.h"
#include "kernels/device/cuda/context.h"
#include "kernels/spec/space.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* CUlaunchConfig and CUlaunchAttribute of the driver's ABI. */
struct asked_attribute {
	int id, padding;
	unsigned value[16];
};
struct asked_config {
	unsigned grid[3], block[3], smem;
	void *stream;
	const struct asked_attribute *attributes;
	unsigned num_attributes;
};

/* The last call's. */
static struct note {
	int calls, extended;
	unsigned grid[3], block[3], smem, num_attributes;
	int id[3];
	unsigned value[3][3];
	void *function, *stream;
	unsigned char bytes[sizeof(struct attune_mapped)];
	int pointed, answer;
} note;

/* The driver's answer about each kernel's parameter. */
static struct {
	size_t offset, bytes;
	int error;
} parameter;

static int driver_param_info(void *kernel, size_t index, size_t *offset, size_t *bytes)
{
	assert_non_null(kernel);
	assert_int_equal(index, 0);
	*offset = parameter.offset;
	*bytes = parameter.bytes;
	return parameter.error;
}

static void note_parameter(void **params, void **extra)
{
	note.calls++;
	note.pointed = params != NULL;
	assert_true(!params == !!extra);
	if (extra) {
		assert_ptr_equal(extra[0], (void *)1); /* the buffer */
		assert_ptr_equal(extra[2], (void *)2); /* its size */
		assert_null(extra[4]);
		assert_int_equal(*(const size_t *)extra[3], parameter.bytes);
	}
	memcpy(note.bytes, extra ? extra[1] : params[0], parameter.bytes);
}

static int driver_launch(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
			 unsigned by, unsigned bz, unsigned smem, void *stream, void **params,
			 void **extra)
{
	note = (struct note){ .calls = note.calls,
			      .grid = { gx, gy, gz },
			      .block = { bx, by, bz },
			      .smem = smem,
			      .function = function,
			      .stream = stream,
			      .answer = note.answer };
	note_parameter(params, extra);
	return note.answer;
}

static int driver_launch_ex(const void *config, void *function, void **params, void **extra)
{
	const struct asked_config *c = config;
	driver_launch(function, c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1],
		      c->block[2], c->smem, c->stream, params, extra);
	note.extended = 1;
	note.num_attributes = c->num_attributes;
	assert_true(c->num_attributes <= 3);
	for (unsigned i = 0; i < c->num_attributes; i++) {
		note.id[i] = c->attributes[i].id;
		memcpy(note.value[i], c->attributes[i].value, sizeof note.value[i]);
	}
	return note.answer;
}

static const struct cuda_api cu = { .Launch = driver_launch,
				    .LaunchEx = driver_launch_ex,
				    .ParamInfo = driver_param_info };
static const struct geometry grid = { .x = 3, .y = 4, .z = 5, .threads = 128, .smem = 1000 };
static int kernel, stream;

/* Loads a kernel with such a parameter. */
static struct cuda_function loaded(size_t offset, size_t bytes, int error)
{
	struct cuda_function f = { .handle = &kernel };
	parameter.offset = offset;
	parameter.bytes = bytes;
	parameter.error = error;
	function_packs(&cu, &f);
	return f;
}

/* Its bytes come as they are. */
static void arrives(launch_kind *launch, const struct cuda_function *f, const struct geometry *g)
{
	static _Alignas(64) unsigned char args[sizeof note.bytes];
	for (size_t i = 0; i < parameter.bytes; i++)
		args[i] = (unsigned char)(i * 7 + parameter.bytes);
	note.calls = 0;
	assert_int_equal(launch(&cu, f, g, args, &stream), note.answer);
	assert_int_equal(note.calls, 1);
	assert_memory_equal(note.bytes, args, parameter.bytes);
	assert_memory_equal(note.grid, ((unsigned[]){ 3, 4, 5 }), sizeof note.grid);
	assert_memory_equal(note.block, ((unsigned[]){ 128, 1, 1 }), sizeof note.block);
	assert_int_equal(note.smem, 1000);
	assert_ptr_equal(note.function, &kernel);
	assert_ptr_equal(note.stream, &stream);
}

static launch_kind *const kinds[] = { launch_in_turn, launch_early };

static void the_parameter_is_its_bytes(void **state)
{
	static const size_t sizes[] = { 8, sizeof(struct attune_args), sizeof(struct attune_call) };
	(void)state;
	for (size_t k = 0; k < COUNT(kinds); k++)
		for (size_t i = 0; i < COUNT(sizes); i++) {
			const struct cuda_function f = loaded(0, sizes[i], 0);
			arrives(kinds[k], &f, &grid);
			assert_false(note.pointed);
			assert_int_equal(note.extended, k > 0);
			assert_int_equal(note.num_attributes, k);
		}
	assert_true(note.id[0] == 6 && note.value[0][0] == 1); /* stream serialization */
}

/* The parameter has padding before it; the kernel or the driver does not report its layout. */
static void else_it_is_pointed_to(void **state)
{
	struct cuda_api older = cu;
	struct cuda_function f;
	(void)state;
	for (size_t k = 0; k < COUNT(kinds); k++) {
		f = loaded(48, sizeof(struct attune_mapped), 0);
		arrives(kinds[k], &f, &grid);
		assert_true(note.pointed);
		f = loaded(0, sizeof(struct attune_args), 1);
		arrives(kinds[k], &f, &grid);
		assert_true(note.pointed);
	}
	older.ParamInfo = NULL;
	f = (struct cuda_function){ .handle = &kernel };
	function_packs(&older, &f);
	assert_int_equal(f.packed, 0);
}

static void clusters_are_attributes(void **state)
{
	const struct cuda_function f = loaded(0, sizeof(struct attune_call), 0);
	struct geometry g = grid;
	(void)state;
	g.cluster = 4;
	arrives(launch_in_turn, &f, &g);
	assert_int_equal(note.num_attributes, 2);
	assert_int_equal(note.id[0], 4);
	assert_memory_equal(note.value[0], ((unsigned[]){ 1, 4, 1 }), sizeof note.value[0]);
	assert_true(note.id[1] == 5 && note.value[1][0] == 2); /* where there is most room */
	arrives(launch_early, &f, &g);
	assert_int_equal(note.num_attributes, 3);
	g.cluster = 1;
	arrives(launch_in_turn, &f, &g);
	assert_false(note.extended);
}

static void answers_of_the_driver_are_reported(void **state)
{
	enum { NOT_SUPPORTED = 801 };
	const struct cuda_function f = loaded(0, 8, 0);
	struct cuda_api older = cu;
	(void)state;
	older.LaunchEx = NULL;
	note.answer = 719;
	arrives(launch_in_turn, &f, &grid);
	arrives(launch_early, &f, &grid);
	note.answer = 0;
	assert_int_equal(launch_early(&older, &f, &grid, &kernel, NULL), NOT_SUPPORTED);
}

static int driver_error_string(int error, const char **text)
{
	*text = error == 200 ? "device kernel image is invalid" : "an illegal memory access";
	return 0;
}

static int driver_version(int *version)
{
	*version = 12080;
	return 0;
}

static void a_driver_older_than_the_compiler_is_named(void **state)
{
	struct cuda c = { .cu = { .ErrorString = driver_error_string,
				  .DriverVersion = driver_version } };
	(void)state;
	assert_int_equal(cuda_check(&c, 200, "load"), ATTUNE_DEVICE_ERROR);
	assert_string_equal(
	    attune_last_error(),
	    "cuda: load: device kernel image is invalid (error 200); this driver is "
	    "of CUDA 12.8, and binaries of a newer CUDA compiler need a newer one");
	assert_int_equal(cuda_check(&c, 700, "launch"), ATTUNE_DEVICE_ERROR);
	assert_string_equal(attune_last_error(),
			    "cuda: launch: an illegal memory access (error 700)");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_parameter_is_its_bytes),
		cmocka_unit_test(else_it_is_pointed_to),
		cmocka_unit_test(clusters_are_attributes),
		cmocka_unit_test(answers_of_the_driver_are_reported),
		cmocka_unit_test(a_driver_older_than_the_compiler_is_named),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("cuda_launch", tests, NULL, NULL);
}
