/*
 * Damage found by this process, including damage mended since, as a decaying disk
 * continues to decay. Any thread.
 */
#ifndef VERIFY_DAMAGE_H
#define VERIFY_DAMAGE_H

#include "base/base.h"

#define DAMAGE_TEXT_SIZE 512

struct damage_met {
	uint64_t count;              /* since the start */
	int64_t at;                  /* boot ms of the last one; 0: never */
	char text[DAMAGE_TEXT_SIZE]; /* of the last one: "KIND NAME: ..." */
};

/* Records that a copy or an original of a kind was found damaged. */
void damage_note(const char *kind, const char *name, const struct err *why);

void damage_look(struct damage_met *met);

#endif
