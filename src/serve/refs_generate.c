/*
 * What a flight does. It belongs to the look (`sight`) it started from: it reads what the
 * disk has under that look's name, else has git say it, while all may read along, and
 * looks again. If nothing has changed between the two looks, what git said was true all
 * the time between them. Then it is what the slot serves. What follows hurries nobody:
 * gzip, and, once the fingerprint is proof by itself, the file on disk.
 *
 * The slot forgets the flight before those who follow hear of its end, so that who comes
 * back after a failure never meets the same flight again.
 */
#include "serve/refs_generate.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/map.h"
#include "base/metrics.h"
#include "git/pkt_line.h"
#include "git/refs.h"
#include "git/repo.h"
#include "serve/disk_cache.h"
#include "serve/find.h"
#include "serve/http_service.h"
#include "serve/refs_cache.h"
#include "serve/upload_pack.h"

static const char *const keys[] = {
	[HTTP_SERVICE_READ] = "http.uploadpack", [HTTP_SERVICE_PUSH] = "http.receivepack"
};

/* Without the path, which is not for readers. */
int http_service_closed(enum http_service service, struct err *err)
{
	err_set(err, ERR_AUTH, "%s is false there", keys[service]);
	err_because(err, REASON_CLOSED);
	return err_remedy(err, "set %s in the repository's config to true, or unset it",
			  keys[service]);
}

/* Git says 1 where it is not set. */
int http_service_check(const char *path, const struct repo *repo,
		       const struct git_work *work, enum http_service service,
		       struct err *err)
{
	const char *const args[] = { "config", "--type=bool", "--get", keys[service],
				     NULL };
	struct proc_result ended = { .exit_code = -1 };
	AUTO_STR struct str value = STR_INIT;
	const struct git_call call = {
		.work = work,
		.repository = path,
		.repository_fd = repo->fd,
		.args = args,
		.config = GIT_CONFIG_RECEIVE,
		.reach = GIT_REACH_READS_ALL,
		.output = &value,
		.output_limit = 64,
		.ended = &ended,
	};

	if (git_run(&call, err) != 0 && ended.exit_code != 1)
		return err_prefix(err, "%s of %s", keys[service], path);
	return strcmp(value.data, "false\n") == 0 ? http_service_closed(service, err) : 0;
}

int http_service_check_read(const char *path, const struct repo *repo,
			    const struct git_work *work, struct err *err)
{
	if (repo->has_includes)
		return http_service_check(path, repo, work, HTTP_SERVICE_READ, err);
	return repo->is_closed ? http_service_closed(HTTP_SERVICE_READ, err) : 0;
}

#define KEPT_MAX 256
#define CONFIG_MAX ((size_t)1 << 20)
#define KEY_SIZE 65

struct entry {
	struct str text;
	uint64_t used_at; /* in times anything was asked for */
};

struct capabilities {
	pthread_mutex_t mutex;
	struct map entries; /* guarded by mutex; struct entry, owned */
	uint64_t now;       /* guarded by mutex */
};

struct capabilities *capabilities_new(void)
{
	struct capabilities *capabilities = xcalloc(1, sizeof(*capabilities));

	mutex_init(&capabilities->mutex);
	return capabilities;
}

static void capabilities_free_entry(struct entry *entry)
{
	if (!entry)
		return;
	str_clear(&entry->text);
	free(entry);
}

void capabilities_free(struct capabilities *capabilities)
{
	const struct map_entry *entry;
	size_t at = 0;

	if (!capabilities)
		return;
	while ((entry = map_next(&capabilities->entries, &at)) != NULL)
		capabilities_free_entry(entry->value);
	map_clear(&capabilities->entries);
	pthread_mutex_destroy(&capabilities->mutex);
	free(capabilities);
}

static void hash_file(const struct stat *st, unsigned char digest[32])
{
	const int64_t parts[] = {
		(int64_t)st->st_ino, (int64_t)st->st_size,        st->st_ctim.tv_sec,
		st->st_ctim.tv_nsec, (int64_t)st->st_mtim.tv_sec, st->st_mtim.tv_nsec,
	};
	AUTO_HASH struct hash hash;

	hash_init(&hash, HASH_SHA256);
	hash_add(&hash, parts, sizeof(parts));
	hash_end(&hash, digest);
}

