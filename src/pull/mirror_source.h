/*
 * A source (pull/source.h) that reads the upstreams of this site's mirrors. One thread at
 * a time: each job has its own.
 */
#ifndef PULL_MIRROR_SOURCE_H
#define PULL_MIRROR_SOURCE_H

#include "mirror/upstream.h"
#include "pull/source.h"

/* How upstreams are asked: mirrors, watcher, marks, is_asked, timeout_ms and stop of a
 * call; borrowed, and copied. is_fast: small changes come without git where possible. */
struct source *source_new_upstreams(const struct upstream_call *manner, bool is_fast);

/* When the last reading was (wall ms), and whose credential it used; NULL: none. */
int64_t source_read_at(struct source *source, const struct watcher **watcher);

/* Whether the last reading failed for a reason that a retry does not change: credentials,
 * the configuration, or an upstream that is gone. */
bool source_is_refused(struct source *source);

/* How long the upstream asked to be left alone at the last reading; 0: it did not say. */
int64_t source_retry_after_ms(struct source *source);

#endif
