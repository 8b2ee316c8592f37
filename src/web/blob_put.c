/*
 * The body goes through blob/incoming.h, its digest is computed on the way, and only what
 * has the digest that was announced comes into place. It is durable before it is
 * noticed, and noticed before the client hears that it is there.
 *
 * What is there already and has the same content stays as it is: no event, nothing to
 * copy for anybody. It is read for that, as its record is not proof enough for who would
 * throw away a good copy.
 */
#include "web/blob_put.h"

#include <openssl/evp.h>

#include "base/clock.h"
#include "base/flush.h"
#include "base/log.h"
#include "base/metrics.h"
#include "blob/incoming.h"
#include "change/inventory.h"
#include "web/api.h"
#include "web/blobs.h"
#include "web/pass_on.h"
#include "web/web_metrics.h"

enum { PIECE = 128 << 10 };

/* Of what is packed on the way it is not the size. */
static uint64_t announced_size(const struct web_request *request)
{
	const char *text = web_header(request, "Content-Length");
	uint64_t size;

	return text && !web_header(request, "Content-Encoding") &&
			       text_to_uint64(text, &size)
		       ? size
		       : UINT64_MAX;
}

static int blob_put_refuse_size(struct blob_put *put, struct err *err)
{
	put->has_wrong_size = true;
	return err_set(err, ERR_CORRUPT,
		       "what came has not the announced %" PRIu64 " bytes", put->size);
}

/* What is longer than it may be need not come to its end, which it may not have. */
static int blob_put_receive(const struct web_request *request, struct blob_put *put,
			    struct blob_incoming *incoming, struct err *err)
{
	AUTO_FREE char *piece = xmalloc(PIECE);
	uint64_t left = put->size;
	ssize_t got;

	while ((got = web_read_upload(request, piece, PIECE, err)) > 0) {
		if ((uint64_t)got > left)
			return blob_put_refuse_size(put, err);
		if (put->size != UINT64_MAX)
			left -= (uint64_t)got;
		if (blob_incoming_write(incoming, piece, (size_t)got, err) != 0)
			return -1;
	}
	if (got == 0 && put->size != UINT64_MAX && left > 0)
		return blob_put_refuse_size(put, err);
	return got == 0 ? 0 : -1;
}

static int check_digest(struct blob_incoming *incoming, const struct blob_put *put,
			struct err *err)
{
	char digest[BLOB_DIGEST_SIZE];

	if (blob_incoming_digest(incoming, digest, err) != 0)
		return -1;
	if (strcmp(digest, put->digest) == 0)
		return 0;
	err_set(err, ERR_CORRUPT, "what came has the SHA-256 %s, not %s", digest,
		put->digest);
	return err_remedy(err, "send it again; what came was thrown away");
}

/* Whether what is there has this very content, and is durable. */
static bool blob_put_is_there(int root, const struct blob_put *put,
			      struct blob_known *known)
{
	AUTO_CLOSE int fd = -1;
	struct stat stat;
	struct err err;

	if (blob_open(root, put->id, &fd, &stat, &err) != 0 ||
	    blob_digest(fd, &known->fingerprint, known->digest, NULL, &err) != 0 ||
	    strcmp(known->digest, put->digest) != 0)
		return false;
	return flush_data(&fd, 1, FLUSH_EACH, &err) == 0 &&
	       flush_name(root, put->id, FLUSH_EACH, &err) == 0;
}

static int commit_file(int root, struct blob_incoming **incoming,
		       struct blob_known *known, struct err *err)
{
	struct blob_arrival arrival = { .incoming = TAKE(*incoming) };
	blob_arrivals arrivals = { 0 };
	int result;

	vec_add(&arrivals, arrival);
	result = blob_arrivals_commit(root, &arrivals, err);
	arrival = arrivals.items[0];
	vec_clear(&arrivals);
	if (result == 0 && arrival.failed) {
		*err = arrival.why;
		result = -1;
	}
	known->fingerprint = arrival.fingerprint;
	return result;
}

/* False: a file of that name is there. */
static bool is_free(int root, const char *id)
{
	AUTO_CLOSE int fd = -1;
	struct stat stat;
	struct err err;

	return blob_open(root, id, &fd, &stat, &err) != 0 && err.class == ERR_MISSING;
}

static int blob_put_record(const struct web_request *request, struct blob_put *put,
			   const struct blob_known *known, struct err *err)
{
	struct noticed noticed = { .name = put->id, .known = known };
	int result =
		notice_compare_this(request->services->notice, put->kind, &noticed, err);

	put->row = noticed.row;
	if (result != 0)
		return err_prefix(err, "it was stored, but not recorded");
	return 0;
}

