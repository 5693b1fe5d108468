/* SPDX-License-Identifier: Apache-2.0 */
/* machine_code.c - hashes the machine code of an ELF file: a cubin, an AMD code object or a shared
 * object. Files with the same hash execute alike.
 *
 *   loaded sections   type, flags, alignment, size, address after the first one's, contents
 *   .nv.info          NVIDIA's attributes of a kernel: registers, stack, parameters
 *   relocations       of these sections: place, kind, addend, symbol
 *
 * A symbol is hashed as its section and value, an undefined symbol as its name. Sections are hashed
 * in order, with their names without the kernel's name. Two equal files may hash differently, for
 * example if a string lies elsewhere; different files never hash alike. */
#include "compilers.h"
#include "compile.h"
#include "kernels/device/device.h"
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#ifndef EM_CUDA
#define EM_CUDA 190
#endif

struct object {
	const unsigned char *bytes;
	size_t size;
	Elf64_Ehdr head;
	Elf64_Shdr *section;
	int *place; /* number of a section among the hashed ones, from 1; 0: not hashed */
	int sections;
	uint64_t first_address;
	XXH3_state_t *hash;
	int failed;
};

static void feed(struct object *o, const void *bytes, size_t n)
{
	o->failed |= XXH3_128bits_update(o->hash, bytes, n) != XXH_OK;
}

static void feed_number(struct object *o, uint64_t n)
{
	feed(o, &n, sizeof n);
}

static void feed_text(struct object *o, const char *text, size_t n)
{
	feed_number(o, n);
	feed(o, text, n);
}

/* ---- reading, within the file -------------------------------------------------------- */

/* NULL if they lie outside of the file; then the object has failed. */
static const void *bytes_at(struct object *o, uint64_t offset, uint64_t n)
{
	if (offset <= o->size && n <= o->size - offset)
		return o->bytes + offset;
	o->failed = 1;
	return NULL;
}

static const void *contents(struct object *o, const Elf64_Shdr *s)
{
	return bytes_at(o, s->sh_offset, s->sh_size);
}

/* "" if the table does not have it. */
static const char *text_at(struct object *o, uint64_t table, uint64_t offset)
{
	const Elf64_Shdr *s = table < (uint64_t)o->sections ? &o->section[table] : NULL;
	const char *text = s && s->sh_type == SHT_STRTAB ? contents(o, s) : NULL;
	if (text && offset < s->sh_size && memchr(text + offset, '\0', s->sh_size - offset))
		return text + offset;
	o->failed = 1;
	return "";
}

static const char *section_name(struct object *o, const Elf64_Shdr *s)
{
	return text_at(o, o->head.e_shstrndx, s->sh_name);
}

static int read_sections(struct object *o)
{
	const void *head = bytes_at(o, 0, sizeof o->head);
	if (!head || memcmp(head, ELFMAG, SELFMAG))
		return 0;
	memcpy(&o->head, head, sizeof o->head);
	if (o->head.e_ident[EI_CLASS] != ELFCLASS64 || o->head.e_ident[EI_DATA] != ELFDATA2LSB ||
	    o->head.e_shentsize != sizeof *o->section || !o->head.e_shnum)
		return 0;
	o->sections = o->head.e_shnum;
	const size_t n = (size_t)o->sections * sizeof *o->section;
	const void *table = bytes_at(o, o->head.e_shoff, n);
	o->section = malloc(n);
	o->place = calloc((size_t)o->sections, sizeof *o->place);
	if (!table || !o->section || !o->place)
		return 0;
	memcpy(o->section, table, n);
	return 1;
}

/* ---- which sections count -------------------------------------------------------------- */

static int begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

static int is_info(const struct object *o, const char *name)
{
	return o->head.e_machine == EM_CUDA && begins(name, ".nv.info");
}

/* Sections that the loader fills from relocations, or that only unwinders read. */
static int is_of_loader(const char *name)
{
	return begins(name, ".got") || begins(name, ".eh_frame");
}

static int counts(struct object *o, const Elf64_Shdr *s)
{
	const char *name = section_name(o, s);
	if (is_info(o, name))
		return 1;
	return s->sh_flags & SHF_ALLOC && !is_of_loader(name) &&
	       (s->sh_type == SHT_PROGBITS || s->sh_type == SHT_NOBITS ||
		s->sh_type == SHT_INIT_ARRAY || s->sh_type == SHT_FINI_ARRAY ||
		(s->sh_type >= SHT_LOPROC && s->sh_type <= SHT_HIPROC));
}

/* The length of a section's name without the kernel's: ".text" of ".text.attune_kernel". */
static size_t stem(const struct object *o, const char *name)
{
	static const char *const named[] = { ".text.", ".nv.info.", ".nv.shared.", ".nv.local." };
	if (o->head.e_machine != EM_CUDA)
		return strlen(name);
	for (size_t i = 0; i < COUNT(named); i++)
		if (begins(name, named[i]))
			return strlen(named[i]) - 1;
	const char *dot = begins(name, ".nv.constant") ? strchr(name + strlen(".nv."), '.') : NULL;
	return dot ? (size_t)(dot - name) : strlen(name);
}

static void place_sections(struct object *o)
{
	int n = 0;
	o->first_address = UINT64_MAX;
	for (int i = 0; i < o->sections; i++) {
		const Elf64_Shdr *s = &o->section[i];
		if (!counts(o, s))
			continue;
		o->place[i] = ++n;
		if (s->sh_flags & SHF_ALLOC && s->sh_addr < o->first_address)
			o->first_address = s->sh_addr;
	}
}

/* ---- symbols ------------------------------------------------------------------------------ */

