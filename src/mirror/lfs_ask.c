#include "mirror/lfs_ask.h"

#include <strings.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/file.h"
#include "git/lfs_pointer.h"

#define CONNECT_MS 10000
#define SILENCE_MS 60000
#define BATCH_MS 120000
#define REDIRECTS_MOST 5
#define REFUSAL_MOST ((size_t)64 << 10) /* of an answer that is no object */
#define PIECE ((size_t)128 << 10)
#define AUTHORIZATION "Authorization"

/* With an offer's headers, and some of ours. */
#define HEADERS_SIZE 64

static const char *lfs_ask_value(const struct lfs_upstream *upstream)
{
	return upstream->header ? upstream->header + strlen(AUTHORIZATION ": ") : NULL;
}

static int64_t lfs_ask_until(const struct lfs_upstream *upstream, int64_t most_ms)
{
	int64_t until = clock_boot_ms() + most_ms;

	return until < upstream->until ? until : upstream->until;
}

static int lfs_ask_fail_limited(struct lfs_asker *asker, const struct http_call *call,
				struct err *err)
{
	asker->rest_ms = http_get_rest_ms(call);
	err_set(err, ERR_NETWORK, "%s limits how much is downloaded (HTTP %ld)",
		call->peer, call->status);
	err_because(err, REASON_RATE_LIMITED);
	return err_remedy(err, "it is asked again when it allows it; see whether its "
			       "quota for LFS is used up");
}

static int lfs_ask_fail_redirect(const struct http_call *call, struct err *err)
{
	err_set(err, ERR_CONFIG, "%s redirects elsewhere for LFS (HTTP %ld)", call->peer,
		call->status);
	return err_remedy(err, "set mirror.url to where the repository is now; such a "
			       "redirect is not followed");
}

static int lfs_ask_fail_auth(const struct lfs_asker *asker, const struct http_call *call,
			     struct err *err)
{
	const struct watcher *watcher = asker->upstream->watcher;

	err_set(err, ERR_AUTH, "%s refuses %s%s for LFS (HTTP %ld)", call->peer,
		watcher ? "the credential of watcher " : "readers without a credential",
		watcher ? watcher->name : "", call->status);
	return err_remedy(err, "see whether that credential may read the repository's "
			       "LFS objects");
}

/* `what` is asked for. */
static int lfs_ask_fail_status(struct lfs_asker *asker, const struct http_call *call,
			       const char *what, struct err *err)
{
	const long status = call->status;

	if (status == 429 || status == 509 ||
	    (status == 403 && http_get_rest_ms(call) > 0))
		return lfs_ask_fail_limited(asker, call, err);
	if (status >= 300 && status < 400)
		return lfs_ask_fail_redirect(call, err);
	if (status == 401 || status == 403)
		return lfs_ask_fail_auth(asker, call, err);
	if (status == 404 || status == 410) {
		err_set(err, ERR_MISSING, "%s has no %s (HTTP %ld)", call->peer, what,
			status);
		return err_remedy(err, "see whether its owner has pushed all LFS "
				       "objects (git lfs push --all)");
	}
	err_set(err, status >= 500 ? ERR_NETWORK : ERR_CONFIG,
		"%s answered HTTP %ld for %s", call->peer, status, what);
	return err_remedy(err, "see whether its LFS server is well");
}

/*
 * Batches.
 */

static int lfs_ask_read_answer(struct lfs_asker *asker, const struct http_call *call,
			       const struct str *body, const struct lfs_row *rows,
			       size_t count, lfs_offers *offers, struct err *err)
{
	if (call->status != 200)
		return lfs_ask_fail_status(asker, call, "LFS for this repository", err);
	if (lfs_offers_read(body->data, body->len, rows, count, clock_wall_ms(), offers,
			    err) == 0)
		return 0;
	err_prefix(err, "%s", call->peer);
	return err_remedy(err, "see what answers at its URL and /info/lfs: it should be "
			       "a server of Git LFS");
}

