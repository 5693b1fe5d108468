/* SPDX-License-Identifier: Apache-2.0 */
/* chips.c - the GPUs that the stand-in pretends to have, and the faults that it can inject. */
#include "stand_in.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct chip {
	const char *chip, *name, *arch;
	int major, minor, units, dies, lds, l2_mib, memory_mib, clock_mhz, memory_mhz;
} chips[] = {
	// clang-format off
	{ "MI250X", "AMD Instinct MI250X", "gfx90a", 9, 0, 110, 1, 65536,  8, 64 << 10,  1700, 1600 },
	{ "MI300X", "AMD Instinct MI300X", "gfx942", 9, 4, 304, 8, 65536,  4, 192 << 10, 2100, 1300 },
	{ "MI300A", "AMD Instinct MI300A", "gfx942", 9, 4, 228, 6, 65536,  4, 128 << 10, 2100, 1300 },
	{ "MI355X", "AMD Instinct MI355X", "gfx950", 9, 5, 256, 8, 163840, 4, 288 << 10, 2400, 2000 },
	{ "die",    "AMD Instinct MI300X", "gfx942", 9, 4, 38,  1, 65536,  4, 24 << 10,  2100, 1300 },
	{ "small",  "AMD Instinct MI300X", "gfx942", 9, 4, 8,   8, 65536,  4, 16,        2100, 1300 },
	{ "MI100",  "AMD Instinct MI100",  "gfx908", 9, 0, 120, 1, 65536,  8, 32 << 10,  1502, 1200 },
	{ "unnamed", "",                   "gfx942", 9, 4, 304, 8, 65536,  4, 192 << 10, 2100, 1300 },
	// clang-format on
};
static const struct chip *now = &chips[1];

/* ---- faults ----------------------------------------------------------------------------- */

static char fault[400];
static int left; /* of "memory N": until it is due */

static void read_environment(void)
{
	const char *chip = getenv("STAND_IN_CHIP"), *text = getenv("STAND_IN_FAULT");
	now = &chips[1];
	for (size_t i = 0; chip && i < sizeof chips / sizeof *chips; i++)
		if (!strcmp(chip, chips[i].chip))
			now = &chips[i];
	snprintf(fault, sizeof fault, "%s", text ? text : "");
	const char *digit = strpbrk(fault, "123456789");
	left = digit ? atoi(digit) : 0;
}

int fault_is(const char *name)
{
	return !strncmp(fault, name, strlen(name));
}

int fault_due(const char *name)
{
	return fault_is(name) && left > 0 && --left == 0;
}

int device_lost(void)
{
	return fault_is("lost ") && !access(fault + strlen("lost "), F_OK);
}

/* ---- devices ---------------------------------------------------------------------------- */

static _Thread_local int current;

int device_now(void)
{
	return current;
}

int lds_limit(void)
{
	return now->lds;
}

int chip_units(void)
{
	return now->units;
}

const char *chip_arch(void)
{
	return now->arch;
}

int hipGetDeviceCount(int *count)
{
	read_environment();
	*count = fault_is("none counted") ? 0 : DEVICES;
	return failed(fault_is("no device") || device_lost() ? NO_DEVICE
		      : fault_is("invalid device")           ? INVALID_DEVICE
							     : 0);
}

int hipGetDevice(int *device)
{
	*device = current;
	return 0;
}

int hipSetDevice(int device)
{
	if (device < 0 || device >= DEVICES)
		return misuse(INVALID_DEVICE, "hipSetDevice", "no such device");
	current = device;
	return 0;
}

int hipDeviceGetName(char *name, int size, int device)
{
	(void)device;
	snprintf(name, (size_t)size, "%s%s", now->name, *now->name ? " (emulated)" : "");
	return 0;
}

int hipDeviceGetPCIBusId(char *id, int size, int device)
{
	snprintf(id, (size_t)size, "ffff:C%d:00.0", device);
	return 0;
}

int hipDeviceTotalMem(size_t *bytes, int device)
{
	(void)device;
	*bytes = (size_t)now->memory_mib << 20;
	return 0;
}

int hipRuntimeGetVersion(int *version)
{
	*version = fault_is("old") ? 50221153 : 70253211;
	return 0;
}

int hipDeviceGetAttribute(int *value, int attribute, int device)
{
	const struct {
		int attribute, value;
	} rows[] = {
		{ 5, now->clock_mhz * 1000 },
		{ 19, now->l2_mib << 20 },
		{ 23, now->major },
		{ 60, now->memory_mhz * 1000 },
		{ 61, now->minor },
		{ 63, now->units },
		{ 74, now->lds },
		{ 87, 64 },
		{ 10002, now->lds },
		{ 10018, fault_is("old") ? -1 : now->dies },
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (rows[i].attribute == attribute && rows[i].value >= 0 && device < DEVICES) {
			*value = rows[i].value;
			return 0;
		}
	return failed(INVALID_VALUE);
}

int hipDeviceGetStreamPriorityRange(int *least, int *greatest)
{
	*least = 1;
	*greatest = -1;
	return 0;
}

const char *hipGetErrorString(int error)
{
	static const struct {
		int error;
		const char *text;
	} rows[] = {
		{ INVALID_VALUE, "invalid argument" },
		{ OUT_OF_MEMORY, "out of memory" },
		{ NO_BINARY, "no kernel image is available for execution on the device" },
		{ CAPTURE_INVALIDATED, "operation failed due to a previous error during capture" },
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (rows[i].error == error)
			return rows[i].text;
	return error == ILLEGAL_ADDRESS ? fibers_error() : "an error of the stand-in";
}