/* A second file of configuration, or one that no memory should be wasted on, is left to
 * git each time. */
void config_look(int dir, struct config_look *look)
{
	AUTO_STR struct str text = STR_INIT;
	AUTO_HASH struct hash hash = { 0 };
	struct stat st = { 0 };
	struct err err;

	*look = (struct config_look){ 0 };
	if (fstatat(dir, "config", &st, AT_SYMLINK_NOFOLLOW) != 0 && errno != ENOENT)
		return;
	if (faccessat(dir, "config.worktree", F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
	    errno != ENOENT)
		return;
	if (file_read(dir, "config", CONFIG_MAX, &text, &err) != 0 &&
	    err.class != ERR_MISSING)
		return;
	hash_init(&hash, HASH_SHA256);
	hash_add(&hash, text.data, text.len);
	hash_end(&hash, look->content);
	hash_file(&st, look->file);
	look->is_known = true;
}

bool config_stood_still(const struct config_look *before, const struct config_look *after)
{
	return before->is_known && after->is_known &&
	       memcmp(before->content, after->content, sizeof(before->content)) == 0 &&
	       memcmp(before->file, after->file, sizeof(before->file)) == 0;
}

static void make_key(const struct config_look *look, const char *git, char key[KEY_SIZE])
{
	AUTO_STR struct str text = STR_INIT;
	unsigned char digest[HASH_MAX_SIZE];
	AUTO_HASH struct hash hash;

	hash_init(&hash, HASH_SHA256);
	hash_add(&hash, look->content, sizeof(look->content));
	hash_add(&hash, git, strlen(git));
	hash_end(&hash, digest);
	str_add_hex(&text, digest, 32);
	snprintf(key, KEY_SIZE, "%s", text.data);
}

bool capabilities_find(struct capabilities *capabilities, const struct config_look *look,
		       const char *git, struct str *text)
{
	AUTO_UNLOCK pthread_mutex_t *held = NULL;
	char key[KEY_SIZE];

	if (!look->is_known)
		return false;
	make_key(look, git, key);
	held = lock(&capabilities->mutex);
	struct entry *entry = map_get(&capabilities->entries, key);
	if (!entry)
		return false;
	entry->used_at = ++capabilities->now;
	str_add_bytes(text, entry->text.data, entry->text.len);
	return true;
}

static void drop_oldest_locked(struct capabilities *capabilities)
{
	const struct map_entry *entry, *oldest = NULL;
	size_t at = 0;

	while ((entry = map_next(&capabilities->entries, &at)) != NULL)
		if (!oldest || ((struct entry *)entry->value)->used_at <
				       ((struct entry *)oldest->value)->used_at)
			oldest = entry;
	if (oldest)
		capabilities_free_entry(map_remove(&capabilities->entries, oldest->key));
}

void capabilities_keep(struct capabilities *capabilities, const struct config_look *look,
		       const char *git, const struct str *text)
{
	AUTO_UNLOCK pthread_mutex_t *held = NULL;
	struct entry *entry;
	char key[KEY_SIZE];

	if (!look->is_known)
		return;
	make_key(look, git, key);
	entry = xcalloc(1, sizeof(*entry));
	entry->text = (struct str)STR_INIT;
	str_add_bytes(&entry->text, text->data, text->len);
	held = lock(&capabilities->mutex);
	entry->used_at = ++capabilities->now;
	if (capabilities->entries.count >= KEPT_MAX)
		drop_oldest_locked(capabilities);
	capabilities_free_entry(map_put(&capabilities->entries, key, entry));
}

/*
 * Protocol 0 tells every ref that a client may see, and git's own word decides which
 * these are. What it does not tell is which of them are symbolic: that is read from the
 * files. Both are of the same moment if the repository stood still, which is for the
 * caller to ask.
 *
 * Capabilities depend on git's version, which protocol 0 tells, and on the configuration.
 * They are remembered only if nobody wrote that while git read it: else the memory would
 * outlive the moment, and so would the mistake.
 */

enum {
	CHUNK = 64 << 10,
	CAPABILITIES_MAX = 64 << 10,
	SYMBOLIC_READS = 5, /* git's SYMREF_MAXDEPTH */
	AGENT_MAX = 256,
};

/* What runs of git for one fill have in common. */
struct filling {
	const struct fill_request *request;
	int64_t until; /* 0: none */
};

static int64_t fill_time_left(const struct filling *filling)
{
	int64_t left = filling->until - clock_boot_ms();

	return filling->until == 0 ? 0 : left > 0 ? left : 1;
}

static ssize_t read_some(struct upload_pack *pack, struct str *out, struct err *err)
{
	str_reserve(out, CHUNK);
	ssize_t got = upload_pack_read(pack, out->data + out->len, CHUNK, err);
	if (got > 0)
		out->len += (size_t)got;
	out->data[out->len] = '\0';
	return got;
}

/* All that git says to the end. grow may be NULL. */
static int fill_ask_git(const struct filling *filling, const char *protocol,
			void (*grow)(void *arg, const char *bytes, size_t len),
			struct str *out, struct err *err)
{
	const struct upload_pack_request request = {
		.path = filling->request->look->path,
		.dir = filling->request->dir,
		.step = UPLOAD_PACK_REFS,
		.protocol = protocol,
		.body_fd = -1,
		.timeout_ms = fill_time_left(filling),
		.stop = filling->request->stop,
	};
	struct upload_pack *pack;
	ssize_t got;

	if (upload_pack_open(&request, &pack, err) != 0)
		return -1;
	while ((got = read_some(pack, out, err)) > 0)
		if (grow)
			grow(filling->request->arg, out->data + out->len - got,
			     (size_t)got);
	upload_pack_close(pack);
	return got == 0 ? 0 : -1;
}

/* What git calls itself in the first line of protocol 0; "": it does not. */
static void find_agent(const struct str *refs, char agent[AGENT_MAX])
{
	struct pkt_reader reader = { refs->data, refs->len };
	const char *line, *at;
	size_t len;

	agent[0] = '\0';
	if (pkt_next(&reader, &line, &len) != PKT_LINE)
		return;
	at = memmem(line, len, " agent=", 7);
	if (!at)
		return;
	len -= (size_t)(at + 7 - line);
	at += 7;
	const char *end = memchr(at, ' ', len);
	len = end ? (size_t)(end - at) : len;
	if (len < AGENT_MAX)
		snprintf(agent, AGENT_MAX, "%.*s", (int)len, at);
}

static int learn_capabilities(const struct filling *filling, int dir,
			      struct generation_parts *parts, struct err *err)
{
	struct capabilities *known = filling->request->capabilities;
	struct config_look before, after;
	char agent[AGENT_MAX];

	find_agent(&parts->refs, agent);
	config_look(dir, &before);
	if (*agent && capabilities_find(known, &before, agent, &parts->capabilities))
		return 0;
	if (fill_ask_git(filling, "version=2", NULL, &parts->capabilities, err) != 0)
		return -1;
	config_look(dir, &after);
	if (*agent && parts->capabilities.len <= CAPABILITIES_MAX &&
	    config_stood_still(&before, &after))
		capabilities_keep(known, &before, agent, &parts->capabilities);
	return 0;
}

/* The name that git gives as the target, which is the last in a chain and need not
 * exist; NULL: the chain is too long for it. */
static const char *last_target(const struct ref_snapshot *refs, const char *target)
{
	for (int left = SYMBOLIC_READS - 1; left > 0; left--) {
		const struct ref *ref = ref_snapshot_find(refs, target);
		if (!ref || !ref->target)
			return target;
		target = ref->target;
	}
	return NULL;
}

static void add_symbolic(const struct ref_snapshot *refs, const char *name,
			 const char *target, struct str *out)
{
	const char *last = target ? last_target(refs, target) : NULL;

	if (last)
		str_addf(out, "%s %s\n", name, last);
}

static int learn_symbolic(const struct repo *repo, struct str *symbolic, struct err *err)
{
	AUTO_SNAPSHOT struct ref_snapshot refs = REF_SNAPSHOT_INIT;

	if (ref_snapshot_read_symbolic(repo->fd, repo->oid_len, &refs, err) != 0)
		return -1;
	if (!repo->hides_head)
		add_symbolic(&refs, "HEAD", refs.head_target, symbolic);
	for (size_t i = 0; i < refs.refs.count; i++)
		add_symbolic(&refs, refs.refs.items[i].name, refs.refs.items[i].target,
			     symbolic);
	return 0;
}

/* It grew by doubling, and is to be kept for long. */
static void fill_trim_text(struct str *str)
{
	if (str->capacity <= str->len + 1)
		return;
	str->capacity = str->len + 1;
	str->data = xrealloc(str->data, str->capacity);
}

static int learn(const struct filling *filling, struct generation_parts *parts,
		 struct err *err)
{
	const struct fill_request *request = filling->request;
	AUTO_REPO struct repo repo = REPO_INIT;

	if (repo_open(request->dir, ".", &repo, err) != 0 ||
	    fill_ask_git(filling, NULL, request->grow, &parts->refs, err) != 0 ||
	    learn_symbolic(&repo, &parts->symbolic, err) != 0 ||
	    learn_capabilities(filling, repo.fd, parts, err) != 0)
		return -1;
	fill_trim_text(&parts->refs);
	return 0;
}

int fill_generation(const struct fill_request *request, struct generation **generation,
		    struct err *err)
{
	const struct filling filling = {
		.request = request,
		.until = git_work_for(NULL, request->timeout_ms).until,
	};
	struct generation_parts parts = GENERATION_PARTS_INIT;

	disk_cache_name(request->look, parts.name);
	if (learn(&filling, &parts, err) == 0)
		return generation_new(&parts, generation, err);
	generation_parts_clear(&parts);
	return -1;
}

/* What is longer is not held for each client, who may take hours to read it. */
#define SHORT ((size_t)128 << 10)
#define PART ((size_t)64 << 10)

struct list_stream {
	struct generation *generation;
	struct ls_refs request;
	struct ref_cursor cursor;
	bool is_over; /* after the part that is here */
	struct str part;
	size_t taken; /* of it */
};

struct list_stream *list_stream_open(struct generation *generation,
				     struct ls_refs *request, struct str *out)
{
	struct ref_cursor cursor = { 0 };
	struct list_stream *stream;

	if (!ref_list_part(generation_refs(generation), request, &cursor, SHORT, out))
		return NULL;
	stream = xcalloc(1, sizeof(*stream));
	stream->generation = generation_ref(generation);
	stream->request = *request;
	*request = (struct ls_refs){ 0 };
	stream->cursor = cursor;
	stream->part = *out;
	*out = (struct str)STR_INIT;
	return stream;
}

static void next_part(struct list_stream *stream)
{
	str_reset(&stream->part);
	stream->taken = 0;
	if (!stream->is_over)
		stream->is_over = !ref_list_part(generation_refs(stream->generation),
						 &stream->request, &stream->cursor, PART,
						 &stream->part);
}

ssize_t list_stream_read(void *arg, void *buffer, size_t size)
{
	struct list_stream *stream = arg;

	if (stream->taken == stream->part.len)
		next_part(stream);
	size_t left = stream->part.len - stream->taken;
	size = size < left ? size : left;
	memcpy(buffer, stream->part.data + stream->taken, size);
	stream->taken += size;
	return (ssize_t)size;
}

void list_stream_close(void *arg)
{
	struct list_stream *stream = arg;

	generation_unref(stream->generation);
	ls_refs_clear(&stream->request);
	str_clear(&stream->part);
	free(stream);
}

/* After this a fingerprint that was too young is proof, on file systems of this host. */
#define SETTLE_MS 20

static void refs_generate_grow(void *arg, const char *bytes, size_t len)
{
	struct refs_flight *flight = arg;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&flight->mutex);

	str_add_bytes(&flight->grown, bytes, len);
	flight->data = flight->grown.data;
	flight->len = flight->grown.len;
	pthread_cond_broadcast(&flight->changed);
}