static int lfs_ask_batch_of(struct lfs_asker *asker, const struct lfs_row *rows,
			    size_t count, lfs_offers *offers, struct err *err)
{
	const struct lfs_upstream *upstream = asker->upstream;
	AUTO_FREE char *url = lfs_offer_make_url(upstream->mirror->url);
	AUTO_FREE char *question = lfs_offer_make_question(rows, count);
	AUTO_STR struct str body = STR_INIT, host = STR_INIT;
	const char *value = lfs_ask_value(upstream);
	const struct http_header headers[] = {
		{ "User-Agent", "git-lfs/refrelay" },    { "Accept", LFS_OFFER_TYPE },
		{ "Content-Type", LFS_OFFER_TYPE },      { "Expect", NULL },
		{ value ? AUTHORIZATION : NULL, value }, { 0 },
	};

	if (http_check_url(url, true, &host)) {
		err_set(err, ERR_CONFIG,
			"LFS objects come by https, http or a path only");
		return err_remedy(err,
				  "give the mirror a section of its own without lfs");
	}
	struct http_call call = {
		.line = asker->line,
		.request = { .method = "POST",
			     .url = url,
			     .headers = headers,
			     .ca_file = upstream->mirror->ca_file,
			     .body = question,
			     .body_size = strlen(question),
			     .connect_ms = CONNECT_MS,
			     .silence_ms = SILENCE_MS,
			     .until = lfs_ask_until(upstream, BATCH_MS),
			     .stop = upstream->stop },
		.peer = host.len > 0 ? host.data : "the upstream",
		.remedy = "see whether the upstream can be reached from here",
		.take = http_take_limited,
		.taker = &(struct http_limit){ &body, LFS_OFFER_ANSWER, ERR_CORRUPT,
					       "the answer to a batch does not end" },
	};
	int result = http_complete(&call, err);
	if (result == 0)
		result = lfs_ask_read_answer(asker, &call, &body, rows, count, offers,
					     err);
	http_end(&call);
	asker->line = call.line;
	return result;
}

/* What is in a directory is found when it is opened. */
static void lfs_ask_offer_all(const struct lfs_row *rows, size_t count,
			      lfs_offers *offers)
{
	for (size_t i = 0; i < count; i++) {
		struct lfs_offer offer = { .row = rows[i] };
		vec_add(offers, offer);
	}
}

int lfs_ask_batch(struct lfs_asker *asker, const struct lfs_row *rows, size_t count,
		  lfs_offers *offers, struct err *err)
{
	*offers = (lfs_offers){ 0 };
	if (asker->upstream->local < 0)
		return lfs_ask_batch_of(asker, rows, count, offers, err);
	lfs_ask_offer_all(rows, count, offers);
	return 0;
}

/*
 * Single objects. The size that a pointer says is anybody's word, as of a stranger's
 * branch: only the SHA-256 of what comes counts. So nothing is reserved for it, and no
 * more is taken than mirror.maxSize, and than leaves others a tenth of the disk. Of that
 * tenth belongs what came in earlier tries: else each try could take nine tenths of what
 * the one before has left.
 */

#define ROOM_PIECE ((uint64_t)1 << 20) /* so often the disk is asked */

struct lfs_arriving {
	struct lfs_asker *asker;
	const struct lfs_offer *offer;
	const char *id;
	struct blob_incoming *incoming; /* owned */
	struct http_call *call;
	uint64_t resumed;   /* bytes that came in earlier tries */
	uint64_t room_left; /* bytes of the disk that others keep */
	size_t refusal;     /* bytes of an answer that is no object */
	bool begins_anew;   /* the server gives all of it, and not the rest */
	bool is_excess;     /* what has come is itself too large to be kept */
};

/* What cannot be asked has room enough: the disk tells when it is full. */
static uint64_t lfs_ask_free_bytes(const struct lfs_upstream *upstream)
{
	struct statvfs room;

	return fstatvfs(upstream->root, &room) == 0
		       ? (uint64_t)room.f_bavail * room.f_frsize
		       : UINT64_MAX;
}

static int lfs_arriving_open(struct lfs_arriving *arriving, struct err *err)
{
	const struct lfs_upstream *upstream = arriving->asker->upstream;
	const struct blob_incoming_request request = { .root = upstream->root,
						       .type = upstream->type,
						       .id = arriving->id,
						       .size = UINT64_MAX,
						       .resume =
							       arriving->offer->row.oid };

	if (blob_incoming_open(&request, &arriving->incoming, err) != 0)
		return -1;
	arriving->resumed = blob_incoming_size(arriving->incoming);
	arriving->room_left = lfs_ask_free_bytes(upstream) / 10 + arriving->resumed / 10;
	return 0;
}