static int blob_put_commit(const struct web_request *request, int root,
			   struct blob_incoming **incoming, struct blob_put *put,
			   struct err *err)
{
	struct blob_known known = { 0 };

	put->is_new = is_free(root, put->id);
	if (put->is_new || !blob_put_is_there(root, put, &known)) {
		memcpy(known.digest, put->digest, sizeof(known.digest));
		if (commit_file(root, incoming, &known, err) != 0)
			return -1;
	}
	return blob_put_record(request, put, &known, err);
}

/* What came was right: who removes it again, or puts a link above it, is in the way. */
static int blob_put_settle(const struct web_request *request, int root,
			   struct blob_incoming **incoming, struct blob_put *put,
			   struct err *err)
{
	if (blob_put_commit(request, root, incoming, put, err) == 0)
		return 0;
	if (err->class == ERR_CORRUPT || err->class == ERR_MISSING ||
	    err->class == ERR_CONFIG)
		err->class = ERR_CONFLICT;
	return -1;
}

static void blob_put_count(const char *type, unsigned blobs, uint64_t bytes)
{
	metric_add(metric_at(metric_counter("refrelay_blobs_put_total",
					    "Blobs that clients put here.", "kind"),
			     type),
		   blobs);
	metric_add(
		metric_at(metric_counter("refrelay_blobs_put_bytes_total",
					 "Bytes of blobs that clients put here.", "kind"),
			  type),
		(double)bytes);
}

void blob_put_begin_metrics(const char *kind)
{
	blob_put_count(kind, 0, 0);
}

static void log_put(const struct web_request *request, const struct blob_put *put,
		    int64_t begun_at)
{
	const char *type = put->kind->type;

	log_info("blob.put", LOG_NUMBER("dur_ms", clock_boot_ms() - begun_at),
		 LOG_NUMBER("bytes", put->row.size), LOG_TEXT("kind", type),
		 LOG_TEXT("name", put->id), LOG_TEXT("user", request->user));
	blob_put_count(type, 1, put->row.size);
}

int blob_put_upload(const struct web_request *request, struct blob_put *put,
		    struct err *err)
{
	const struct origin_kind origin = { .of = *put->kind };
	AUTO_CLOSE int root = put->kind->origin->open_root(&origin, err);
	struct blob_incoming *incoming = NULL;
	int64_t begun_at = clock_boot_ms();

	put->row = (struct origin_row){ 0 };
	if (root < 0)
		return -1;
	if (blob_incoming_open(
		    &(struct blob_incoming_request){ .root = root,
						     .type = put->kind->type,
						     .id = put->id,
						     .size = announced_size(request) },
		    &incoming, err) != 0)
		return -1;
	int result =
		blob_put_receive(request, put, incoming, err) != 0 ||
				check_digest(incoming, put, err) != 0 ||
				blob_put_settle(request, root, &incoming, put, err) != 0
			? -1
			: 0;
	blob_incoming_close(incoming, true);
	if (result == 0)
		log_put(request, put, begun_at);
	return result;
}

/* BASE64 and a colon. */
static bool decode_digest(const char *text, char digest[BLOB_DIGEST_SIZE])
{
	unsigned char bytes[36];

	if (strcspn(text, ":=") != 43 || text[43] != '=' || text[44] != ':' ||
	    EVP_DecodeBlock(bytes, (const unsigned char *)text, 44) != 33)
		return false;
	blob_digest_format(bytes, digest);
	return true;
}

/* "sha-256=:BASE64:" in a list of such, RFC 9530; two that differ are none. */
static bool blob_put_read_digest(const char *header, char digest[BLOB_DIGEST_SIZE])
{
	static const char key[] = "sha-256=:";
	char again[BLOB_DIGEST_SIZE];
	bool has = false;

	while (*header) {
		header += strspn(header, " \t,");
		if (text_starts_with(header, key)) {
			if (!decode_digest(header + strlen(key), again) ||
			    (has && strcmp(again, digest) != 0))
				return false;
			memcpy(digest, again, sizeof(again));
			has = true;
		}
		header += strcspn(header, ",");
	}
	return has;
}

static int blob_put_refuse_request(struct err *err, const char *text, const char *remedy)
{
	err_set(err, ERR_CONFIG, "%s", text);
	return err_remedy(err, "%s", remedy);
}

/* What would be ignored is refused: conditions, and parts. By a secondary, too, which
 * does not hand them on: a part would become the whole. */
