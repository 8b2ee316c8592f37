/*
 * A primary of blobs over real HTTP, with faults at will, and a secondary's part that
 * brings them: real files, a real registry, jobs run one by one.
 */
#ifndef BLOB_JOB_TEST_H
#define BLOB_JOB_TEST_H

#include "http_peer.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "blob/file.h"
#include "pull/copy_kind.h"
#include "pull/pull_parts.h"
#include "replicable/name.h"

#define T1 "1111111111111111"
#define T2 "2222222222222222"
#define MIB ((size_t)1 << 20)

static struct theirs {
	const char *id;
	char *bytes; /* owned */
	size_t len;
	uint64_t generation;
	bool has_no_checksum, is_broken;
} theirs[200];
static size_t their_count;
static const char *their_timeline;

/* Faults, and what was seen. */
static atomic_size_t cut_after; /* bytes of bodies on a connection; 0: never */
static atomic_size_t cuts_left;
static atomic_bool flips, is_proxy_error, is_silent_at_end, ignores_conditions;
static atomic_bool knows_no_ranges, has_just_read;
static atomic_int many_asked, parts_asked, reverified;
static atomic_size_t bytes_sent;
static uint64_t last_offset;
static bool last_had_condition;
static void (*before_answer)(void);

static struct store *store;
static struct lease_manager *leases;
static struct pull pull;
static struct kinds_here kinds;

static void digest_of(const void *bytes, size_t len, char text[BLOB_DIGEST_SIZE])
{
	unsigned char digest[32];
	AUTO_HASH struct hash hash;

	hash_init(&hash, HASH_SHA256);
	hash_add(&hash, bytes, len);
	hash_end(&hash, digest);
	blob_digest_format(digest, text);
}

static struct theirs *find_theirs(const char *id)
{
	for (size_t i = 0; i < their_count; i++)
		if (strcmp(theirs[i].id, id) == 0)
			return &theirs[i];
	return NULL;
}

static inline struct theirs *need_theirs(const char *id)
{
	struct theirs *one = find_theirs(id);

	if (!one)
		abort();
	return one;
}

static struct theirs *put(const char *id, const void *bytes, size_t len)
{
	struct theirs *one = find_theirs(id);

	if (!one)
		one = &theirs[their_count++];
	free(one->bytes);
	one->id = id;
	one->bytes = xmalloc(len + 1);
	memcpy(one->bytes, bytes, len);
	one->len = len;
	one->generation++;
	return one;
}

static struct theirs *put_text(const char *id, const char *text)
{
	return put(id, text, strlen(text));
}

/* So many bytes that differ from place to place. */
static inline struct theirs *put_many(const char *id, size_t len)
{
	AUTO_FREE char *bytes = xmalloc(len + 1);

	for (size_t i = 0; i < len; i++)
		bytes[i] = (char)(i * 2654435761u >> 13);
	return put(id, bytes, len);
}

/* False: the connection is to be cut. */
static bool say_body(struct peer_link *link, size_t *said, const char *bytes, size_t len)
{
	size_t part = len;
	bool cuts = cut_after > 0 && cuts_left > 0 && *said + len > cut_after;

	if (cuts) {
		part = cut_after - *said;
		cuts_left--;
	}
	*said += part;
	bytes_sent += part;
	return peer_say_bytes(link, bytes, part) && !cuts;
}

static bool problem(struct peer_link *link, int status, const char *code)
{
	AUTO_FREE char *body = xasprintf("{\"code\":\"%s\",\"message\":\"no\"}", code);
	AUTO_FREE char *text =
		xasprintf("HTTP/1.1 %d No\r\nContent-Length: %zu\r\n\r\n%s", status,
			  strlen(body), body);

	return peer_say(link, text);
}

static void decode(char *text)
{
	char *to = text;

	for (; *text; text++) {
		unsigned byte;
		if (*text == '%' && sscanf(text + 1, "%2x", &byte) == 1) {
			*to++ = (char)byte;
			text += 2;
		} else {
			*to++ = *text;
		}
	}
	*to = '\0';
}

static const char *checksum_text(const struct theirs *one, char text[BLOB_DIGEST_SIZE])
{
	digest_of(one->bytes, one->len, text);
	return one->has_no_checksum ? "" : text;
}

