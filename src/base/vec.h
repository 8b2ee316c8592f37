/*
 * A growable array: VEC(struct ref) refs = { 0 }; vec_add(&refs, ref); refs.items[i].
 * Zero-initialised is empty. Elements are plain values; what they own is the caller's.
 */
#ifndef BASE_VEC_H
#define BASE_VEC_H

#include "base/base.h"

#define VEC(type)                                                                        \
	struct {                                                                         \
		type *items;                                                             \
		size_t count;                                                            \
		size_t capacity;                                                         \
	}

#define vec_add(vec, item)                                                               \
	do {                                                                             \
		if ((vec)->count == (vec)->capacity) {                                   \
			(vec)->capacity = (vec)->capacity ? 2 * (vec)->capacity : 8;     \
			(vec)->items = xrealloc(                                         \
				(vec)->items, (vec)->capacity * sizeof(*(vec)->items));  \
		}                                                                        \
		(vec)->items[(vec)->count++] = (item);                                   \
	} while (0)

/* Frees the array; the vector is empty and usable again. */
#define vec_clear(vec)                                                                   \
	do {                                                                             \
		free((vec)->items);                                                      \
		(vec)->items = NULL;                                                     \
		(vec)->count = (vec)->capacity = 0;                                      \
	} while (0)

#define vec_sort(vec, compare)                                                           \
	do {                                                                             \
		if ((vec)->count > 1)                                                    \
			qsort((vec)->items, (vec)->count, sizeof(*(vec)->items),         \
			      compare);                                                  \
	} while (0)

#endif