/* Takes the reference. From now on readers read from the generation itself. */
static void be_whole(struct refs_flight *flight, struct generation *generation,
		     bool is_from_disk)
{
	struct generation_parts parts;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&flight->mutex);

	generation_write(generation, &parts);
	flight->generation = generation;
	flight->is_from_disk = is_from_disk;
	flight->is_whole = true;
	flight->data = parts.refs.data;
	flight->len = parts.refs.len;
	str_clear(&flight->grown);
	pthread_cond_broadcast(&flight->changed);
}

/* Says the same of a repository once, until it is well again. */
static void log_failure(struct refs_flight *flight, const struct err *err)
{
	struct refs_slot *slot = flight->slot;

	lock(&slot->cache->mutex);
	bool is_new = !slot->failure || strcmp(slot->failure, err->text) != 0;
	if (is_new) {
		free(slot->failure);
		slot->failure = xstrdup(err->text);
	}
	unlock(&slot->cache->mutex);
	if (is_new)
		log_warn("refs.failed", LOG_ERR(err));
}

static void refs_generate_report_landing(struct refs_flight *flight,
					 enum refs_landing landing, const struct err *err)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&flight->mutex);

	if (err)
		flight->err = *err;
	flight->landing = landing;
	flight->has_landed = true;
	pthread_cond_broadcast(&flight->changed);
}