/* As the program does: what is asked for is no part of it. */
static bool serve_empty(struct peer_link *link, const char *etag, const char *checksum)
{
	static const char body[] = "{\"code\":\"NO_SUCH_RANGE\",\"message\":\"no\"}";
	AUTO_FREE char *text =
		xasprintf("HTTP/1.1 416 No\r\nContent-Length: %zu\r\nETag: %s\r\n"
			  "Content-Range: bytes */0\r\nRefrelay-Checksum: %s\r\n\r\n%s",
			  strlen(body), etag, checksum, body);

	return peer_say(link, text);
}

static bool serve_part(struct peer_link *link, const char *head, const char *id)
{
	const struct theirs *one = find_theirs(id);
	const char *range = strcasestr(head, "Range: bytes=");
	const char *condition = strcasestr(head, "If-Match: ");
	char checksum[BLOB_DIGEST_SIZE], etag[48];
	size_t first = 0, last = 0, said = 0;

	parts_asked++;
	last_had_condition = condition != NULL;
	if (is_proxy_error)
		return peer_say(link, "HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nno");
	if (!one)
		return problem(link, 404, "FILE_NOT_FOUND");
	if (one->is_broken)
		return problem(link, 409, "CORRUPT");
	snprintf(etag, sizeof(etag), "\"%s-%" PRIu64 "\"", their_timeline,
		 one->generation);
	if (condition && !ignores_conditions &&
	    strncmp(condition + 10, etag, strlen(etag)) != 0)
		return problem(link, 412, "PRECONDITION_FAILED");
	assert_non_null(range);
	assert_int_equal(sscanf(range + 13, "%zu-%zu", &first, &last), 2);
	last_offset = first;
	checksum_text(one, checksum);
	if (one->len == 0)
		return serve_empty(link, etag, checksum);
	if (knows_no_ranges)
		first = 0;
	if (last >= one->len || knows_no_ranges)
		last = one->len - 1;
	AUTO_FREE char *reply = xasprintf(
		"HTTP/1.1 %d Part\r\nContent-Length: %zu\r\nETag: %s\r\n"
		"Content-Range: bytes %zu-%zu/%zu\r\n%s%s%s\r\n",
		knows_no_ranges ? 200 : 206, last - first + 1, etag, first, last,
		one->len, one->has_no_checksum ? "" : "Refrelay-Checksum: ",
		one->has_no_checksum ? "" : checksum, one->has_no_checksum ? "" : "\r\n");
	AUTO_FREE char *bytes = xmalloc(last - first + 1);
	memcpy(bytes, one->bytes + first, last - first + 1);
	if (flips)
		bytes[0] ^= 1;
	return peer_say(link, reply) && say_body(link, &said, bytes, last - first + 1);
}

static void add_frame(struct str *out, const char *id)
{
	const struct theirs *one = find_theirs(id);
	char checksum[BLOB_DIGEST_SIZE];

	if (!one || one->len > MIB) {
		str_addf(out, "{\"name\":\"%s\",\"code\":\"%s\",\"message\":\"no\"}\n",
			 id, one ? "TOO_LARGE" : "FILE_NOT_FOUND");
		return;
	}
	checksum_text(one, checksum);
	str_addf(out,
		 "{\"name\":\"%s\",\"size\":%zu,\"timeline\":\"%s\","
		 "\"generation\":%" PRIu64 ",\"checksum\":%s%s%s}\n",
		 id, one->len, their_timeline, one->generation,
		 one->has_no_checksum ? "null" : "\"",
		 one->has_no_checksum ? "" : checksum, one->has_no_checksum ? "" : "\"");
	str_add_bytes(out, one->bytes, one->len);
	if (flips && one->len > 0)
		out->data[out->len - 1] ^= 1;
}

static bool serve_many(struct peer_link *link, const struct str *body)
{
	json_auto_t *object = json_parse_object(body->data, body->len, MIB, ERR_IGNORED);
	const json_t *ids = json_object_get(object, "ids");
	AUTO_STR struct str out = STR_INIT;
	size_t said = 0;

	many_asked++;
	if (is_proxy_error)
		return peer_say(link, "HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nno");
	for (size_t i = 0; i < json_array_size(ids); i++)
		add_frame(&out, json_string_value(json_array_get(ids, i)));
	if (!is_silent_at_end)
		str_add(&out, "{\"end\":true}\n");
	AUTO_FREE char *head =
		xasprintf("HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", out.len);
	return peer_say(link, head) && say_body(link, &said, out.data, out.len);
}

