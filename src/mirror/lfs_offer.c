/*
 * An offer's headers go with the request for the object as they are, but for those that
 * say how the request travels: these are ours to say.
 */
#include "mirror/lfs_offer.h"

#include <strings.h>

#include "base/clock.h"
#include "git/lfs_pointer.h"
#include "net/http.h"

#define HEADERS_MOST 32
#define MESSAGE_MOST 200
#define Y2000_MS INT64_C(946684800000) /* a time before is none */

static const struct json_limits answer_limits = { LFS_OFFER_ANSWER,
						  100 * LFS_OFFER_BATCH };

static void lfs_offer_clear(struct lfs_offer *offer)
{
	for (size_t i = 0; i < offer->headers.count; i++) {
		free(offer->headers.items[i].name);
		free(offer->headers.items[i].value);
	}
	vec_clear(&offer->headers);
	free(offer->href);
	free(offer->message);
}

void lfs_offers_clear(lfs_offers *offers)
{
	vec_clear_each(offers, lfs_offer_clear);
}

char *lfs_offer_make_url(const char *upstream)
{
	static const char git[] = ".git";
	size_t len = strlen(upstream);
	bool has_git;

	while (len > 0 && upstream[len - 1] == '/')
		len--;
	has_git = len > strlen(git) &&
		  strncmp(upstream + len - strlen(git), git, strlen(git)) == 0;
	return xasprintf("%.*s%s/info/lfs/objects/batch", (int)len, upstream,
			 has_git ? "" : git);
}

json_t *lfs_offer_make_object(const char *oid, uint64_t size)
{
	json_t *object = json_object();

	json_put_text(object, "oid", oid);
	json_put_number(object, "size", (int64_t)size);
	return object;
}

char *lfs_offer_make_question(const struct lfs_row *rows, size_t count)
{
	json_auto_t *body = json_object();
	AUTO_STR struct str text = STR_INIT;
	json_t *objects = json_array();

	json_put_text(body, "operation", "download");
	json_put(body, "transfers", json_pack("[s]", "basic"));
	json_put_text(body, "hash_algo", "sha256");
	for (size_t i = 0; i < count; i++)
		json_array_append_new(objects,
				      lfs_offer_make_object(rows[i].oid, rows[i].size));
	json_put(body, "objects", objects);
	json_render(body, &text);
	return str_take(&text);
}

static void lfs_offer_refuse(struct lfs_offer *offer, int code, const char *message)
{
	AUTO_STR struct str text = STR_INIT;

	str_add_printable(&text, message);
	if (text.len > MESSAGE_MOST)
		str_truncate(&text, MESSAGE_MOST);
	offer->code = code;
	offer->message = str_take(&text);
}

static bool lfs_offer_is_ours(const char *header)
{
	static const char *const ours[] = {
		"Host",       "Content-Length", "Transfer-Encoding",
		"Connection", "Keep-Alive",     "TE",
		"Trailer",    "Upgrade",        "Expect",
		"Range",      "If-Range",       "Accept-Encoding"
	};

	for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
		if (strcasecmp(header, ours[i]) == 0)
			return true;
	return strncasecmp(header, "Proxy-", 6) == 0;
}

static void lfs_offer_read_headers(json_t *object, struct lfs_offer *offer)
{
	const char *name;
	json_t *value;

	json_object_foreach(object, name, value)
	{
		if (!json_is_string(value) || lfs_offer_is_ours(name) ||
		    offer->headers.count == HEADERS_MOST)
			continue;
		struct lfs_offer_header header = { xstrdup(name),
						   xstrdup(json_string_value(value)) };
		vec_add(&offer->headers, header);
	}
}

/* expires_in goes before expires_at, which is by their clock. */
static int64_t lfs_offer_read_end(const json_t *download, int64_t wall_ms)
{
	const json_t *in = json_object_get(download, "expires_in");
	const char *at = json_string_value(json_object_get(download, "expires_at"));
	json_int_t seconds = json_integer_value(in);
	int64_t end_ms;

	if (json_is_integer(in) && seconds != 0)
		return seconds < 0 ? 1 : seconds < INT32_MAX ? seconds * 1000 : 0;
	if (!at || !clock_parse_zoned(at, &end_ms) || end_ms < Y2000_MS)
		return 0;
	return end_ms > wall_ms ? end_ms - wall_ms : 1;
}