static int check_headers(const struct web_request *request, struct err *err)
{
	static const char *const refused[] = { "Content-Range", "If-Match",
					       "If-None-Match", "If-Unmodified-Since" };
	const char *encoding = web_header(request, "Content-Encoding");

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		if (web_header(request, refused[i]))
			return err_set(err, ERR_CONFIG, "%s is not understood here",
				       refused[i]);
	if (encoding && *encoding && strcmp(encoding, "identity") != 0)
		return blob_put_refuse_request(err, "the body is encoded",
					       "send it without Content-Encoding");
	return 0;
}

/* Which digest it must have. 1: as is answered, none that it could have. */
static int choose_digest(const struct web_request *request, struct blob_put *put,
			 struct web_response *response, struct err *err)
{
	const char *header = web_header(request, "Content-Digest");
	char claimed[BLOB_DIGEST_SIZE];
	bool is_immutable =
		put->kind->blobs && blob_id_digest(put->kind->blobs, put->id, claimed);

	if (header && !blob_put_read_digest(header, put->digest))
		return blob_put_refuse_request(err, "Content-Digest has no right sha-256",
					       "it looks like sha-256=:BASE64:");
	if (!header && !is_immutable)
		return blob_put_refuse_request(err, "Content-Digest is missing",
					       "send Content-Digest: sha-256=:BASE64:");
	if (!header)
		memcpy(put->digest, claimed, sizeof(claimed));
	if (!is_immutable || strcmp(claimed, put->digest) == 0)
		return 0;
	web_answer_problem(response, 409, "IMMUTABLE",
			   "a blob of this type has the SHA-256 in its id, and never "
			   "another",
			   "put it under the id that it has");
	return 1;
}

static void answer_put(const struct blob_put *put, struct web_response *response)
{
	const struct inventory_item item = inventory_item_of(&put->row);
	char etag[WIRE_BLOB_ETAG_SIZE];

	wire_blob_etag(item.timeline, item.generation, etag);
	web_add_header(response, "ETag", "%s", etag);
	web_answer_json(response, put->is_new ? 201 : 200,
			wire_inventory_item_json(put->kind->type, &item));
}

static int blob_put_here(const struct web_request *request, const struct kind *kind,
			 struct web_response *response, struct err *err)
{
	struct blob_put put = { .kind = kind, .id = request->name, .size = UINT64_MAX };
	int result;

	if (kind->check_name(kind, put.id, err) != 0)
		return -1;
	result = choose_digest(request, &put, response, err);
	if (result != 0)
		return result < 0 ? -1 : 0;
	result = blob_put_upload(request, &put, err);
	if (result == 0)
		answer_put(&put, response);
	origin_row_clear(&put.row);
	if (result == 0 || err->class != ERR_CORRUPT)
		return result;
	web_answer_problem(response, 422, "WRONG_DIGEST", err->text, err->remedy);
	return 0;
}

static const char *const blob_put_headers[] = {
	"Authorization", "Content-Digest", "Content-Type", "User-Agent", "Via", NULL,
};

static const struct pass_on_kind blob_put_kind = {
	.forwarded = "blob.forwarded",
	.not_forwarded = "blob.not_forwarded",
	.broken = "blob.forward_broken",
	.name_field = "name",
	.unreached = "blobs are put at the primary",
	.remedy = "try again in a while",
	.headers = blob_put_headers,
};

/* It goes to the primary as it comes, with what the client showed: who may, and what
 * becomes of it, the primary decides. The copy here comes by the event, as all others. */
static int blob_put_pass_on(const struct web_request *request,
			    struct web_response *response)
{
	const char *base = request->services->primary_url;
	size_t len = strlen(base);
	struct err err;

	if (pass_on_is_loop(request, response))
		return 0;
	while (len > 0 && base[len - 1] == '/')
		len--;
	AUTO_FREE char *url = xasprintf("%.*s%s", (int)len, base, request->target);
	struct pass_on *passing =
		pass_on_new(&blob_put_kind, request, request->name,
			    request->services->forwarded_files, response);
	if (passing &&
	    pass_on_send(passing,
			 (struct http_request){ .url = url,
						.body_size = pass_on_body_size(passing) },
			 NULL, NULL, response, &err) != 0)
		pass_on_refuse_unreached(&blob_put_kind, request, request->name, &err,
					 response);
	return 0;
}

int blob_put(const struct web_request *request, struct web_response *response,
	     struct err *err)
{
	const struct kind *kind;

	if (check_headers(request, err) != 0)
		return -1;
	if (request->services->role == SITE_SECONDARY)
		return blob_put_pass_on(request, response);
	if (!api_needs_role(request, SITE_PRIMARY, response))
		return 0;
	kind = api_file_kind(request, response);
	return kind ? blob_put_here(request, kind, response, err) : 0;
}