/* Hashes symbol `number` of a table. */
static void feed_symbol(struct object *o, uint64_t table, uint64_t number)
{
	Elf64_Sym symbol;
	const Elf64_Shdr *s = table < (uint64_t)o->sections ? &o->section[table] : NULL;
	if (!s || (s->sh_type != SHT_SYMTAB && s->sh_type != SHT_DYNSYM) ||
	    number >= s->sh_size / sizeof symbol) {
		o->failed = 1;
		return;
	}
	const void *at = bytes_at(o, s->sh_offset + number * sizeof symbol, sizeof symbol);
	if (!at)
		return;
	memcpy(&symbol, at, sizeof symbol);
	feed_number(o, symbol.st_info);
	feed_number(o, symbol.st_other);
	if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx >= o->sections) {
		const char *name = text_at(o, s->sh_link, symbol.st_name);
		feed_number(o, symbol.st_shndx);
		feed_text(o, name, strlen(name));
	} else {
		feed_number(o, (uint64_t)o->place[symbol.st_shndx]);
		feed_number(o, symbol.st_size);
	}
	feed_number(o, symbol.st_value);
}

static uint64_t symbol_table(const struct object *o)
{
	for (int i = 0; i < o->sections; i++)
		if (o->section[i].sh_type == SHT_SYMTAB)
			return (uint64_t)i;
	return 0;
}

static int relocates(const struct object *o, const Elf64_Shdr *s)
{
	if (s->sh_type != SHT_REL && s->sh_type != SHT_RELA)
		return 0;
	return s->sh_flags & SHF_ALLOC ||
	       (s->sh_info < (uint32_t)o->sections && o->place[s->sh_info]);
}

static void feed_relocations(struct object *o, const Elf64_Shdr *s)
{
	const size_t one = s->sh_type == SHT_RELA ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
	const unsigned char *at = contents(o, s);
	feed_number(o, s->sh_info < (uint32_t)o->sections ? (uint64_t)o->place[s->sh_info] : 0);
	for (uint64_t i = 0; at && i < s->sh_size / one; i++, at += one) {
		Elf64_Rela r = { 0 };
		memcpy(&r, at, one);
		feed_number(o, r.r_offset);
		feed_number(o, ELF64_R_TYPE(r.r_info));
		feed_number(o, (uint64_t)r.r_addend);
		feed_symbol(o, s->sh_link, ELF64_R_SYM(r.r_info));
	}
}

/* ---- NVIDIA's attributes --------------------------------------------------------------------- */

/* An attribute: a form, a name, then 16 bits, a value or the number of bytes that follow. With the
 * names of of_symbol, the bytes that follow begin with the number of a symbol. */
enum { FORM_SIZED = 4 };
static const unsigned char of_symbol[] = { 0x0a /* parameters' place */, 0x11 /* frame */,
					   0x12 /* least stack */, 0x23 /* most stack */,
					   0x2f /* registers */ };

static void feed_info(struct object *o, const Elf64_Shdr *s)
{
	const unsigned char *at = contents(o, s), *end = at ? at + s->sh_size : at;
	while (at && end - at >= 4) {
		const unsigned n = at[0] == FORM_SIZED ? at[2] | (unsigned)at[3] << 8 : 0;
		feed(o, at, 4);
		at += 4;
		if (n > (size_t)(end - at)) {
			o->failed = 1;
			return;
		}
		const unsigned char *rest = at;
		if (n >= 4 && memchr(of_symbol, at[-3], sizeof of_symbol)) {
			uint32_t symbol;
			memcpy(&symbol, at, sizeof symbol);
			feed_symbol(o, symbol_table(o), symbol);
			rest += sizeof symbol;
		}
		at += n;
		feed(o, rest, (size_t)(at - rest));
	}
}

/* ---- all of it -------------------------------------------------------------------------- */

static void feed_section(struct object *o, const Elf64_Shdr *s)
{
	const char *name = section_name(o, s);
	feed_text(o, name, stem(o, name));
	feed_number(o, s->sh_type);
	feed_number(o, s->sh_flags);
	feed_number(o, s->sh_addralign);
	if (is_info(o, name)) {
		feed_info(o, s);
		return;
	}
	/* NVIDIA: the upper 8 bits are registers, the others the number of a symbol. */
	feed_number(o,
		    o->head.e_machine == EM_CUDA && begins(name, ".text") ? s->sh_info >> 24 : 0);
	feed_number(o, s->sh_addr - o->first_address);
	feed_number(o, s->sh_size);
	const void *bytes = s->sh_type == SHT_NOBITS ? NULL : contents(o, s);
	if (bytes)
		feed(o, bytes, s->sh_size);
}

static int hash_of(struct object *o, char hex[33])
{
	o->hash = XXH3_createState();
	if (!o->hash || XXH3_128bits_reset(o->hash) != XXH_OK || !read_sections(o))
		return 0;
	feed_number(o, o->head.e_machine);
	feed_number(o, o->head.e_flags);
	place_sections(o);
	for (int i = 0; i < o->sections && !o->failed; i++) {
		if (o->place[i])
			feed_section(o, &o->section[i]);
		else if (relocates(o, &o->section[i]))
			feed_relocations(o, &o->section[i]);
	}
	hash_text(hex, o->hash);
	return !o->failed;
}

int machine_code(const struct blob *b, char hex[33])
{
	struct object o = { .bytes = b->data, .size = b->size };
	void *own = b->data ? NULL : read_file(b->path, &o.size);
	o.bytes = own ? own : b->data;
	const int ok = o.bytes && hash_of(&o, hex);
	XXH3_freeState(o.hash);
	free(o.section);
	free(o.place);
	free(own);
	return ok;
}