static void forget_locked(struct refs_flight *flight)
{
	if (flight->slot->flight == flight)
		flight->slot->flight = NULL;
}

/* Without a generation. */
static void land(struct refs_flight *flight, enum refs_landing landing,
		 const struct err *err)
{
	lock(&flight->cache->mutex);
	forget_locked(flight);
	unlock(&flight->cache->mutex);
	refs_generate_report_landing(flight, landing, err);
}

void refs_count_mismatches(unsigned count)
{
	metric_add(metric_at(metric_counter("refrelay_refs_fingerprint_mismatches_total",
					    "Changes of refs that no hook told of.")),
		   count);
}

/* A change that no hook told of leaves the key as it was. */
static void count_mismatch_locked(const struct refs_slot *slot,
				  const struct refs_observation *observation)
{
	const struct look *now = &observation->look, *before;

	if (!slot->stand)
		return;
	before = &slot->stand->observation->look;
	if (before->inode == now->inode && strcmp(before->key, now->key) == 0 &&
	    !fingerprint_equal(&before->fingerprint, &now->fingerprint))
		refs_count_mismatches(1);
}

/* `sight` is the latest look at which the generation is known to be true. An older one
 * than what is served already is of no use to the slot. */
static void land_well(struct refs_flight *flight, struct refs_observation *observation)
{
	AUTO_WASTE struct refs_waste waste = { 0 };
	struct refs_slot *slot = flight->slot;

	lock(&slot->cache->mutex);
	forget_locked(flight);
	free(TAKE(slot->failure));
	if (!slot->stand || slot->stand->observation->number < observation->number) {
		count_mismatch_locked(slot, observation);
		slot_set_stand_locked(slot, observation, flight->generation, &waste);
	}
	unlock(&slot->cache->mutex);
	refs_generate_report_landing(flight, REFS_LANDING_WELL, NULL);
}

