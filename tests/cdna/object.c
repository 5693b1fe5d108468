/* SPDX-License-Identifier: Apache-2.0 */
/* object.c - loads a code object: an ELF file whose segments may lie at any address. The symbol
 * "<kernel>.kd" is the kernel's descriptor, of 64 bytes:
 *
 *   0 LDS  4 scratch  8 arguments (bytes)  16 entry, from here  52 rsrc2  56 properties */
#include "machine.h"
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DESCRIPTOR = 64, MOST_MEMORY = 64 << 20 };

static int lay_segments(struct cdna_code *c, const char *bytes, size_t size)
{
	const Elf64_Ehdr *e = (const Elf64_Ehdr *)(const void *)bytes;
	if (size < sizeof *e || memcmp(e->e_ident, ELFMAG, SELFMAG) ||
	    e->e_phoff + (size_t)e->e_phnum * sizeof(Elf64_Phdr) > size)
		return 0;
	const Elf64_Phdr *p = (const Elf64_Phdr *)(const void *)(bytes + e->e_phoff);
	for (int i = 0; i < e->e_phnum; i++)
		if (p[i].p_type == PT_LOAD && p[i].p_vaddr + p[i].p_memsz > c->size)
			c->size = p[i].p_vaddr + p[i].p_memsz;
	if (!c->size || c->size > MOST_MEMORY || !(c->memory = calloc(1, c->size)))
		return 0;
	for (int i = 0; i < e->e_phnum; i++) {
		if (p[i].p_type != PT_LOAD)
			continue;
		if (p[i].p_offset + p[i].p_filesz > size || p[i].p_filesz > p[i].p_memsz)
			return 0;
		memcpy(c->memory + p[i].p_vaddr, bytes + p[i].p_offset, p[i].p_filesz);
	}
	return 1;
}

/* Where the symbol lies among the segments, or 0. */
static uint64_t find_symbol(const char *bytes, size_t size, const char *name)
{
	const Elf64_Ehdr *e = (const Elf64_Ehdr *)(const void *)bytes;
	const Elf64_Shdr *s = (const Elf64_Shdr *)(const void *)(bytes + e->e_shoff);
	if (e->e_shoff + (size_t)e->e_shnum * sizeof *s > size)
		return 0;
	for (int i = 0; i < e->e_shnum; i++) {
		if (s[i].sh_type != SHT_DYNSYM)
			continue;
		const Elf64_Sym *v = (const Elf64_Sym *)(const void *)(bytes + s[i].sh_offset);
		const char *names = bytes + s[s[i].sh_link].sh_offset;
		for (size_t k = 0; k < s[i].sh_size / sizeof *v; k++)
			if (!strcmp(names + v[k].st_name, name))
				return v[k].st_value;
	}
	return 0;
}

static int read_descriptor(struct cdna_code *c, uint64_t at, uint32_t *entry)
{
	const char *kd = c->memory + at;
	int64_t from_here;
	uint16_t properties;
	if (!at || at + DESCRIPTOR > c->size)
		return 0;
	memcpy(&c->lds, kd, 4);
	memcpy(&c->scratch, kd + 4, 4);
	memcpy(&c->kernarg, kd + 8, 4);
	memcpy(&from_here, kd + 16, 8);
	memcpy(&c->rsrc2, kd + 52, 4);
	memcpy(&properties, kd + 56, 2);
	c->properties = properties;
	*entry = (uint32_t)((int64_t)at + from_here);
	return 1;
}

/* ---- the disassembler ----------------------------------------------------------------- */

const char *cdna_disassembler(void)
{
	static const char *const names[] = { "llvm-objdump-22", "llvm-objdump-21",
					     "llvm-objdump-20", "llvm-objdump" };
	static const char *found;
	char command[100];
	for (size_t i = 0; !found && i < sizeof names / sizeof *names; i++) {
		snprintf(command, sizeof command, "%s --version 2>&1 | grep -q amdgcn", names[i]);
		if (system(command) == 0)
			found = names[i];
	}
	return found ? found : (found = "");
}

static char *read_pipe(FILE *f)
{
	size_t n = 0, room = 1 << 16;
	char *text = malloc(room);
	for (size_t got; text && (got = fread(text + n, 1, room - n - 1, f)) > 0;) {
		n += got;
		if (room - n < 4096) {
			char *more = realloc(text, room *= 2);
			if (!more)
				free(text);
			text = more;
		}
	}
	if (text)
		text[n] = '\0';
	return text;
}

static char *disassemble(const void *bytes, size_t size, const char *arch)
{
	char path[] = "/tmp/t_cdna.XXXXXX", command[200];
	const int fd = mkstemp(path);
	char *text = NULL;
	if (fd < 0)
		return NULL;
	snprintf(command, sizeof command, "%s -d --mcpu=%s %s", cdna_disassembler(), arch, path);
	if (write(fd, bytes, size) == (ssize_t)size) {
		FILE *f = popen(command, "r");
		text = f ? read_pipe(f) : NULL;
		if (f && pclose(f) != 0) {
			free(text);
			text = NULL;
		}
	}
	close(fd);
	unlink(path);
	return text;
}

void cdna_free(struct cdna_code *c)
{
	if (!c)
		return;
	free(c->memory);
	free(c->listing);
	free(c->v);
	free(c);
}

static const char *load(struct cdna_code *c, const void *bytes, size_t size, const char *arch,
			const char *kernel, char *room, size_t room_size)
{
	char name[200];
	uint32_t entry;
	const char *why;
	snprintf(name, sizeof name, "%s.kd", kernel);
	if (!lay_segments(c, bytes, size))
		return "it is no code object";
	if (!read_descriptor(c, find_symbol(bytes, size, name), &entry))
		return "it has no such kernel";
	if (!(c->listing = disassemble(bytes, size, arch)))
		return "it cannot be disassembled";
	if ((why = read_listing(c, room, room_size)))
		return why;
	make_mistakes(c);
	for (c->first = 0; c->first < c->n && c->v[c->first].at != entry; c->first++)
		;
	return c->first < c->n ? NULL : "its kernel begins outside of its text";
}

struct cdna_code *cdna_load(const void *bytes, size_t size, const char *arch, const char *kernel,
			    char *error, size_t error_size)
{
	char room[300];
	struct cdna_code *c = calloc(1, sizeof *c);
	const char *why = c ? load(c, bytes, size, arch, kernel, room, sizeof room) : "no memory";
	if (!why)
		return c;
	snprintf(error, error_size, "a code object with %s: %s", kernel, why);
	cdna_free(c);
	return NULL;
}