static void lfs_arriving_close(struct lfs_arriving *arriving, bool is_wrong)
{
	if (arriving->incoming)
		blob_incoming_close(arriving->incoming, is_wrong);
	arriving->incoming = NULL;
}

int lfs_ask_refuse_size(const struct lfs_upstream *upstream, const char *oid,
			struct err *err)
{
	err_set(err, ERR_CONFIG, "%s: it has more than the %" PRIu64 " bytes of maxSize",
		oid, upstream->mirror->max_size);
	err_because(err, REASON_TOO_LARGE);
	return err_remedy(err, "if the object may be that large, raise the mirror's "
			       "maxSize");
}

/* Whether so many more bytes may come. */
static int lfs_arriving_check_room(struct lfs_arriving *arriving, uint64_t count,
				   struct err *err)
{
	const struct lfs_upstream *upstream = arriving->asker->upstream;
	const char *oid = arriving->offer->row.oid;
	const uint64_t most = upstream->mirror->max_size;
	const uint64_t have = blob_incoming_size(arriving->incoming);
	const uint64_t room = lfs_ask_free_bytes(upstream);

	if (most > 0 && (have > most || count > most - have)) {
		arriving->is_excess = true;
		return lfs_ask_refuse_size(upstream, oid, err);
	}
	if (have + count <= arriving->resumed || have + count <= arriving->room_left ||
	    (room >= arriving->room_left && count <= room - arriving->room_left))
		return 0;
	/* Else others have filled the disk, which may pass. */
	arriving->is_excess =
		have > arriving->resumed && have + count > 9 * arriving->room_left;
	err_set(err, ERR_DISK, "%s: it takes more than nine tenths of what is free", oid);
	err_because(err, REASON_TOO_LARGE);
	return err_remedy(err, "free some space if the object may be that large");
}

static int lfs_arriving_write(struct lfs_arriving *arriving, const void *bytes,
			      size_t count, struct err *err)
{
	const uint64_t have = blob_incoming_size(arriving->incoming);

	if (have / ROOM_PIECE != (have + count) / ROOM_PIECE &&
	    lfs_arriving_check_room(arriving, count, err) != 0)
		return -1;
	arriving->asker->bytes += count;
	return blob_incoming_write(arriving->incoming, bytes, count, err);
}

/* Whether the answer's body is what was asked for. */
static bool lfs_arriving_is_body(const struct lfs_arriving *arriving)
{
	const long status = arriving->call->status;
	const uint64_t have = blob_incoming_size(arriving->incoming);
	const char *range;
	AUTO_FREE char *begin = NULL;

	if (status == 200)
		return have == 0;
	begin = xasprintf("bytes %" PRIu64 "-", have);
	range = http_find_header(arriving->call, "Content-Range", 0);
	return status == 206 && range && text_starts_with(range, begin);
}

/* As the answer says; 0: it does not. */
static uint64_t lfs_arriving_length(const struct lfs_arriving *arriving)
{
	const char *text = http_find_header(arriving->call, "Content-Length", 0);
	uint64_t length;

	return text && text_to_uint64(text, &length) ? length : 0;
}

static int lfs_arriving_take(void *arg, const char *bytes, size_t count, struct err *err)
{
	struct lfs_arriving *arriving = arg;
	const long status = arriving->call->status;

	/* Each piece makes what is there longer: only the first is judged. */
	if (arriving->refusal == 0 && (status == 200 || status == 206)) {
		arriving->refusal = SIZE_MAX;
		if (!lfs_arriving_is_body(arriving)) {
			arriving->begins_anew = true;
			return err_set(err, ERR_CONFLICT, "it begins anew");
		}
		if (lfs_arriving_check_room(arriving, lfs_arriving_length(arriving),
					    err) != 0)
			return -1;
	}
	if (arriving->refusal == SIZE_MAX)
		return lfs_arriving_write(arriving, bytes, count, err);
	arriving->refusal += count;
	return arriving->refusal <= REFUSAL_MOST
		       ? 0
		       : err_set(err, ERR_NETWORK, "%s answered HTTP %ld at length",
				 arriving->call->peer, status);
}

/* What goes along to `url`: the offer's headers if it is where the offer leads, and the
 * credential if it is where the credential is for. */
static void lfs_ask_fill_headers(const struct lfs_asker *asker,
				 const struct lfs_offer *offer, const char *url,
				 const char *range,
				 struct http_header headers[HEADERS_SIZE])
{
	const struct lfs_upstream *upstream = asker->upstream;
	const char *value = lfs_ask_value(upstream);
	bool is_shown = offer->is_authenticated;
	size_t count = 0;