static bool is_served_locked(const struct refs_flight *flight)
{
	const struct refs_stand *stand = flight->slot->stand;

	return stand && stand->generation == flight->generation;
}

static bool is_of_the_past(const struct refs_flight *flight)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&flight->cache->mutex);

	return flight->slot->stand && !is_served_locked(flight);
}

static void compress(struct refs_flight *flight)
{
	AUTO_WASTE struct refs_waste waste = { 0 };

	generation_compress(flight->generation);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&flight->cache->mutex);
	if (is_served_locked(flight))
		slot_weigh_locked(flight->slot, &waste);
}

/* The look from which the disk may have it: one whose fingerprint had settled, with
 * nothing changed since `sight`. NULL: there is none. */
static struct refs_observation *refs_generate_find_settled(
	struct refs_flight *flight, struct refs_observation *observation)
{
	struct refs_observation *settled;
	struct err err;

	if (fingerprint_is_settled(&observation->look.fingerprint))
		return refs_observation_ref(observation);
	if (observation->look.fingerprint.is_shared ||
	    observation->look.fingerprint.is_coarse ||
	    stop_wait(&flight->cache->stop, SETTLE_MS) ||
	    slot_look(flight->slot, &flight->cache->stop, &settled, &err) != 0)
		return NULL;
	if (refs_observation_is_same(observation, settled) &&
	    fingerprint_is_settled(&settled->look.fingerprint))
		return settled;
	refs_observation_unref(settled);
	return NULL;
}

static void refs_generate_renew_slot(struct refs_flight *flight,
				     struct refs_observation *observation)
{
	AUTO_WASTE struct refs_waste waste = { 0 };
	AUTO_UNLOCK pthread_mutex_t *held = lock(&flight->cache->mutex);

	if (is_served_locked(flight))
		slot_renew_locked(flight->slot, observation, &waste);
}