static bool hear(struct peer_link *link, struct str *head, struct str *body)
{
	char c, bytes[4096];
	size_t left = 0;

	str_reset(head);
	str_reset(body);
	while (head->len < 4 || memcmp(head->data + head->len - 4, "\r\n\r\n", 4) != 0) {
		if (read(link->fd, &c, 1) != 1)
			return false;
		str_add_char(head, c);
	}
	const char *length = strcasestr(head->data, "Content-Length: ");
	if (length)
		left = strtoul(length + 16, NULL, 10);
	while (left > 0) {
		size_t got = peer_hear(link, bytes,
				       left < sizeof(bytes) ? left : sizeof(bytes));
		if (got == 0)
			return false;
		str_add_bytes(body, bytes, got);
		left -= got;
	}
	return true;
}

static bool say_row(struct peer_link *link)
{
	static const char *const rows[] = { "{\"verification\":\"pending\"}",
					    "{\"verification\":\"succeeded\"}" };
	const char *row = rows[has_just_read];
	AUTO_FREE char *text = xasprintf(
		"HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s", strlen(row), row);

	return peer_say(link, text);
}

static void serve_blobs(struct peer_link *link)
{
	AUTO_STR struct str head = STR_INIT, body = STR_INIT;
	char method[8], type[16], id[1100];
	bool goes_on = true;

	while (goes_on && hear(link, &head, &body)) {
		if (before_answer)
			before_answer();
		if (sscanf(head.data, "%7s /api/v1/retrieve/%15[^/ ]/%1000s", method,
			   type, id) == 3) {
			decode(id);
			goes_on = serve_part(link, head.data, id);
		} else if (strstr(head.data, "/reverify")) {
			reverified++;
			goes_on = say_row(link);
		} else {
			goes_on = serve_many(link, &body);
		}
	}
}

static struct blob_kind kind_of(const char *type, enum blob_layout layout)
{
	return (struct blob_kind){ .type = xstrdup(type),
				   .path = xasprintf("%s/%s", root, type),
				   .layout = layout };
}

static void open_pull(void)
{
	pull = (struct pull){
		.options = { .store = store, .leases = leases, .here = &kinds },
		.settings = { .timeout_ms = 60000,
			      .reverify_ms = CONF_DAY,
			      .delete_brake = 0.05 },
	};
	mutex_init(&pull.mutex);
	cond_init(&pull.changed);
	stop_init(&pull.stop);
	stop_init(&pull.kill);
	AUTO_FREE char *url = xasprintf("http://127.0.0.1:%d", peer.port);
	assert_ok(primary_open(url, NULL, &pull.options.primary, &err));
	pull.source = source_new_primary(pull.options.primary, 60000, &pull.kill);
}

static inline void open_all(void)
{
	AUTO_FREE char *directory = xasprintf("%s/leases", root);

	log_set_level(LOG_LEVEL_NONE);
	cut_after = cuts_left = bytes_sent = 0;
	flips = is_proxy_error = is_silent_at_end = ignores_conditions = false;
	knows_no_ranges = has_just_read = false;
	many_asked = parts_asked = reverified = 0;
	before_answer = NULL;
	their_count = 0;
	their_timeline = T1;
	memset(theirs, 0, sizeof(theirs));
	assert_ok(store_open("sqlite::memory:", &store, &err));
	assert_ok(lease_manager_open_local(
		store, &(struct lease_options){ .directory = directory }, &leases, &err));
	vec_add(&kinds.blobs.items, kind_of("files", BLOB_PLAIN));
	vec_add(&kinds.blobs.items, kind_of("lfs", BLOB_LFS));
	kinds_fill(&kinds, NULL);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(mkdir(kinds.all.items[i].path, 0777), 0);
	peer_start(serve_blobs);
	open_pull();
}

static inline void close_all(void)
{
	doubts_clear(&pull);
	source_free(pull.source);
	primary_close(pull.options.primary);
	map_clear(&pull.reverified);
	stop_clear(&pull.stop);
	stop_clear(&pull.kill);
	pthread_cond_destroy(&pull.changed);
	pthread_mutex_destroy(&pull.mutex);
	peer_stop();
	lease_manager_close(leases);
	store_close(store);
	kinds_clear(&kinds);
	for (size_t i = 0; i < their_count; i++)
		free(theirs[i].bytes);
}

