/*
 * Which keys [remote], [replication] and [gerrit] may have, and what is to be said of
 * those that are not obeyed.
 */
#ifndef PUSH_KEYS_H
#define PUSH_KEYS_H

#include "base/conf.h"

/* Each ends in NULL; spelt as documented; with those that have no meaning here. */
extern const char *const push_remote_keys[];
extern const char *const push_replication_keys[];
extern const char *const push_gerrit_keys[];

/* Whether it is one of the three sections. */
bool push_has_section(const struct conf_entry *entry);

/* Whether the key stands in our own file also when replication.config names Gerrit's. */
bool push_key_is_own(const struct conf_entry *entry);

/* What happens instead of what the key says; NULL: it is obeyed. Static. */
const char *push_key_remark(const struct conf_entry *entry);

#endif