	headers[count++] = (struct http_header){ "User-Agent", "git-lfs/refrelay" };
	headers[count++] = (struct http_header){ "Accept", "*/*" };
	if (range)
		headers[count++] = (struct http_header){ "Range", range };
	for (size_t i = 0; i < offer->headers.count; i++) {
		const struct lfs_offer_header *header = &offer->headers.items[i];
		if (!lfs_offer_is_same_place(offer->href, url))
			break;
		is_shown |= strcasecmp(header->name, AUTHORIZATION) == 0;
		headers[count++] = (struct http_header){ header->name, header->value };
	}
	if (value && !is_shown && lfs_offer_is_same_place(upstream->mirror->url, url))
		headers[count++] = (struct http_header){ AUTHORIZATION, value };
	headers[count] = (struct http_header){ 0 };
}

/* Who vouches for the mirror's own server vouches for no other place. */
static const char *lfs_ask_authorities(const struct lfs_asker *asker, const char *url)
{
	const struct mirror *mirror = asker->upstream->mirror;

	return lfs_offer_is_same_place(mirror->url, url) ? mirror->ca_file : NULL;
}

/* Where it redirects to; the caller frees. NULL: nowhere that is gone to. */
static char *lfs_ask_follow(const struct http_call *call, const char *url)
{
	const long status = call->status;
	const char *location = http_find_header(call, "Location", 0);
	char *next;

	if (status != 301 && status != 302 && status != 303 && status != 307 &&
	    status != 308)
		return NULL;
	next = location ? http_resolve_url(url, location) : NULL;
	if (next && !http_check_url(next, true, NULL) &&
	    !lfs_offer_is_downgrade(url, next))
		return next;
	free(next);
	return NULL;
}

/* 1: it is at *next. */
static int lfs_ask_download_at(struct lfs_arriving *arriving, const char *url,
			       char **next, struct err *err)
{
	struct lfs_asker *asker = arriving->asker;
	const uint64_t have = blob_incoming_size(arriving->incoming);
	AUTO_FREE char *range = have > 0 ? xasprintf("bytes=%" PRIu64 "-", have) : NULL;
	AUTO_STR struct str host = STR_INIT;
	struct http_header headers[HEADERS_SIZE];

	lfs_ask_fill_headers(asker, arriving->offer, url, range, headers);
	http_check_url(url, true, &host);
	struct http_call call = {
		.line = asker->line,
		.request = { .method = "GET",
			     .url = url,
			     .headers = headers,
			     .ca_file = lfs_ask_authorities(asker, url),
			     .connect_ms = CONNECT_MS,
			     .silence_ms = SILENCE_MS,
			     .until = asker->upstream->until,
			     .stop = asker->upstream->stop },
		.peer = host.data,
		.remedy = "see whether what has the LFS objects can be reached from here",
		.take = lfs_arriving_take,
		.taker = arriving,
	};
	arriving->call = &call;
	arriving->refusal = 0;
	int result = http_complete(&call, err);
	if (result == 0 && (*next = lfs_ask_follow(&call, url)) != NULL)
		result = 1;
	else if (result == 0 && call.status == 416 && have > 0)
		arriving->begins_anew = true;
	else if (result == 0 && call.status != 200 && call.status != 206)
		result = lfs_ask_fail_status(asker, &call, "such object", err);
	http_end(&call);
	asker->line = call.line;
	arriving->call = NULL;
	return result;
}

static int lfs_ask_download(struct lfs_arriving *arriving, struct err *err)
{
	AUTO_FREE char *url = xstrdup(arriving->offer->href);
	int result = 1;

	for (int hops = 0; result == 1 && hops <= REDIRECTS_MOST; hops++) {
		char *next = NULL;
		result = lfs_ask_download_at(arriving, url, &next, err);
		if (result == 1) {
			free(url);
			url = next;
		}
	}
	return result <= 0
		       ? result
		       : err_set(err, ERR_CONFIG, "%s: its URL redirects again and again",
				 arriving->offer->row.oid);
}

