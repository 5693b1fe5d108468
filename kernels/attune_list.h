/* SPDX-License-Identifier: Apache-2.0 */
/* attune_list.h - struct attune_list, what attune_<gpu>_list() of a generated header returns. Plain
 * integers, for C, C++ and device code. It is apart from attune_features.h, which kernels include:
 * measured times belong to a kernel's text. */
#ifndef ATTUNE_LIST_H
#define ATTUNE_LIST_H

enum { ATTUNE_LIST_MEMBERS = 4 };

/* Choices of a header, the first to run where it is legal, then the next. at[0] is the choice that
 * the rules named, at[3] the one learned where at[0] is illegal. */
struct attune_list {
	short n, at[ATTUNE_LIST_MEMBERS];
};

/* A row of LISTS in attune_<gpu>_list(); an absent member is -1. */
#define ATTUNE_LIST_CASE(first, a, b, c)                                                   \
	case first: {                                                                      \
		const struct attune_list row = { 1 + ((a) >= 0) + ((b) >= 0) + ((c) >= 0), \
						 { first, a, b, c } };                     \
		return row;                                                                \
	}

#endif
