/*
 * Three queues, so that what is short never waits behind what is long: packs, which last
 * as long as a client takes to read them; reads, which are what git itself must answer
 * because the cache may not; and fills, the generators of the cache.
 */
#include "serve/serve.h"

#include <stdatomic.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "git/repo.h"
#include "replicable/name.h"
#include "serve/find.h"
#include "serve/ref_list.h"
#include "serve/refs_cache.h"
#include "serve/refs_generate.h"
#include "serve/slots.h"
#include "serve/upload_pack.h"

/*
 * The kernel walks the way, so that no link that comes into it meanwhile leads elsewhere.
 * Whether a repository is on the way is asked upwards from the directory that was found,
 * by "..": of the folders in which it really lies. Not the other way round: that costs
 * as much for each name that is not there.
 */

/* Whether one of the folders above it, up to the root, is a repository itself. 1: yes;
 * 0: no; -1: that cannot be told. */
static int lies_in_another(int dir, const char *path)
{
	int fd = openat(dir, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);

	while (fd >= 0) {
		AUTO_CLOSE int folder = fd;
		if (repo_look_at(folder) != REPO_NOTHING)
			return 1;
		path = strchr(path, '/');
		if (!path)
			return 0;
		path++;
		fd = openat(folder, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	}
	return -1;
}

/* Whether one of the folders is named as the copy of a repository beside it would be: no
 * change in it is ever recorded (replicable/name.c). */
static bool lies_in_a_copys_place(int root, const char *below)
{
	for (const char *at = below; (at = strstr(at, ".git/")) != NULL; at++) {
		AUTO_FREE char *other = xasprintf("%.*s", (int)(at - below), below);
		AUTO_CLOSE int fd =
			path_open_beneath(root, other, O_RDONLY | O_DIRECTORY);
		if (fd >= 0 && repo_look_at(fd) != REPO_NOTHING)
			return true;
	}
	return false;
}

/* Whether errno says that nothing that could be served is there. */
static bool find_is_absent(void)
{
	return errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == EXDEV ||
	       errno == EACCES || errno == ENAMETOOLONG;
}

static int open_at(int root, const char *below, struct err *err)
{
	AUTO_CLOSE int fd = path_open_beneath(root, below, O_RDONLY | O_DIRECTORY);
	int hidden = fd < 0 ? -1 : lies_in_another(fd, below);

	if (hidden < 0 && !find_is_absent())
		return err_errno(err, "cannot open directory %s", below);
	if (hidden != 0 || repo_look_at(fd) == REPO_NOTHING ||
	    lies_in_a_copys_place(root, below))
		return err_set(err, ERR_MISSING, "no repository is there");
	return TAKE_FD(fd);
}

bool find_is_plain(const char *path)
{
	return !text_ends_with(path, ".git");
}

int find_open(int dir, const char *path, struct repo *repo, struct err *err)
{
	int result = dir > 0 ? repo_open(dir, ".", repo, err)
			     : repo_open(AT_FDCWD, path, repo, err);

	return result == 0 ? repo_check_files(repo, err) : -1;
}

int find_repository(const char *root, const char *name, char **path, struct err *err)
{
	int fd;

	*path = NULL;
	if (name_check(name, err) != 0) {
		err->class = ERR_MISSING; /* a name that no repository can have */
		return err_remedy(err, "give its path below site.repositories");
	}
	AUTO_CLOSE int top = dir_open(AT_FDCWD, root, err);
	if (top < 0)
		return -1;
	AUTO_FREE char *usual = name_to_path(name);
	const char *below = usual;
	fd = open_at(top, below, err);
	/* What stands at x.git is called x. */
	if (fd < 0 && err->class == ERR_MISSING && find_is_plain(name)) {
		below = name;
		fd = open_at(top, below, err);
	}
	if (fd >= 0)
		*path = xasprintf("%s/%s", root, below);
	else if (err->class == ERR_MISSING)
		err_set(err, ERR_MISSING, "no such repository: \"%s\"", name);
	return fd;
}

#define SERVICE_LINE "001e# service=git-upload-pack\n0000"

enum { SWEEP_MS = 60 * 1000, RETRY_S = 1 };

struct serve {
	char *root;
	struct slots *packs, *reads, *fills;
	struct refs_cache *cache;
	_Atomic int64_t timeout_ms;
	_Atomic uint64_t least_rate;
	serve_doubt doubt; /* may be NULL */
	void *doubt_arg;
	struct stop stop;
	pthread_t sweeper;
};

static void *sweep(void *arg)
{
	struct serve *serve = arg;

	while (!stop_wait(&serve->stop, SWEEP_MS))
		refs_cache_sweep(serve->cache, &serve->stop);
	return NULL;
}

struct serve *serve_start(const char *root, const struct serve_settings *settings)
{
	struct serve *serve = xcalloc(1, sizeof(*serve));

	serve->root = xstrdup(root);
	serve->packs = slots_new("packs", &settings->packs);
	serve->reads = slots_new("reads", &settings->packs);
	serve->fills = slots_new("fills", &settings->fills);
	serve->cache = refs_cache_open(&(struct refs_cache_options){
		.root = root, .settings = settings, .slots = serve->fills });
	atomic_init(&serve->timeout_ms, settings->timeout_ms);
	atomic_init(&serve->least_rate, settings->least_rate);
	stop_init(&serve->stop);
	thread_start(&serve->sweeper, "serve-sweep", sweep, serve);
	return serve;
}

void serve_stop(struct serve *serve)
{
	if (!serve)
		return;
	stop_request(&serve->stop);
	thread_join(serve->sweeper);
	refs_cache_close(serve->cache);
	slots_free(serve->fills);
	slots_free(serve->reads);
	slots_free(serve->packs);
	stop_clear(&serve->stop);
	free(serve->root);
	free(serve);
}

void serve_set(struct serve *serve, const struct serve_settings *settings)
{
	slots_set(serve->packs, &settings->packs);
	slots_set(serve->reads, &settings->packs);
	slots_set(serve->fills, &settings->fills);
	refs_cache_set(serve->cache, settings);
	atomic_store(&serve->timeout_ms, settings->timeout_ms);
	atomic_store(&serve->least_rate, settings->least_rate);
}

void serve_on_doubt(struct serve *serve, serve_doubt doubt, void *arg)
{
	serve->doubt = doubt;
	serve->doubt_arg = arg;
}

int64_t serve_timeout_ms(const struct serve *serve)
{
	return atomic_load(&serve->timeout_ms);
}

uint64_t serve_least_rate(const struct serve *serve)
{
	return atomic_load(&serve->least_rate);
}

void serve_answer_clear(struct serve_answer *answer)
{
	if (answer->stream)
		answer->close(answer->stream);
	generation_unref(answer->generation);
	str_clear(&answer->bytes);
	*answer = (struct serve_answer)SERVE_ANSWER_INIT;
}

/* An answer of a git child's. What the child uses is kept as long as it may run. */
struct pack_stream {
	struct upload_pack *pack;
	const struct serve *serve;
	struct slots *slots; /* in which it has a place */
	struct fair_place place;
	char *name, *path, *protocol;
};

static ssize_t read_pack(void *arg, void *buffer, size_t size)
{
	struct pack_stream *stream = arg;
	struct err err = { 0 };
	ssize_t count = upload_pack_read(stream->pack, buffer, size, &err);

	if (count >= 0)
		return count;
	log_warn("git.broken", LOG_ERR(&err), LOG_TEXT("path", stream->path));
	if (stream->serve->doubt && !upload_pack_is_request_bad(stream->pack))
		stream->serve->doubt(stream->serve->doubt_arg, stream->name, &err);
	return count;
}

static bool is_pack_wanted(void *arg)
{
	struct pack_stream *stream = arg;

	return slots_is_wanted(stream->slots, &stream->place);
}

static void close_pack(void *arg)
{
	struct pack_stream *stream = arg;

	upload_pack_close(stream->pack);
	if (stream->slots)
		slots_leave(stream->slots, &stream->place);
	free(stream->name);
	free(stream->path);
	free(stream->protocol);
	free(stream);
}

/* Git runs in the directory that is found now: a path that was found before may lead
 * elsewhere by now. */
static int serve_run_git(struct serve *serve, const char *name,
			 struct upload_pack_request *wanted, struct pack_stream *stream,
			 struct err *err)
{
	AUTO_CLOSE int dir = find_repository(serve->root, name, &stream->path, err);

	if (dir < 0)
		return -1;
	wanted->dir = dir;
	wanted->path = stream->path;
	return upload_pack_open(wanted, &stream->pack, err);
}

static int serve_ask_git(struct serve *serve, struct slots *slots,
			 struct upload_pack_request *wanted, struct serve_answer *answer,
			 const struct serve_request *request, struct err *err)
{
	struct pack_stream *stream = xcalloc(1, sizeof(*stream));

	stream->serve = serve;
	stream->name = xstrdup(request->name);
	stream->protocol = request->protocol ? xstrdup(request->protocol) : NULL;
	wanted->protocol = stream->protocol;
	wanted->timeout_ms = atomic_load(&serve->timeout_ms);
	wanted->stop = request->cut;
	wanted->is_bad = &answer->is_request_bad;
	wanted->is_for_copy = request->is_for_copy;
	wanted->holds_back = request->has_other;
	answer->read = read_pack;
	answer->close = close_pack;
	answer->stream = stream;
	answer->is_wanted = is_pack_wanted;
	answer->least_rate = atomic_load(&serve->least_rate);
	if (slots_enter(
		    slots,
		    &(struct slots_request){ .client = request->client,
					     .stop = request->stop,
					     .retry_after_s = &answer->retry_after_s },
		    &stream->place, err) != 0)
		return -1;
	stream->slots = slots;
	answer->until = clock_boot_ms() + wanted->timeout_ms;
	return serve_run_git(serve, request->name, wanted, stream, err);
}

/* A generation while it is made, behind what git http-backend puts before it. */
struct flight_stream {
	struct refs_answer answer;
	const struct stop *stop;
	const char *head; /* what is left of it; static */
	size_t at;
};

static ssize_t read_flight(void *arg, void *buffer, size_t size)
{
	struct flight_stream *stream = arg;
	size_t len = strlen(stream->head);

	if (len > 0) {
		len = len < size ? len : size;
		memcpy(buffer, stream->head, len);
		stream->head += len;
		return (ssize_t)len;
	}
	ssize_t count = refs_flight_read(stream->answer.growing, stream->at, buffer, size,
					 stream->stop);
	if (count > 0)
		stream->at += (size_t)count;
	return count;
}

static void close_flight(void *arg)
{
	struct flight_stream *stream = arg;

	refs_answer_clear(&stream->answer);
	free(stream);
}

/* Takes what was found. */
static void serve_follow_flight(struct refs_answer *found, int protocol,
				const struct serve_request *request,
				struct serve_answer *answer)
{
	struct flight_stream *stream = xcalloc(1, sizeof(*stream));

	stream->answer = *found;
	*found = (struct refs_answer){ 0 };
	stream->stop = request->cut;
	stream->head = protocol == 0 ? SERVICE_LINE : SERVICE_LINE "000eversion 1\n";
	answer->read = read_flight;
	answer->close = close_flight;
	answer->stream = stream;
}

/* What the cache has it has for readers. */
static bool is_closed_to_readers_only(const struct serve_request *request,
				      const struct err *err)
{
	return request->is_for_copy && err->reason == REASON_CLOSED;
}

/* Protocols and codings differ, and so must their tags. */
static void put_etag(struct serve_answer *answer, int protocol)
{
	static const char *const ends[3][2] = { { "\"", "-gz\"" },
						{ "-p1\"", "-p1-gz\"" },
						{ "-p2\"", "-p2-gz\"" } };
	char *at = answer->etag;

	*at++ = '"';
	at = stpcpy(at, generation_name(answer->generation));
	stpcpy(at, ends[protocol][answer->shared.is_gzip]);
}

/* Takes the generation. */
static void serve_share_generation(struct generation *generation, int protocol,
				   const struct serve_request *request,
				   struct serve_answer *answer)
{
	answer->generation = generation;
	answer->shared =
		generation_info_refs(generation, protocol, request->accepts_gzip);
	if (generation_is_settled(generation))
		put_etag(answer, protocol);
}

bool serve_info_refs_now(struct serve *serve, const struct serve_request *request,
			 struct serve_answer *answer)
{
	struct generation *generation =
		refs_cache_hit(serve->cache, request->name, REFS_INFO);

	if (generation)
		serve_share_generation(generation,
				       git_protocol_version(request->protocol), request,
				       answer);
	return generation;
}

static int serve_advertise_refs(struct serve *serve, const struct serve_request *request,
				struct serve_answer *answer, struct err *err)
{
	struct upload_pack_request wanted = { .step = UPLOAD_PACK_ADVERTISE,
					      .body_fd = -1 };

	return serve_ask_git(serve, serve->reads, &wanted, answer, request, err);
}

int serve_info_refs(struct serve *serve, const struct serve_request *request,
		    struct serve_answer *answer, struct err *err)
{
	int protocol = git_protocol_version(request->protocol);
	struct refs_request wanted = { .name = request->name,
				       .client = request->client,
				       .kind = REFS_INFO,
				       .may_stream =
					       protocol < 2 && !request->wants_whole,
				       .stop = request->stop };
	struct refs_answer found = { 0 };
	int result = refs_cache_get(serve->cache, &wanted, &found, err);

	if (result != 0 && !is_closed_to_readers_only(request, err)) {
		answer->retry_after_s = RETRY_S;
	} else if (found.generation) {
		serve_share_generation(TAKE(found.generation), protocol, request, answer);
	} else if (found.growing) {
		serve_follow_flight(&found, protocol, request, answer);
	} else {
		result = serve_advertise_refs(serve, request, answer, err);
	}
	refs_answer_clear(&found);
	return result;
}

/* Whether the body is ls-refs, by the length of the ids that it means. */
static bool read_ls_refs(const struct serve_request *request, struct ls_refs *wanted,
			 size_t *oid_digits)
{
	static const size_t digits[] = { 40, 64 };
	const struct str *body = request->body;

	if (request->body_fd >= 0 || git_protocol_version(request->protocol) != 2)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(digits); i++) {
		*oid_digits = digits[i];
		if (ls_refs_parse(body->data, body->len, digits[i], wanted))
			return true;
	}
	return false;
}

