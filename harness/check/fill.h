/* SPDX-License-Identifier: Apache-2.0 */
/* fill.h - the values of tensors: element `at` of a stream, the same bits on the host and in
 * device code (fill.cu). Includes nothing.
 *
 * A hash of (stream, at) gives four 16-bit numbers; their sum, centred, is an integer n
 * in -65535 .. 65535, close to normal. The value is n / 16384: deviation 1.155, at most
 * 4 in size, a float without rounding. Smaller types round it to nearest, ties to even. */
#ifndef HARNESS_CHECK_FILL_H
#define HARNESS_CHECK_FILL_H

enum { FILL_F32, FILL_F16, FILL_BF16, FILL_E4M3 }; /* as enum attune_dtype */

/* Arguments of fill.cu: `words` 32-bit words at `to`, each of one, two or four elements. */
struct fill_args {
	unsigned *to;
	unsigned long long words, stream;
	int dtype;
};

/* The finalizer of the splitmix64 generator: a bijection that spreads every bit. */
static inline unsigned long long fill_mix(unsigned long long x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* The bits of the value as a float. */
static inline unsigned fill_f32(unsigned long long stream, unsigned long long at)
{
	const unsigned long long h = fill_mix(stream + (at + 1) * 0x9e3779b97f4a7c15ull);
	const unsigned sum = (unsigned)(h & 0xffff) + (unsigned)(h >> 16 & 0xffff) +
			     (unsigned)(h >> 32 & 0xffff) + (unsigned)(h >> 48);
	union {
		float f;
		unsigned bits;
	} v;
	v.f = (float)((int)(sum >> 1) - 65535) * (1.f / 16384);
	return v.bits;
}

/* Values below 2^-6 are subnormal: adding 2^14 rounds them to multiples of 2^-9. */
static inline unsigned fill_e4m3(unsigned bits)
{
	const unsigned size = bits & 0x7fffffff, sign = bits >> 31 << 7;
	union {
		float f;
		unsigned bits;
	} v;
	if (size >= 0x3c800000)
		return sign | (size - (120u << 23) + 0x7ffff + (size >> 20 & 1)) >> 20;
	v.bits = size;
	v.f += 16384;
	return sign | (v.bits - 0x46800000);
}

/* The smallest nonzero value is 2^-14, the smallest normal F16, so F16 needs no subnormals. */
static inline unsigned fill_bits(unsigned long long stream, unsigned long long at, int dtype)
{
	const unsigned bits = fill_f32(stream, at), size = bits & 0x7fffffff;
	if (dtype == FILL_F32)
		return bits;
	if (dtype == FILL_E4M3)
		return fill_e4m3(bits);
	if (dtype == FILL_BF16)
		return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
	if (!size)
		return 0;
	return bits >> 31 << 15 | (size - (112u << 23) + 0xfff + (size >> 13 & 1)) >> 13;
}

#endif
