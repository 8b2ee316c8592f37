/*
 * A source of the upstreams of this site's mirrors (pull/source.h). One thread at a time:
 * each job has one of its own.
 */
#ifndef PULL_MIRROR_SOURCE_H
#define PULL_MIRROR_SOURCE_H

#include "mirror/upstream.h"
#include "pull/source.h"

/* How upstreams are asked: mirrors, watcher, marks, is_asked, timeout_ms and stop of a
 * call; borrowed, and copied. is_fast: small changes come without git, where they can. */
struct source *source_new_upstreams(const struct upstream_call *manner, bool is_fast);

/* Of the last reading: when it was (wall ms), and with whose credential; NULL: none. */
int64_t source_read_at(struct source *source, const struct watcher **watcher);

/* Of the last reading: it failed by what no further try changes: credentials, the
 * configuration, or an upstream that is gone. */
bool source_is_refused(struct source *source);

/* Of the last reading: how long the upstream wants to rest; 0: it says nothing of it. */
int64_t source_retry_after_ms(struct source *source);

#endif
