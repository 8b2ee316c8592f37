/*
 * Which pairs of user and password were good or wrong, for a while, so that the many
 * requests of one clone cost one bcrypt. Pairs stand there as HMAC-SHA256 with a key that
 * only this process knows; there is place for some thousands. One thread at a time, but
 * password_memory_key() and _pick() for any.
 */
#ifndef WEB_PASSWORD_MEMORY_H
#define WEB_PASSWORD_MEMORY_H

#include "base/base.h"

struct password_memory;

struct password_memory *password_memory_new(void);
void password_memory_free(struct password_memory *memory); /* NULL is allowed */

#define PASSWORD_KEY_SIZE 32

/* `user` is without a colon. */
void password_memory_key(const struct password_memory *memory, const char *user,
			 const char *password, unsigned char key[PASSWORD_KEY_SIZE]);

/* A number below `count` that goes with this user for the life of the memory. */
size_t password_memory_pick(const struct password_memory *memory, const char *user,
			    size_t count);

/* False: nothing is known of this pair now. */
bool password_memory_know(const struct password_memory *memory,
			  const unsigned char key[PASSWORD_KEY_SIZE], int64_t now_ms,
			  bool *is_good);
void password_memory_note(struct password_memory *memory,
			  const unsigned char key[PASSWORD_KEY_SIZE], int64_t now_ms,
			  bool is_good);
void password_memory_forget(struct password_memory *memory);

#endif
