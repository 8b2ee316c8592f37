/*
 * Why the order is right. The watch is there before anything is read, so a change after
 * that is either in what is read or makes the epoch old. Pending files are listed before
 * the key is read and the key before refs (git/state.h). The configuration is read after
 * the fingerprint: if it changed in between, the fingerprint is the old one's, and the
 * look that must follow whatever was derived from this one differs from it.
 *
 * The look is of the directory that was opened; what git then reads is what stands at
 * its path. Should that have been replaced meanwhile, the look that follows tells by
 * device and inode: they cannot be given again while this one's directory is watched,
 * and the fingerprint holds inodes and ctimes besides.
 *
 * look_still_stands asks for the path first, then for the epoch. If that is the look's,
 * nothing had changed up to that moment; so the answer was true when the path was asked,
 * which is after the call began.
 */
#include "serve/look.h"

#include <limits.h>
#include <stdatomic.h>
#include <zlib.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/vec.h"
#include "git/lock_owner.h"
#include "git/pkt_line.h"
#include "git/repo.h"
#include "serve/find.h"
#include "serve/generation.h"

/*
 * The answers of protocols 0 and 2 are there from the beginning, each in one piece. What
 * is laid beside them later, gzip and the answer of protocol 1, is a string that is whole
 * before its pointer is published, and is neither changed nor freed until the generation
 * is: readers see none or all of it.
 */

#define SERVICE "001e# service=git-upload-pack\n0000"
#define VERSION_1 "000eversion 1\n"
#define VERSION_2 "version 2\n"

enum {
	SERVICE_LEN = sizeof(SERVICE) - 1,
	COMPRESS_MIN = 1024,
	COMPRESS_LEVEL = 6,
	GZIP_WINDOW_BITS = 15 + 16, /* 16: gzip in place of zlib's own form */
	COMPRESS_STEP = 1 << 16,
};

struct generation {
	atomic_size_t references;
	char name[GENERATION_NAME_SIZE];
	struct str body;         /* of protocol 0 */
	struct str capabilities; /* the body of protocol 2 */
	struct str symbolic;
	struct ref_list *refs; /* points into body */
	size_t oid_digits;
	bool shows_unborn;
	atomic_bool is_settled;
	_Atomic(struct str *) packed;    /* gzip of body */
	_Atomic(struct str *) version_1; /* the body of protocol 1 */
};

void generation_parts_clear(struct generation_parts *parts)
{
	str_clear(&parts->refs);
	str_clear(&parts->capabilities);
	str_clear(&parts->symbolic);
	str_clear(&parts->packed_refs);
}

/* Room for exactly that: str_reserve would take up to twice as much, for long. */
static struct str str_of_capacity(size_t len)
{
	struct str str = { .data = xmalloc(len + 1), .capacity = len + 1 };

	str.data[0] = '\0';
	return str;
}

static struct str str_fitted(struct str *taken)
{
	struct str fitted = str_of_capacity(taken->len);

	str_add_bytes(&fitted, taken->data, taken->len);
	str_clear(taken);
	return fitted;
}

/* The bytes behind "key=" if the line is that capability. */
static bool capability_is(const char *line, size_t len, const char *key,
			  const char **value, size_t *value_len)
{
	size_t key_len = strlen(key);

	if (len > 0 && line[len - 1] == '\n')
		len--;
	if (len <= key_len || memcmp(line, key, key_len) != 0 || line[key_len] != '=')
		return false;
	*value = line + key_len + 1;
	*value_len = len - key_len - 1;
	return true;
}

static bool has_word(const char *text, size_t len, const char *word)
{
	size_t word_len = strlen(word);

	for (const char *end = text + len; text < end;) {
		const char *blank = memchr(text, ' ', (size_t)(end - text));
		size_t step = blank ? (size_t)(blank - text) : (size_t)(end - text);
		if (step == word_len && memcmp(text, word, word_len) == 0)
			return true;
		text += step + 1;
	}
	return false;
}

static void generation_read_capability(struct generation *generation, const char *line,
				       size_t len)
{
	const char *value;
	size_t value_len;

	if (capability_is(line, len, "ls-refs", &value, &value_len))
		generation->shows_unborn = has_word(value, value_len, "unborn");
	else if (capability_is(line, len, "object-format", &value, &value_len))
		generation->oid_digits = has_word(value, value_len, "sha256") ? 64 : 40;
}