/* What nobody waits for; also of one that is too large for memory. */
static void put_away(struct refs_flight *flight, struct refs_observation *observation)
{
	if (is_of_the_past(flight))
		return;
	compress(flight);

	AUTO_OBSERVATION struct refs_observation *settled =
		refs_generate_find_settled(flight, observation);
	if (!settled)
		return;
	refs_generate_renew_slot(flight, settled);
	disk_cache_write(flight->cache->disk_cache, flight->generation);
}

/* Whether what is found now is what the flight's look saw is for the next look to tell.
 */
static int refs_generate_run_git(struct refs_flight *flight,
				 struct generation **generation, struct err *err)
{
	struct refs_cache *cache = flight->cache;
	AUTO_FREE char *path = NULL;
	AUTO_CLOSE int dir = find_repository(cache->root, flight->slot->name, &path, err);
	struct fill_request request = {
		.look = &flight->observation->look,
		.dir = dir,
		.capabilities = cache->capabilities,
		.stop = &cache->stop,
		.grow = refs_generate_grow,
		.arg = flight,
	};

	if (dir < 0)
		return -1;
	lock(&cache->mutex);
	request.timeout_ms = cache->timeout_ms;
	unlock(&cache->mutex);
	return fill_generation(&request, generation, err);
}

static int refs_generate_ask_git(struct refs_flight *flight,
				 struct generation **generation, struct err *err)
{
	struct slots *fills = flight->cache->fills;
	char *const *names = flight->client;
	const struct fair_client client = { { names[0], names[1], names[2] } };
	struct slots_request request = { .client = &client,
					 .stop = &flight->cache->stop };
	struct fair_place place;

	if (slots_enter(fills, &request, &place, err) != 0)
		return -1;
	int result = refs_generate_run_git(flight, generation, err);
	slots_leave(fills, &place);
	return result;
}

/* Whether nothing has changed since the flight's look; *after is a reference or NULL. */
static bool refs_generate_observe_again(struct refs_flight *flight,
					struct refs_observation **after)
{
	return slot_look(flight->slot, &flight->cache->stop, after, ERR_IGNORED) == 0 &&
	       refs_observation_is_same(flight->observation, *after);
}

/* Whether git has said all that it has to say. Then those who read along have all. */
static bool has_grown_whole(struct refs_flight *flight)
{
	static const char flush[] = "0000";
	AUTO_UNLOCK pthread_mutex_t *held = lock(&flight->mutex);

	flight->is_whole = flight->len >= strlen(flush) &&
			   memcmp(flight->data + flight->len - strlen(flush), flush,
				  strlen(flush)) == 0;
	return flight->is_whole;
}

/* An error is worth telling only of a repository that stood still. And what we do not
 * understand, but git does, is left to git. */
static void crash(struct refs_flight *flight, const struct err *err)
{
	AUTO_OBSERVATION struct refs_observation *after = NULL;
	bool is_whole = err->class == ERR_CORRUPT && has_grown_whole(flight);

	if (err->class == ERR_CANCELED || err->class == ERR_BUSY) {
		land(flight, REFS_LANDING_FAILED, err);
	} else if (!refs_generate_observe_again(flight, &after)) {
		land(flight, REFS_LANDING_MOVED, NULL);
	} else {
		log_failure(flight, err);
		land(flight, is_whole ? REFS_LANDING_UNREADABLE : REFS_LANDING_FAILED,
		     err);
	}
}

void refs_flight_fly(struct refs_flight *flight)
{
	AUTO_OBSERVATION struct refs_observation *after = NULL;
	char name[GENERATION_NAME_SIZE];
	struct generation *generation;
	struct err err = { 0 };

	disk_cache_name(&flight->observation->look, name);
	generation = disk_cache_read(flight->cache->disk_cache, name);
	if (generation) {
		generation_settle(generation); /* else it would not be there */
		be_whole(flight, generation, true);
		land_well(flight, flight->observation);
		return;
	}
	if (refs_generate_ask_git(flight, &generation, &err) != 0) {
		crash(flight, &err);
		return;
	}
	be_whole(flight, generation, false);
	if (refs_generate_observe_again(flight, &after)) {
		land_well(flight, after);
		put_away(flight, after);
	} else {
		land(flight, REFS_LANDING_MOVED, NULL);
	}
}
