/*
 * The header Authorization. Any thread.
 */
#ifndef WEB_CREDENTIAL_H
#define WEB_CREDENTIAL_H

#include "base/base.h"

struct credential {
	char *user;   /* of Basic; never with a colon; NULL: Bearer */
	char *secret; /* the token of Bearer, the password of Basic */
};

/* False: neither Bearer nor Basic, or cut. The caller clears in either case. */
bool credential_read(const char *authorization, struct credential *credential);

/* Wipes it. */
void credential_clear(struct credential *credential);

#define AUTO_CREDENTIAL __attribute__((cleanup(credential_clear)))

#endif