static int generation_read_capabilities(struct generation *generation, struct err *err)
{
	struct pkt_reader reader = { generation->capabilities.data,
				     generation->capabilities.len };
	const char *line = NULL;
	size_t len = 0;
	enum pkt pkt = pkt_next(&reader, &line, &len);

	generation->oid_digits = 40;
	if (pkt != PKT_LINE || len != strlen(VERSION_2) ||
	    memcmp(line, VERSION_2, len) != 0)
		return err_set(err, ERR_CORRUPT, "no capabilities of protocol 2");
	while ((pkt = pkt_next(&reader, &line, &len)) == PKT_LINE)
		generation_read_capability(generation, line, len);
	if (pkt != PKT_FLUSH || reader.left > 0)
		return err_set(err, ERR_CORRUPT, "capabilities of protocol 2 were cut");
	return 0;
}

typedef VEC(struct ref_symbolic) symbolic_refs;

/* Splits one line of `text` where it is; NULL: it is none. */
static char *split_symbolic(char *text, struct ref_symbolic *ref)
{
	char *end = strchr(text, '\n');
	char *blank = strchr(text, ' ');

	if (!end || !blank || blank == text || blank > end || blank + 1 == end)
		return NULL;
	*end = *blank = '\0';
	*ref = (struct ref_symbolic){ .name = text, .target = blank + 1 };
	return end + 1;
}

static int split_all_symbolic(char *text, size_t len, symbolic_refs *refs,
			      struct err *err)
{
	const char *before = "";

	for (char *at = text, *end = text + len; at < end;) {
		struct ref_symbolic ref;
		at = split_symbolic(at, &ref);
		if (!at || strcmp(before, ref.name) >= 0)
			return err_set(err, ERR_CORRUPT, "no list of symbolic refs");
		before = ref.name;
		vec_add(refs, ref);
	}
	return 0;
}

static int generation_read_refs(struct generation *generation, struct err *err)
{
	AUTO_FREE char *text = xstrdup(generation->symbolic.data);
	symbolic_refs symbolic = { 0 };

	if (strlen(text) != generation->symbolic.len)
		return err_set(err, ERR_CORRUPT, "no list of symbolic refs");
	if (split_all_symbolic(text, generation->symbolic.len, &symbolic, err) == 0)
		generation->refs = ref_list_parse(generation->body.data + SERVICE_LEN,
						  generation->body.len - SERVICE_LEN,
						  symbolic.items, symbolic.count, err);
	vec_clear(&symbolic);
	return generation->refs ? 0 : -1;
}

static struct str *publishable(struct str *taken)
{
	struct str *string = xmalloc(sizeof(*string));

	*string = str_fitted(taken);
	return string;
}

static struct generation *take_parts(struct generation_parts *parts)
{
	struct generation *generation = xcalloc(1, sizeof(*generation));

	atomic_init(&generation->references, 1);
	memcpy(generation->name, parts->name, sizeof(generation->name));
	generation->body = str_of_capacity(SERVICE_LEN + parts->refs.len);
	str_add(&generation->body, SERVICE);
	str_add_bytes(&generation->body, parts->refs.data, parts->refs.len);
	generation->capabilities = str_fitted(&parts->capabilities);
	generation->symbolic = str_fitted(&parts->symbolic);
	atomic_init(&generation->is_settled, false);
	atomic_init(&generation->packed, NULL);
	atomic_init(&generation->version_1, NULL);
	if (parts->packed_refs.len > 0)
		atomic_init(&generation->packed, publishable(&parts->packed_refs));
	generation_parts_clear(parts);
	return generation;
}

int generation_new(struct generation_parts *parts, struct generation **generation,
		   struct err *err)
{
	struct generation *made = take_parts(parts);

	if (generation_read_capabilities(made, err) == 0 &&
	    generation_read_refs(made, err) == 0) {
		*generation = made;
		return 0;
	}
	generation_unref(made);
	return -1;
}

struct generation *generation_ref(struct generation *generation)
{
	atomic_fetch_add_explicit(&generation->references, 1, memory_order_relaxed);
	return generation;
}

static void str_free(struct str *string)
{
	if (string)
		str_clear(string);
	free(string);
}

void generation_unref(struct generation *generation)
{
	if (!generation || atomic_fetch_sub(&generation->references, 1) > 1)
		return;
	if (generation->refs)
		ref_list_free(generation->refs);
	str_free(atomic_load(&generation->packed));
	str_free(atomic_load(&generation->version_1));
	str_clear(&generation->body);
	str_clear(&generation->capabilities);
	str_clear(&generation->symbolic);
	free(generation);
}

void generation_settle(struct generation *generation)
{
	atomic_store(&generation->is_settled, true);
}

bool generation_is_settled(const struct generation *generation)
{
	return atomic_load(&generation->is_settled);
}

