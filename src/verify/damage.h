/*
 * Damage that was met in this process: also what is mended by now, since a disk that
 * decays goes on doing so. Any thread.
 */
#ifndef VERIFY_DAMAGE_H
#define VERIFY_DAMAGE_H

#include "base/base.h"

#define DAMAGE_TEXT_SIZE 512

struct damage_met {
	uint64_t count;              /* since the start */
	int64_t at;                  /* boot ms of the last; 0: none yet */
	char text[DAMAGE_TEXT_SIZE]; /* which it was, and why: "KIND NAME: ..." */
};

/* A copy or an original of a kind is not what it was. */
void damage_note(const char *kind, const char *name, const struct err *why);

void damage_look(struct damage_met *met);

#endif
