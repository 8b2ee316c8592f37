/*
 * The upstream of a mirror as a source: its refs by the mirror's own request
 * (mirror/upstream.h), its objects by another one on the same connection if they are few
 * (mirror/upstream_fetch.h), else by git, each with the same credential.
 */
#include "pull/mirror_source.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "mirror/upstream_fetch.h"
#include "replicable/name.h"

struct mirror_source {
	struct source source;
	struct upstream_call manner; /* with this one: */
	struct http_line line;
	bool is_fast;
	int64_t retry_after_ms; /* of the last reading, as these: */
	const struct mirror *mirror;
	const struct watcher *watcher;
	char stamp[CREDENTIAL_STAMP_SIZE]; /* of its files */
	int64_t read_at;
	const struct watcher *doubted; /* git was refused with what had just been taken */
	bool is_refused;
};

static struct mirror_source *mirror_source_of(struct source *source)
{
	return (struct mirror_source *)source;
}

static const struct mirror *mirror_source_find(struct source *source, const char *name,
					       struct err *err)
{
	const struct mirror *mirror =
		mirrors_find(mirror_source_of(source)->manner.mirrors, name);

	if (!mirror) {
		err_set(err, ERR_CONFIG,
			"the configuration has no [mirror \"%s\"], nor has a list of "
			"[mirrors] the name",
			name);
		name_remedy(err, "put the section back, or run refrelay mirror remove",
			    name);
	}
	return mirror;
}

static char *mirror_source_url(struct source *source, const char *name, struct err *err)
{
	const struct mirror *mirror = mirror_source_find(source, name, err);

	return mirror ? xstrdup(mirror->url) : NULL;
}

/* Not of a directory: its file system may be mounted again, which nobody tells. */
static bool mirror_source_is_final(const struct mirror *mirror, const struct err *why)
{
	if (mirror && mirror->uri.kind == URL_LOCAL)
		return false;
	return why->class == ERR_AUTH || why->class == ERR_CONFIG ||
	       why->class == ERR_MISSING;
}

/* What a tag finally names its own object tells (objects_peel): an upstream that leaves
 * it out, or lies, would have it wrong in packed-refs, which git believes. */
static void mirror_source_forget_peels(struct ref_snapshot *refs)
{
	for (size_t i = 0; i < refs->refs.count; i++)
		refs->refs.items[i].peel = REF_PEEL_UNKNOWN;
}

static int mirror_source_read(struct source *source, const char *name,
			      struct source_view *view, struct err *err)
{
	struct mirror_source *its = mirror_source_of(source);
	const struct mirror *mirror = mirror_source_find(source, name, err);
	AUTO_UPSTREAM struct upstream_view seen = { 0 };
	struct upstream_call call = its->manner;

	call.mirror = mirror;
	int result = mirror ? upstream_read(&call, &seen, err) : -1;
	its->retry_after_ms = seen.retry_after_ms;
	its->mirror = mirror;
	its->watcher = seen.watcher;
	memcpy(its->stamp, seen.tag.stamp, sizeof(its->stamp));
	its->read_at = clock_wall_ms();
	its->is_refused = result != 0 && mirror_source_is_final(mirror, err);
	if (result == 0 && mirror->depth == 0 && seen.refs.cuts.count > 0)
		result = source_refuse_shallow(err);
	if (result != 0)
		return -1;
	*view = (struct source_view){ .refs = seen.refs,
				      .oid_len = seen.oid_len,
				      .url = TAKE(seen.url),
				      .header = TAKE(seen.header),
				      .ssh_command = TAKE(seen.ssh_command),
				      .ca_file = mirror->ca_file,
				      .generation = UPSTREAM_GENERATION,
				      .depth = mirror->depth,
				      .hides_cuts = true,
				      .is_foreign = true,
				      .pack_most = mirror->max_size,
				      .is_local = seen.is_local };
	seen.refs = (struct ref_snapshot)REF_SNAPSHOT_INIT;
	mirror_source_forget_peels(&view->refs);
	vec_clear(&view->refs.cuts); /* of a directory; git asks it itself */
	upstream_timeline(mirror, view->timeline);
	return 0;
}

/* Refs that are asked for, and told: as many lines has the request. */
#define ASKED_MOST 4000