const char *generation_name(const struct generation *generation)
{
	return generation->name;
}

static size_t size_of_published(const struct str *string)
{
	return string ? sizeof(*string) + string->capacity : 0;
}

size_t generation_size(const struct generation *generation)
{
	return sizeof(*generation) + generation->body.capacity +
	       generation->capabilities.capacity + generation->symbolic.capacity +
	       ref_list_size(generation->refs) +
	       size_of_published(atomic_load(&generation->packed)) +
	       size_of_published(atomic_load(&generation->version_1));
}

/* Made when it is asked for: hardly anybody speaks protocol 1. Who comes second throws
 * its own away. */
static const struct str *body_of_version_1(struct generation *generation)
{
	struct str *present = atomic_load(&generation->version_1);

	if (present)
		return present;
	size_t len = sizeof(VERSION_1) - 1 + generation->body.len;
	struct str *made = xmalloc(sizeof(*made));
	*made = str_of_capacity(len);
	str_add(made, SERVICE VERSION_1);
	str_add_bytes(made, generation->body.data + SERVICE_LEN,
		      generation->body.len - SERVICE_LEN);
	if (atomic_compare_exchange_strong(&generation->version_1, &present, made))
		return made;
	str_free(made);
	return present;
}

struct generation_body generation_info_refs(struct generation *generation, int protocol,
					    bool accepts_gzip)
{
	const struct str *packed =
		atomic_load_explicit(&generation->packed, memory_order_acquire);
	const struct str *body = &generation->body;
	bool is_gzip = protocol == 0 && accepts_gzip && packed;

	if (protocol == 2)
		body = &generation->capabilities;
	else if (protocol == 1)
		body = body_of_version_1(generation);
	else if (is_gzip)
		body = packed;
	return (struct generation_body){ body->data, body->len, is_gzip };
}

bool generation_shows_unborn(const struct generation *generation)
{
	return generation->shows_unborn;
}

const struct ref_list *generation_refs(const struct generation *generation)
{
	return generation->refs;
}

size_t generation_oid_digits(const struct generation *generation)
{
	return generation->oid_digits;
}

/* False when more than `limit` bytes would be needed, or memory is short. */
static bool deflate_into(z_stream *stream, size_t limit, struct str *out)
{
	int result = Z_OK;

	while (result == Z_OK && out->len <= limit) {
		str_reserve(out, COMPRESS_STEP);
		stream->next_out = (unsigned char *)out->data + out->len;
		stream->avail_out = COMPRESS_STEP;
		result = deflate(stream, Z_FINISH);
		out->len += COMPRESS_STEP - stream->avail_out;
	}
	return result == Z_STREAM_END && out->len <= limit;
}

static bool gzip(const struct str *body, size_t limit, struct str *out)
{
	z_stream stream = { .next_in = (unsigned char *)body->data,
			    .avail_in = (unsigned)body->len };

	if (deflateInit2(&stream, COMPRESS_LEVEL, Z_DEFLATED, GZIP_WINDOW_BITS, 8,
			 Z_DEFAULT_STRATEGY) != Z_OK)
		return false;
	bool is_done = deflate_into(&stream, limit, out);
	deflateEnd(&stream);
	return is_done;
}

void generation_compress(struct generation *generation)
{
	AUTO_STR struct str packed = STR_INIT;
	const struct str *body = &generation->body;

	if (atomic_load(&generation->packed) || body->len <= COMPRESS_MIN ||
	    body->len > UINT_MAX)
		return;
	if (gzip(body, body->len - body->len / 10, &packed))
		atomic_store_explicit(&generation->packed, publishable(&packed),
				      memory_order_release);
}

/* Without a capacity of its own: clearing it frees nothing. */
static struct str borrow(char *data, size_t len)
{
	return (struct str){ .data = data, .len = len };
}

void generation_write(const struct generation *generation,
		      struct generation_parts *borrowed)
{
	const struct str *packed = atomic_load(&generation->packed);

	memcpy(borrowed->name, generation->name, sizeof(borrowed->name));
	borrowed->refs = borrow(generation->body.data + SERVICE_LEN,
				generation->body.len - SERVICE_LEN);
	borrowed->capabilities =
		borrow(generation->capabilities.data, generation->capabilities.len);
	borrowed->symbolic = borrow(generation->symbolic.data, generation->symbolic.len);
	borrowed->packed_refs =
		packed ? borrow(packed->data, packed->len) : (struct str)STR_INIT;
}

#define NS_PER_S INT64_C(1000000000)

