/*
 * The header Authorization. Any thread.
 */
#ifndef WEB_CREDENTIAL_H
#define WEB_CREDENTIAL_H

#include "base/base.h"

/* What a client shows: the token of Bearer, or the password of Basic, whose user does
 * not matter: git can show tokens only so. The caller frees (credential_free); NULL:
 * neither. */
char *credential_read(const char *authorization);

/* Wipes it. NULL is allowed. */
void credential_free(char *const *credential);

#define AUTO_CREDENTIAL __attribute__((cleanup(credential_free)))

#endif