static int lfs_ask_bring_http(struct lfs_arriving *arriving, struct err *err)
{
	const struct lfs_offer *offer = arriving->offer;
	int result;

	if (lfs_offer_is_downgrade(arriving->asker->upstream->mirror->url, offer->href)) {
		err_set(err, ERR_CONFIG, "%s: it would come over http, and not https",
			offer->row.oid);
		return err_remedy(err, "its server has to give out https URLs");
	}
	if (offer->row.size > 0 &&
	    blob_incoming_size(arriving->incoming) == offer->row.size)
		return 0; /* it came whole, if the pointer is right */
	result = lfs_ask_download(arriving, err);
	if (!arriving->begins_anew)
		return result;
	lfs_arriving_close(arriving, true);
	arriving->begins_anew = false;
	if (lfs_arriving_open(arriving, err) != 0)
		return -1;
	return lfs_ask_download(arriving, err);
}

/* git-lfs keeps it under its whole oid. */
static int lfs_ask_open_local(struct lfs_arriving *arriving, int *fd, struct err *err)
{
	const char *oid = arriving->offer->row.oid;
	AUTO_FREE char *id = xasprintf("%.2s/%.2s/%s", oid, oid + 2, oid);
	struct stat stat;

	if (blob_open(arriving->asker->upstream->local, id, fd, &stat, err) == 0)
		return lfs_arriving_check_room(arriving, (uint64_t)stat.st_size, err);
	return err_prefix(err, "the upstream's lfs/objects");
}

static int lfs_ask_bring_local(struct lfs_arriving *arriving, struct err *err)
{
	AUTO_FREE char *piece = xmalloc(PIECE);
	AUTO_CLOSE int fd = -1;
	ssize_t got;

	if (blob_incoming_size(arriving->incoming) > 0) {
		lfs_arriving_close(arriving, true);
		if (lfs_arriving_open(arriving, err) != 0)
			return -1;
	}
	if (lfs_ask_open_local(arriving, &fd, err) != 0)
		return -1;
	while ((got = read(fd, piece, PIECE)) > 0) {
		if (stop_is_requested(arriving->asker->upstream->stop))
			return err_set(err, ERR_CANCELED, "it was stopped");
		if (lfs_arriving_write(arriving, piece, (size_t)got, err) != 0)
			return -1;
	}
	return got == 0 ? 0 : err_errno(err, "cannot read the upstream's LFS object");
}

static int lfs_ask_check(struct lfs_arriving *arriving, struct err *err)
{
	const struct lfs_row *row = &arriving->offer->row;
	char digest[BLOB_DIGEST_SIZE];

	if (lfs_arriving_check_room(arriving, 0, err) != 0)
		return -1;
	if (blob_incoming_digest(arriving->incoming, digest, err) != 0)
		return -1;
	if (strcmp(digest, row->oid) == 0)
		return 0;
	err_set(err, ERR_CORRUPT,
		"%s: %" PRIu64 " bytes came (its pointer says %" PRIu64
		"), what came has "
		"the SHA-256 %s",
		row->oid, blob_incoming_size(arriving->incoming), row->size, digest);
	return err_remedy(err, "its upstream has to give out the right object");
}

int lfs_ask_object(struct lfs_asker *asker, const struct lfs_offer *offer, const char *id,
		   struct blob_incoming **incoming, struct err *err)
{
	struct lfs_arriving arriving = { .asker = asker, .offer = offer, .id = id };
	int result;

	if (lfs_arriving_open(&arriving, err) != 0)
		return -1;
	result = asker->upstream->local >= 0 ? lfs_ask_bring_local(&arriving, err)
					     : lfs_ask_bring_http(&arriving, err);
	if (result == 0)
		result = lfs_ask_check(&arriving, err);
	if (result == 0)
		*incoming = TAKE(arriving.incoming);
	else
		lfs_arriving_close(&arriving,
				   err->class == ERR_CORRUPT || arriving.is_excess);
	return result;
}

int lfs_upstream_open_path(const char *path, struct err *err)
{
	static const char *const below[] = { "lfs/objects", ".git/lfs/objects" };

	for (size_t i = 0; i < ARRAY_SIZE(below); i++) {
		AUTO_FREE char *folder = xasprintf("%s/%s", path, below[i]);
		int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0)
			return fd;
	}
	if (errno != ENOENT && errno != ENOTDIR)
		return err_errno(err, "cannot open the upstream's lfs/objects");
	err_set(err, ERR_MISSING, "the upstream has no directory lfs/objects");
	return err_remedy(err, "git lfs fetch --all there brings its objects");
}
