/*
 * A growable array: VEC(struct ref) refs = { 0 }; vec_add(&refs, ref); refs.items[i].
 * Zero-initialised is empty. Elements are plain values; the caller frees what they own.
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

/* Adds `more` consecutive ones; 0 is allowed. */
#define vec_add_all(vec, first, more)                                                    \
	do {                                                                             \
		size_t more_ = (more);                                                   \
		vec_reserve(vec, more_);                                                 \
		if (more_ > 0)                                                           \
			memcpy((vec)->items + (vec)->count, (first),                     \
			       more_ * sizeof(*(vec)->items));                           \
		(vec)->count += more_;                                                   \
	} while (0)

/* Makes room for `more` further ones. */
#define vec_reserve(vec, more)                                                           \
	do {                                                                             \
		if ((vec)->capacity - (vec)->count < (more)) {                           \
			(vec)->capacity = (vec)->count + (more);                         \
			(vec)->items = xrealloc(                                         \
				(vec)->items, (vec)->capacity * sizeof(*(vec)->items));  \
		}                                                                        \
	} while (0)

/* Frees the array; the vector is empty and usable again. */
#define vec_clear(vec)                                                                   \
	do {                                                                             \
		free((vec)->items);                                                      \
		(vec)->items = NULL;                                                     \
		(vec)->count = (vec)->capacity = 0;                                      \
	} while (0)

/* The same where the elements are pointers that it owns. */
#define vec_clear_owned(vec)                                                             \
	do {                                                                             \
		for (size_t at_ = 0; at_ < (vec)->count; at_++)                          \
			free((vec)->items[at_]);                                         \
		vec_clear(vec);                                                          \
	} while (0)

/* The same where clear(&item) frees what each has. */
#define vec_clear_each(vec, clear)                                                       \
	do {                                                                             \
		for (size_t at_ = 0; at_ < (vec)->count; at_++)                          \
			clear(&(vec)->items[at_]);                                       \
		vec_clear(vec);                                                          \
	} while (0)

/* The same where each has only this one to free. */
#define vec_clear_members(vec, member)                                                   \
	do {                                                                             \
		for (size_t at_ = 0; at_ < (vec)->count; at_++)                          \
			free((vec)->items[at_].member);                                  \
		vec_clear(vec);                                                          \
	} while (0)

#define vec_sort(vec, compare)                                                           \
	do {                                                                             \
		if ((vec)->count > 1)                                                    \
			qsort((vec)->items, (vec)->count, sizeof(*(vec)->items),         \
			      compare);                                                  \
	} while (0)

typedef VEC(char *) text_list; /* owned */
#define AUTO_TEXT_LIST __attribute__((cleanup(text_list_clear)))

static inline void text_list_clear(text_list *list)
{
	vec_clear_owned(list);
}

static inline bool text_list_has(const text_list *list, const char *text)
{
	for (size_t i = 0; i < list->count; i++)
		if (strcmp(list->items[i], text) == 0)
			return true;
	return false;
}

/* Defines the order of structs by a text of each, for vec_sort() and bsearch(). */
#define ORDER_BY_TEXT(function, type, member)                                            \
	static int function(const void *one_, const void *two_)                          \
	{                                                                                \
		return strcmp(((const type *)one_)->member,                              \
			      ((const type *)two_)->member);                             \
	}                                                                                \
	_Static_assert(true, "")

/* For vec_sort(). */
static inline int text_list_order(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

#endif
