/*
 * What a push asks for, read from the beginning of its body as it comes: the commands,
 * up to the flush that ends them. Only so much is understood as tells when git may begin
 * to change refs. Plain data.
 *
 * Source: gitprotocol-pack(5), "Reference Update Request and Packfile Transfer".
 */
#ifndef SERVE_RECEIVE_COMMANDS_H
#define SERVE_RECEIVE_COMMANDS_H

#include "base/base.h"
#include "serve/receive_sync.h"

enum receive_step {
	RECEIVE_MORE,    /* the commands have not ended yet */
	RECEIVE_WHOLE,   /* they have; the flush is the next */
	RECEIVE_STRANGE, /* signed, or not understood: git knows */
};

struct receive_commands {
	size_t oid_len; /* of the repository: 20 or 32; set by the caller, as `names` */
	struct receive_sync *names; /* gets the refs' names; NULL: nobody does */
	enum receive_step step;
	size_t count, deletions;
	bool needs_pack; /* not all of them delete: git changes nothing before it has a
			  * pack */
};

/* Looks at the next bytes, of which the first were not taken before. Returns how many
 * are taken now: whole lines, never the flush. Nothing is taken after RECEIVE_MORE. */
size_t receive_commands_take(struct receive_commands *commands, const char *data,
			     size_t len);

#endif