struct asking {
	const char *type, *id;
	struct registry_move move;
};

static int ask_in(struct store_tx *tx, void *arg, struct err *error)
{
	const struct asking *asking = arg;

	return registry_ask_in(tx, asking->type, asking->id, &asking->move, error) < 0
		       ? -1
		       : 0;
}

static inline void ask_for(const char *type, const char *id, struct registry_move move)
{
	struct asking asking = { type, id, move };

	assert_ok(store_write(store, ask_in, &asking, &err));
}

/* As an event or the inventory tells of what the primary has. */
static inline void tell(const char *type, const char *id)
{
	const struct theirs *one = need_theirs(id);
	char checksum[BLOB_DIGEST_SIZE];

	checksum_text(one, checksum);
	ask_for(type, id,
		(struct registry_move){ .generation = one->generation,
					.timeline = their_timeline,
					.size = one->len,
					.checksum =
						one->has_no_checksum ? NULL : checksum,
					.changed_at = clock_wall_ms() });
}

static inline struct registry_row row_of(const char *type, const char *id)
{
	struct registry_row row;

	if (registry_get(store, type, id, &row, &err) != 0)
		row = (struct registry_row){ .state = REGISTRY_STATES };
	return row;
}

static inline enum registry_state state_of(const char *type, const char *id)
{
	AUTO_REGISTRY_ROW struct registry_row row = row_of(type, id);

	return row.state;
}

static inline bool is_proved(const char *type, const char *id)
{
	AUTO_REGISTRY_ROW struct registry_row row = row_of(type, id);

	return row.state == REGISTRY_SYNCED && row.verification == VERIFICATION_SUCCEEDED;
}

static inline struct kind kind_named(const char *type)
{
	const struct kind *kind = kinds_find(pull.options.here, type);

	assert_non_null(kind);
	return *kind;
}

static inline struct pull_job *new_job(const char *type, bool is_verification)
{
	struct pull_job *job = xcalloc(1, sizeof(*job));

	job->pull = &pull;
	job->kind = kind_named(type);
	job->is_verification = is_verification;
	job->running = is_verification ? &pull.state.verifying
				       : &pull.state.bringing[PULL_BLOB_WORKERS];
	job->claimed_at = clock_boot_ms();
	return job;
}

static inline void run_rows(struct pull_job *job)
{
	(*job->running)++;
	pull_job_run(job);
}

/* One job with all that is due; false: nothing is. */
static inline bool run_job(const char *type)
{
	struct pull_job *job = new_job(type, false);

	assert_ok(registry_claim(store, type, 128, 60000, &job->rows, &err));
	if (job->rows.count == 0) {
		free(job);
		return false;
	}
	run_rows(job);
	return true;
}

static inline bool run_verification(const char *type)
{
	struct pull_job *job = new_job(type, true);

	assert_ok(registry_claim_verification(store, type, 10, 60000, &job->rows, &err));
	if (job->rows.count == 0) {
		free(job);
		return false;
	}
	run_rows(job);
	return true;
}

static inline char *file_of(const char *type, const char *id)
{
	return xasprintf("%s/%s/%s", root, type, id);
}

static inline bool is_here(const char *type, const char *id)
{
	AUTO_FREE char *path = file_of(type, id);
	AUTO_STR struct str text = STR_INIT;
	const struct theirs *one = find_theirs(id);

	return one && file_read(AT_FDCWD, path, (size_t)1 << 30, &text, &err) == 0 &&
	       text.len == one->len && memcmp(text.data, one->bytes, text.len) == 0;
}

/* How many files wait in the kind's "incoming". */
static inline size_t count_incoming(const char *type)
{
	AUTO_FREE char *path = file_of(type, ".refrelay/incoming");
	AUTO_CLOSEDIR DIR *dir = dir_list(AT_FDCWD, path);
	struct dirent *entry;
	size_t count = 0;

	while (dir && (entry = readdir(dir)) != NULL)
		count += entry->d_name[0] != '.';
	return count;
}

static inline void write_file(const char *type, const char *id, const char *text)
{
	AUTO_FREE char *path = file_of(type, id);

	assert_ok(dir_make_parents(AT_FDCWD, path, &err));
	assert_ok(file_replace(AT_FDCWD, path, text, strlen(text), FILE_NO_SYNC, &err));
}

#endif