enum {
	POLL_MS = 4,       /* between looks at a pending write */
	SETTLE_MS = 20,    /* as fingerprint_is_settled wants it on local disks */
	SETTLE_TRIES = 5,  /* of these waits */
	WATCHED_TRIES = 2, /* the first may make the state's directories and key */
	REPORT_EVERY_MS = 60000,
};

static const char *const names[BYPASS_COUNT] = {
	[BYPASS_NONE] = "none",
	[BYPASS_PENDING] = "pending",
	[BYPASS_UNSETTLED] = "unsettled",
	[BYPASS_CONFIG] = "config",
	[BYPASS_UNWRITABLE] = "unwritable",
	[BYPASS_MOVING] = "moving",
	[BYPASS_UNREADABLE] = "unreadable",
};

const char *bypass_name(enum bypass bypass)
{
	return bypass < BYPASS_COUNT ? names[bypass] : "";
}

void observation_clear(struct look *look)
{
	free(look->path);
	*look = (struct look){ 0 };
}

/* Each request meets it again; a person need not. */
static void report_unwritable(const char *path, const struct err *err)
{
	static atomic_int_fast64_t next;
	int64_t now = clock_boot_ms();
	int_fast64_t due = atomic_load(&next);

	if (now >= due &&
	    atomic_compare_exchange_strong(&next, &due, now + REPORT_EVERY_MS))
		log_warn("refs.not_cached", LOG_ERR(err), LOG_TEXT("path", path));
}

static void bypass_unwritable(struct look *look, const struct err *why)
{
	report_unwritable(look->path, why);
	look->bypass = BYPASS_UNWRITABLE;
}

static bool observation_is_there(int dir, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

/* Whether all that decides its refs is where the watch and the fingerprint look. */
static bool is_self_contained(int dir, const struct repo *repo,
			      const struct fingerprint *fingerprint)
{
	return !repo->has_includes && !fingerprint->has_links &&
	       !observation_is_there(dir, "commondir") &&
	       !observation_is_there(dir, "config.worktree");
}

static int observation_check_repository(int dir, struct look *look, struct err *err)
{
	AUTO_REPO struct repo repo = REPO_INIT;

	if (repo_open(dir, ".", &repo, err) != 0)
		return err_prefix(err, "%s", look->path);
	look->is_closed = repo.is_closed;
	if (!is_self_contained(dir, &repo, &look->fingerprint))
		look->bypass = BYPASS_CONFIG;
	return 0;
}

static void observation_arm_watch(const struct look_request *request, int dir,
				  struct look *look)
{
	look->is_watched =
		request->inotify && inotify_arm(request->inotify, dir, request->watch,
						&look->epoch, ERR_IGNORED) == 0;
}

/* The latest that was read from the clock of a shared file system. It does not go back:
 * what was old by it still is, and a repository at rest costs no more than its looks. */
static struct {
	pthread_mutex_t mutex;
	dev_t device;
	int64_t ns;
} shared_clock = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static int64_t shared_clock_last(dev_t device)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&shared_clock.mutex);

	return shared_clock.device == device ? shared_clock.ns : 0;
}

/* 0: it cannot be asked, and nothing is settled. */
static int64_t shared_clock_ask(int dir, dev_t device)
{
	int64_t now = lock_owner_clock(dir, STATE_FOLDER) * NS_PER_S;

	if (now < 0)
		return 0;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&shared_clock.mutex);
	if (shared_clock.device != device || shared_clock.ns < now) {
		shared_clock.device = device;
		shared_clock.ns = now;
	}
	return now;
}

/* Stamps on a shared file system are its server's: whether they are old is for that clock
 * to say, as it stood before they were read. */
static int take_fingerprint(int dir, struct look *look, struct err *err)
{
	struct fingerprint *fingerprint = &look->fingerprint;
	int64_t now = shared_clock_last(look->device);

	if (fingerprint_take(dir, FINGERPRINT_REFS, fingerprint, err) != 0)
		return -1;
	if (!fingerprint->is_shared)
		return 0;
	fingerprint->taken_ns = now;
	if (fingerprint_is_settled(fingerprint))
		return 0;
	now = shared_clock_ask(dir, look->device);
	if (fingerprint_take(dir, FINGERPRINT_REFS, fingerprint, err) != 0)
		return -1;
	fingerprint->taken_ns = now;
	return 0;
}

/* Only the path of *look is given. */
static int look_once(const struct look_request *request, int dir, struct look *look,
		     struct err *err)
{
	struct state_look state;
	struct err why;
	struct stat st;