static void lfs_offer_read_error(const json_t *error, struct lfs_offer *offer)
{
	const char *message = json_string_value(json_object_get(error, "message"));
	json_int_t code = json_integer_value(json_object_get(error, "code"));

	lfs_offer_refuse(offer, code >= 400 && code < 600 ? (int)code : 500,
			 message && *message ? message : "it is refused");
}

static void lfs_offer_read_object(const json_t *object, int64_t wall_ms,
				  struct lfs_offer *offer)
{
	const json_t *error = json_object_get(object, "error");
	const json_t *download =
		json_object_get(json_object_get(object, "actions"), "download");
	const char *href = json_string_value(json_object_get(download, "href"));

	if (error) {
		lfs_offer_read_error(error, offer);
	} else if (!href) {
		lfs_offer_refuse(offer, 404, "no way to download it is given");
	} else if (http_check_url(href, true, NULL)) {
		lfs_offer_refuse(offer, 422, "the URL that is given for it is none");
	} else {
		offer->href = xstrdup(href);
		offer->is_authenticated =
			json_is_true(json_object_get(object, "authenticated"));
		offer->lasts_ms = lfs_offer_read_end(download, wall_ms);
		lfs_offer_read_headers(json_object_get(download, "header"), offer);
	}
}

const json_t *lfs_offer_find(const json_t *objects, const char *oid, size_t at)
{
	for (size_t i = 0; i <= json_array_size(objects); i++) {
		const json_t *one = json_array_get(objects, i == 0 ? at : i - 1);
		const char *shown = json_string_value(json_object_get(one, "oid"));
		if (shown && strcmp(shown, oid) == 0)
			return one;
	}
	return NULL;
}

static int lfs_offers_check(const json_t *answer, struct err *err)
{
	const json_t *transfer = json_object_get(answer, "transfer");
	const json_t *hash = json_object_get(answer, "hash_algo");

	if (!json_is_array(json_object_get(answer, "objects")))
		return err_set(err, ERR_CORRUPT, "the answer is none to a batch");
	if (json_is_string(transfer) && *json_string_value(transfer) &&
	    strcmp(json_string_value(transfer), "basic") != 0)
		return err_set(err, ERR_CORRUPT,
			       "the answer is for another transfer than basic");
	if (json_is_string(hash) && strcmp(json_string_value(hash), "sha256") != 0)
		return err_set(err, ERR_CORRUPT,
			       "the answer is of objects that go by no sha256");
	return 0;
}

int lfs_offers_read(const char *text, size_t len, const struct lfs_row *rows,
		    size_t count, int64_t wall_ms, lfs_offers *offers, struct err *err)
{
	json_auto_t *answer = json_parse_foreign(text, len, &answer_limits, err);

	*offers = (lfs_offers){ 0 };
	if (!answer || lfs_offers_check(answer, err) != 0)
		return -1;
	for (size_t i = 0; i < count; i++) {
		const json_t *object = lfs_offer_find(json_object_get(answer, "objects"),
						      rows[i].oid, i);
		struct lfs_offer offer = { .row = rows[i] };
		if (object)
			lfs_offer_read_object(object, wall_ms, &offer);
		else
			lfs_offer_refuse(&offer, 500, "the answer says nothing of it");
		vec_add(offers, offer);
	}
	return 0;
}

bool lfs_offer_is_same_place(const char *one, const char *other)
{
	AUTO_STR struct str place = STR_INIT, other_place = STR_INIT;

	return !http_check_url(one, true, &place) &&
	       !http_check_url(other, true, &other_place) &&
	       strcasecmp(place.data, other_place.data) == 0;
}

bool lfs_offer_is_downgrade(const char *from, const char *to)
{
	static const char secure[] = "https:";

	return strncasecmp(from, secure, strlen(secure)) == 0 &&
	       strncasecmp(to, secure, strlen(secure)) != 0;
}