/* Whether what git would say to it is known here. */
static bool is_answered_by(const struct generation *generation,
			   const struct ls_refs *wanted, size_t oid_digits)
{
	return generation && generation_oid_digits(generation) == oid_digits &&
	       (!wanted->wants_unborn || generation_shows_unborn(generation));
}

static int run_upload_pack(struct serve *serve, struct slots *slots,
			   const struct serve_request *request,
			   struct serve_answer *answer, struct err *err)
{
	struct upload_pack_request wanted = { .step = UPLOAD_PACK_ANSWER,
					      .body_fd = request->body_fd };

	if (request->body_fd < 0)
		wanted.body = request->body;
	return serve_ask_git(serve, slots, &wanted, answer, request, err);
}

/* Takes the request if it is a stream. */
static void show_list(struct generation *generation, struct ls_refs *wanted,
		      struct serve_answer *answer)
{
	answer->stream = list_stream_open(generation, wanted, &answer->bytes);
	answer->read = list_stream_read;
	answer->close = list_stream_close;
}

static int list_refs(struct serve *serve, const struct serve_request *request,
		     struct ls_refs *wanted, size_t oid_digits,
		     struct serve_answer *answer, struct err *err)
{
	struct refs_request asked = { .name = request->name,
				      .client = request->client,
				      .kind = REFS_LS,
				      .stop = request->stop };
	struct refs_answer found = { 0 };
	int result = refs_cache_get(serve->cache, &asked, &found, err);

	if (result != 0 && !is_closed_to_readers_only(request, err))
		answer->retry_after_s = RETRY_S;
	else if (is_answered_by(found.generation, wanted, oid_digits))
		show_list(found.generation, wanted, answer);
	else
		result = run_upload_pack(serve, serve->reads, request, answer, err);
	refs_answer_clear(&found);
	return result;
}

int serve_upload_pack(struct serve *serve, const struct serve_request *request,
		      struct serve_answer *answer, struct err *err)
{
	AUTO_LS_REFS struct ls_refs wanted = { 0 };
	size_t oid_digits;

	if (read_ls_refs(request, &wanted, &oid_digits))
		return list_refs(serve, request, &wanted, oid_digits, answer, err);
	return run_upload_pack(serve, serve->packs, request, answer, err);
}