	look->bypass = BYPASS_NONE;
	if (fstat(dir, &st) != 0)
		return err_errno(err, "cannot look at %s", look->path);
	look->device = st.st_dev;
	look->inode = st.st_ino;
	git_version(look->git);
	observation_arm_watch(request, dir, look);
	if (state_look(dir, &state, &why) != 0) {
		bypass_unwritable(look, &why);
		return 0;
	}
	look->recovered += state.recovered;
	if (state.is_pending) {
		look->bypass = BYPASS_PENDING;
		return 0;
	}
	memcpy(look->key, state.key, sizeof(look->key));
	if (take_fingerprint(dir, look, &why) != 0)
		bypass_unwritable(look, &why);
	return observation_check_repository(dir, look, err);
}

/* What is left to do until a look is of use. */
struct patience {
	int64_t pending_until; /* boot ms */
	int settle_tries, watched_tries;
};

/* How long to wait before another look: 0 for at once, -1: this one is it. */
static int64_t wait_after(struct look *look, struct patience *patience,
			  struct inotify_watch *watch)
{
	int64_t age_ms;

	if (look->bypass == BYPASS_PENDING)
		return clock_boot_ms() < patience->pending_until ? POLL_MS : -1;
	if (look->bypass != BYPASS_NONE)
		return -1;
	if (look->is_watched)
		return inotify_epoch(watch) != look->epoch &&
				       patience->watched_tries-- > 0
			       ? 0
			       : -1;
	if (fingerprint_is_settled(&look->fingerprint))
		return -1;
	age_ms = (look->fingerprint.taken_ns - look->fingerprint.newest_ns) / 1000000;
	if (!look->fingerprint.is_shared && !look->fingerprint.is_coarse && age_ms >= 0 &&
	    patience->settle_tries-- > 0)
		return SETTLE_MS - age_ms;
	look->bypass = BYPASS_UNSETTLED;
	return -1;
}

/* True: stopped. */
static bool observation_rest(const struct stop *stop, int64_t ms)
{
	if (stop)
		return ms > 0 ? stop_wait(stop, ms) : stop_is_requested(stop);
	if (ms > 0)
		usleep((useconds_t)ms * 1000);
	return false;
}

int look_take(const struct look_request *request, struct look *look, struct err *err)
{
	struct patience patience = {
		.pending_until = clock_boot_ms() + request->pending_wait_ms,
		.settle_tries = SETTLE_TRIES,
		.watched_tries = WATCHED_TRIES - 1,
	};
	int64_t wait_ms = 0;

	*look = (struct look){ 0 };
	AUTO_CLOSE int dir =
		find_repository(request->root, request->name, &look->path, err);
	if (dir < 0)
		return -1;
	do {
		if (observation_rest(request->stop, wait_ms))
			return err_set(err, ERR_CANCELED, "stopped while looking at %s",
				       look->path);
		if (look_once(request, dir, look, err) != 0)
			return -1;
		wait_ms = wait_after(look, &patience,
				     request->watch ? *request->watch : NULL);
	} while (wait_ms >= 0);
	return 0;
}

static bool is_same_place(const struct look *before, const struct look *after)
{
	return before->device == after->device && before->inode == after->inode &&
	       strcmp(before->path, after->path) == 0;
}

bool look_is_same(const struct look *before, const struct look *after)
{
	if (before->bypass != BYPASS_NONE || after->bypass != BYPASS_NONE)
		return false;
	if (!is_same_place(before, after) || strcmp(before->key, after->key) != 0 ||
	    strcmp(before->git, after->git) != 0 ||
	    !fingerprint_equal(&before->fingerprint, &after->fingerprint))
		return false;
	return (before->is_watched && after->is_watched &&
		before->epoch == after->epoch) ||
	       fingerprint_is_settled(&before->fingerprint);
}

/* Found as NAME: whether a NAME.git has come. True where it cannot be told. */
static bool is_hidden(const char *path)
{
	char usual[PATH_MAX];
	struct stat st;
	int len = snprintf(usual, sizeof(usual), "%s.git", path);

	if (len < 0 || (size_t)len >= sizeof(usual))
		return true;
	return lstat(usual, &st) == 0 || errno != ENOENT;
}

bool look_still_stands(const struct look *look, struct inotify_watch *watch)
{
	struct stat st;

	if (look->bypass != BYPASS_NONE || !look->is_watched || !watch)
		return false;
	if (lstat(look->path, &st) != 0 || st.st_dev != look->device ||
	    st.st_ino != look->inode)
		return false;
	if (find_is_plain(look->path) && is_hidden(look->path))
		return false;
	return inotify_epoch(watch) == look->epoch;
}
