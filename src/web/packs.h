/*
 * The packs of a primary's repository, as files, for the first copy of a secondary.
 * Internal to web/.
 */
#ifndef WEB_PACKS_H
#define WEB_PACKS_H

#include "web/services.h"

/* The bytes of its packs; 0: it has no packs, or does not exist. Cheap. */
uint64_t web_packs_size(const struct web_services *services, const char *name);

/* Appends the names of those of the site's repositories whose objects it borrows
 * (objects/info/alternates). */
void web_packs_list_lenders(const struct web_services *services, const char *name,
			    text_list *lenders);

#endif