/* What is not asked for in vain: a change of what is known, over HTTP, by SHA-1. */
static bool mirror_source_may_be_small(const struct mirror_source *its,
				       const struct source_want *want)
{
	const struct source_view *view = want->view;

	return its->is_fast && view->oid_len == 20 && !view->is_local &&
	       view->depth == 0 && !view->ssh_command &&
	       !http_check_url(view->url, false, NULL) && !want->is_anew && want->known &&
	       want->known->count > 0 &&
	       want->oids->count + want->known->count <= ASKED_MOST;
}

/* Whether git would only be told the same, by one more request of it. */
static bool mirror_source_ends(const struct err *why)
{
	return why->class == ERR_CANCELED || why->class == ERR_LOST ||
	       why->reason == REASON_RATE_LIMITED;
}

/* It counts for all of the host. */
static void mirror_source_note_rest(const struct mirror_source *its)
{
	if (its->manner.marks && its->retry_after_ms > 0)
		credential_rest(its->manner.marks, its->mirror, its->watcher,
				its->retry_after_ms);
}

/* 1: take git. Failpoint: objects.fetched, as by git. */
static int mirror_source_bring_small(struct mirror_source *its,
				     const struct source_want *want, struct err *err)
{
	const struct source_view *view = want->view;
	const uint64_t most = view->pack_most;
	AUTO_STR struct str pack = STR_INIT;
	struct err why;

	if (!mirror_source_may_be_small(its, want))
		return 1;
	if (upstream_fetch_pack(
		    &(struct upstream_fetch){
			    .work = want->work,
			    .url = view->url,
			    .header = view->header,
			    .ca_file = view->ca_file,
			    .wanted = want->oids,
			    .have = want->known,
			    .most = most > 0 && most < SOURCE_DELTA_BYTES
					    ? (size_t)most
					    : (size_t)SOURCE_DELTA_BYTES,
			    .retry_after_ms = &its->retry_after_ms },
		    &its->line, &pack, &why) != 0) {
		if (mirror_source_ends(&why)) {
			mirror_source_note_rest(its);
			*err = why;
			return -1;
		}
		log_debug("mirror.by_git", LOG_ERR(&why));
		return 1;
	}
	if (!source_take_pack(want, &pack))
		return 1;
	failpoint("objects.fetched");
	return 0;
}

static int mirror_source_bring(struct source *source, const struct source_want *want,
			       struct err *err)
{
	int result = mirror_source_bring_small(mirror_source_of(source), want, err);

	return result > 0 ? source_fetch(want, NULL, err) : result;
}

/* By asking again it is seen whether the credential was revoked meanwhile, and the next
 * watcher's turn comes; or whether the upstream wants rest, which git does not tell. If
 * the upstream shows its refs to it even so, it is the objects that it may not have. */
static bool mirror_source_take_refusal(struct source *source, const char *name,
				       const struct err *why)
{
	struct mirror_source *its = mirror_source_of(source);
	const struct mirror *mirror = mirrors_find(its->manner.mirrors, name);

	if (!its->watcher || !mirror)
		return false;
	if (its->doubted != its->watcher) {
		its->doubted = its->watcher;
		return true;
	}
	if (its->manner.marks)
		credential_mark(its->manner.marks, mirror, its->watcher, its->stamp, why);
	its->manner.is_asked = false; /* those that are marked have been tried now */
	return !its->manner.watcher;
}

static void mirror_source_free(struct source *source)
{
	http_line_close(&mirror_source_of(source)->line);
	free(source);
}

static const struct source_ops mirror_source_ops = {
	.url = mirror_source_url,
	.read = mirror_source_read,
	.bring = mirror_source_bring,
	.take_refusal = mirror_source_take_refusal,
	.free = mirror_source_free,
};

struct source *source_new_upstreams(const struct upstream_call *manner, bool is_fast)
{
	struct mirror_source *one = xcalloc(1, sizeof(*one));

	one->source.ops = &mirror_source_ops;
	one->manner = *manner;
	one->line = http_line_open();
	one->manner.line = &one->line;
	one->is_fast = is_fast;
	return &one->source;
}

int64_t source_read_at(struct source *source, const struct watcher **watcher)
{
	*watcher = mirror_source_of(source)->watcher;
	return mirror_source_of(source)->read_at;
}

bool source_is_refused(struct source *source)
{
	return mirror_source_of(source)->is_refused;
}

int64_t source_retry_after_ms(struct source *source)
{
	return mirror_source_of(source)->retry_after_ms;
}
