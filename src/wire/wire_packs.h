/*
 * The packs of one repository at one moment, for a first copy that takes them unchanged.
 */
#ifndef WIRE_WIRE_PACKS_H
#define WIRE_WIRE_PACKS_H

#include "base/vec.h"
#include "wire/wire.h"

#define WIRE_PACK_NAME_SIZE (sizeof("pack-") + 64)
#define WIRE_PACKS_MOST 1000

struct wire_pack {
	char name[WIRE_PACK_NAME_SIZE]; /* "pack-<digits>"; its files add ".pack" or
					   ".idx" */
	uint64_t bytes, index_bytes, objects;
};

typedef VEC(struct wire_pack) wire_packs;
#define AUTO_WIRE_PACKS __attribute__((cleanup(wire_packs_clear)))
void wire_packs_clear(wire_packs *packs);

/* Whether it is a valid name of one of those files: with 40 or 64 hexadecimal digits, so
 * it cannot lead elsewhere. */
bool wire_pack_is_file(const char *file);

/* The answer's body; in order of names. */
json_t *wire_packs_json(const wire_packs *packs);

/* In order, each once. The caller clears in any case. */
int wire_packs_parse(const struct str *body, wire_packs *packs, struct err *err);

#endif
