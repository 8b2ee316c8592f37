/*
 * A copy's record holds a fingerprint of its files, taken when they were proved. Where
 * that is another now, somebody else wrote there, or something was lost: what it is, a
 * sync finds out, which reads all of the copy. Equal ones prove nothing; reverification
 * is there for what changes in silence.
 *
 * The row is read before the copy is looked at, and doubted only if it is still of that
 * generation: whoever works on the copy meanwhile has the row started.
 */
#include "pull/glance.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "blob/file.h"
#include "change/origin_root.h"
#include "git/repo.h"
#include "pull/blob_work.h"
#include "pull/copy_record.h"
#include "pull/copy_watch.h"
#include "pull/decisions.h"
#include "pull/pull_parts.h"
#include "pull/repository_maintenance.h"
#include "replicable/name.h"
#include "upkeep/copies_root.h"
#include "verify/damage.h"

/*
 * Whoever meets damage says so here. The row is written at once, so that nobody is told
 * that the copy is well; but a disk that goes on failing must not have everything brought
 * again and again: from the fourth time on each waits twice as long as the one before.
 */

#define AT_ONCE 3
#define WAIT_LEAST_MS ((int64_t)5000)
#define WAIT_MOST_MS ((int64_t)3600 * 1000)
#define REMEMBERED_MOST 10000
#define GLANCE_GOOD_MS 250

struct pace {
	int64_t until; /* boot ms: not before */
	unsigned count;
};

void doubts_clear(struct pull *pull)
{
	map_clear(&pull->glanced);
	map_clear_owned(&pull->doubts);
	map_clear_owned(&pull->rebuilds);
}

/* Many thousand at once are another trouble than one that comes back. */
static struct pace *pace_of(struct map *paces, uint64_t id)
{
	char key[24];
	struct pace *pace;

	snprintf(key, sizeof(key), "%" PRIx64, id);
	pace = map_get(paces, key);
	if (pace)
		return pace;
	if (paces->count >= REMEMBERED_MOST)
		map_clear_owned(paces);
	pace = xcalloc(1, sizeof(*pace));
	map_put(paces, key, pace);
	return pace;
}

static int64_t step_ms(unsigned count)
{
	int64_t ms = WAIT_LEAST_MS;

	while (count-- > AT_ONCE && ms < WAIT_MOST_MS)
		ms *= 2;
	return ms < WAIT_MOST_MS ? ms : WAIT_MOST_MS;
}

static int64_t doubt_wait_locked(const struct pace *pace, int64_t now)
{
	return pace->until > now ? pace->until - now : 0;
}

/* What was well for long begins anew. */
static void doubt_take_locked(struct pace *pace, int64_t now)
{
	if (now - pace->until > 2 * WAIT_MOST_MS)
		pace->count = 0;
	pace->count++;
	pace->until = (pace->until > now ? pace->until : now);
	if (pace->count >= AT_ONCE)
		pace->until += step_ms(pace->count);
}

int64_t rebuild_wait_ms(struct pull *pull, uint64_t id)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	return doubt_wait_locked(pace_of(&pull->rebuilds, id), clock_boot_ms());
}

void rebuild_take(struct pull *pull, uint64_t id)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	doubt_take_locked(pace_of(&pull->rebuilds, id), clock_boot_ms());
}

int64_t doubt_take(struct pull *pull, uint64_t id)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);
	struct pace *pace = pace_of(&pull->doubts, id);
	int64_t now = clock_boot_ms(), wait_ms = doubt_wait_locked(pace, now);
	int64_t rebuild_ms = doubt_wait_locked(pace_of(&pull->rebuilds, id), now);

	doubt_take_locked(pace, now);
	/* A try that may not rebuild yet fails, and then waits for long. */
	return wait_ms > rebuild_ms ? wait_ms : rebuild_ms;
}

/* Whoever looks through the copy just now may have passed what is doubted; but a new copy
 * comes from nothing. */
static bool doubt_is_known(const struct registry_row *row)
{
	if (row->is_gone || row->state == REGISTRY_SYNCED)
		return row->is_gone;
	if (row->state == REGISTRY_STARTED && !(row->wishes & REGISTRY_WISH_REBUILD))
		return row->wishes_later & REGISTRY_WISH_RECHECK;
	return row->wishes & REGISTRY_WISH_RECHECK;
}

/* generation 0: whatever it is of. */
static int doubt_mark_row(struct pull *pull, const struct registry_row *row,
			  uint64_t generation, const struct err *why, struct err *err)
{
	struct registry_move move = { .id = row->id,
				      .event = REGISTRY_DOUBTED,
				      .generation = generation,
				      .err = why };

	if (doubt_is_known(row))
		return 0;
	/* What is away with its file system is not damaged. */
	if (pull_check_copy(pull, row->kind, row->name, err) != 0)
		return -1;
	move.delay_ms = doubt_take(pull, row->id);
	if (registry_move(pull->options.store, &move, err) != 0) {
		if (err->class != ERR_MISSING && err->class != ERR_CONFLICT)
			pull_move_later(pull, &move);
		return -1;
	}
	log_warn("copy.doubted", LOG_TEXT("kind", row->kind), LOG_TEXT("name", row->name),
		 LOG_ERR(why));
	if (why->class == ERR_CORRUPT)
		damage_note(row->kind, row->name, why);
	pull_signal(pull);
	return 0;
}

void pull_doubt(struct pull *pull, const char *kind, const char *name,
		const struct err *why)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	struct err err;

	if (registry_get(pull->options.store, kind, name, &row, &err) == 0 &&
	    doubt_mark_row(pull, &row, 0, why, &err) == 0)
		return;
	if (err.class != ERR_MISSING && err.class != ERR_CONFLICT)
		log_error("registry.failed", LOG_ERR(&err), LOG_TEXT("name", name));
}

/* Many readers share a look. */
static bool was_well_just_now(struct pull *pull, const char *name)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);
	int64_t now = clock_boot_ms();

	if (now - pull->glanced_at >= GLANCE_GOOD_MS) {
		map_clear(&pull->glanced);
		pull->glanced_at = now;
	}
	return map_get(&pull->glanced, name) != NULL;
}

static void is_well_now(struct pull *pull, const char *name)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	map_put(&pull->glanced, name, pull);
}

bool pull_glance(struct pull *pull, const char *name)
{
	const struct pull_options *options = &pull->options;
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	struct err err, why;

	if (was_well_just_now(pull, name) ||
	    registry_get(options->store, KIND_REPOSITORY, name, &row, &err) != 0 ||
	    row.state != REGISTRY_SYNCED || row.is_gone || row.generation == 0)
		return true;
	int seen = glance_repository(options->here->root, &row, &why);
	if (seen >= 0) {
		if (seen > 0)
			copy_watch_report(pull->copy_watch, name);
		is_well_now(pull, name);
		return true;
	}
	if (doubt_mark_row(pull, &row, row.generation, &why, &err) != 0)
		log_error("registry.failed", LOG_ERR(&err), LOG_TEXT("name", name));
	return false;
}

#define PAGE 200
#define PAGE_SMALL 16 /* most directories have few */

static int glance_report_difference(struct err *err)
{
	err_set(err, ERR_CORRUPT, "the copy's files were changed by others");
	return err_remedy(err, "it is checked and repaired automatically; if this "
			       "recurs, find out what else writes to the copies");
}

static int glance_is_another(struct err *err)
{
	err_set(err, ERR_CORRUPT, "another copy stands in its place, or an older one");
	return err_remedy(err, "none needed: it is fetched again, and a misplaced copy "
			       "goes to the trash");
}

static int glance_at_record(const struct registry_row *row, const struct repo *copy,
			    struct err *err)
{
	AUTO_RECORD struct copy_record record = { 0 };

	copy_record_read(copy->fd, &record);
	if (record.is_unread)
		return 0;
	if (!record.is_there)
		return glance_report_difference(err);
	if (!copy_record_is_of_row(&record, row))
		return glance_is_another(err);
	switch (copy_record_look(&record, copy->fd)) {
	case COPY_STAMPS_SAME:
	case COPY_STAMPS_UNKNOWN:
		return 0;
	case COPY_STAMPS_LATER:
		return 1;
	case COPY_STAMPS_OTHER:
		break;
	}
	return repository_is_maintained(copy->fd, &record)
		       ? 0
		       : glance_report_difference(err);
}

/* What keeps this machine from looking says nothing of the copy. */
static int glance_fail(struct err *err)
{
	return err_is_of_data(err) ? err_prefix(err, "the copy") : 0;
}

int glance_repository(const char *root, const struct registry_row *row, struct err *err)
{
	AUTO_FREE char *below = name_to_path(row->name);
	AUTO_FREE char *path = xasprintf("%s/%s", root, below);
	AUTO_REPO struct repo copy = REPO_INIT;
	struct stat st;

	if (lstat(path, &st) != 0) {
		err_errno(err, "cannot look at it");
		return glance_fail(err);
	}
	if (!S_ISDIR(st.st_mode))
		return err_set(err, ERR_CORRUPT, "the copy is not a directory");
	if (repo_open(AT_FDCWD, path, &copy, err) != 0 ||
	    repo_check_diversions(copy.fd, err) != 0)
		return glance_fail(err);
	return glance_at_record(row, &copy, err);
}

/* Files of refs that were stamped anew are not as they were left; of others the content
 * tells. */
static int read_stamped(const struct glance_look *look, const char *name, struct err *err)
{
	AUTO_FREE char *below = name_to_path(name);
	AUTO_FREE char *path = xasprintf("%s/%s", look->kind->path, below);
	AUTO_RECORD struct copy_record record = { 0 };
	AUTO_REPO struct repo copy = REPO_INIT;
	struct fingerprint refs;

	if (repo_open(AT_FDCWD, path, &copy, err) != 0)
		return glance_fail(err);
	copy_record_read(copy.fd, &record);
	if (record.is_unread)
		return 0;
	if (fingerprint_take(copy.fd, FINGERPRINT_COPY, &refs, err) != 0)
		return glance_fail(err);
	if (refs.changed_ns > record.files_changed_ns ||
	    copy_content_is_sound(&copy, record.files_changed_ns, look->stop,
				  ERR_IGNORED) == 0)
		return glance_report_difference(err);
	return 0;
}

int glance_look_at_repository(const struct glance_look *look,
			      const struct registry_row *row, struct err *err)
{
	int seen = glance_repository(look->kind->path, row, err);

	return seen > 0 ? read_stamped(look, row->name, err) : seen;
}

void glance_blob_of(const struct registry_row *row, struct glance_blob *known)
{
	known->size = row->size;
	known->known_at = int64_max(row->verified_at, row->last_success_at);
}

/* By us nothing is done to a file after its rename, and its row is written later than
 * that. A file server's times are not of the clock here. */
static bool was_changed_since(const struct glance_blob *known, int fd,
			      const struct stat *stat)
{
	int64_t changed_at = (int64_t)stat->st_ctim.tv_sec * 1000 +
			     (int64_t)stat->st_ctim.tv_nsec / 1000000;

	return known->known_at > 0 && changed_at > known->known_at &&
	       file_system_is_local(fd);
}

int glance_blob(const struct glance_blob *known, int fd, const struct stat *stat,
		struct err *err)
{
	if ((known->size > 0 && (uint64_t)stat->st_size != known->size) ||
	    was_changed_since(known, fd, stat))
		return glance_report_difference(err);
	return 0;
}

int glance_blob_fingerprint(const struct blob_fingerprint *fingerprint, int fd,
			    const struct stat *stat, struct err *err)
{
	struct blob_fingerprint now;

	blob_fingerprint_of(stat, &now);
	if (!blob_fingerprint_same(fingerprint, &now) ||
	    (fingerprint->ctime_ns != now.ctime_ns && file_system_is_local(fd)))
		return glance_report_difference(err);
	return 0;
}

/* Around the moment in which the row was written times say little, as the clock of files
 * stands still for a while. A large one is verified soon. */
static bool needs_reading(const struct registry_row *row, const struct glance_blob *known,
			  const struct stat *stat)
{
	struct blob_fingerprint fingerprint;

	blob_fingerprint_of(stat, &fingerprint);
	return row->checksum && fingerprint.size <= BLOB_SMALL_MOST &&
	       !blob_fingerprint_is_settled(&fingerprint, known->known_at * 1000000);
}

static int glance_read_blob(const struct glance_look *look, int fd, const char *checksum,
			    struct err *err)
{
	char digest[BLOB_DIGEST_SIZE];
	struct blob_fingerprint fingerprint;

	if (blob_digest(fd, &fingerprint, digest, look->stop, err) != 0)
		return -1;
	return strcmp(digest, checksum) == 0 ? 0 : glance_report_difference(err);
}

int glance_look_at_blob(const struct glance_look *look, const struct registry_row *row,
			struct err *err)
{
	struct glance_blob known;
	AUTO_CLOSE int fd = -1;
	struct stat st;

	glance_blob_of(row, &known);
	if (blob_open(look->root, row->name, &fd, &st, err) != 0 ||
	    glance_blob(&known, fd, &st, err) != 0)
		return -1;
	if (!look->was_reported || !needs_reading(row, &known, &st))
		return 0;
	return glance_read_blob(look, fd, row->checksum, err);
}

struct glancing {
	const struct glance_request *request;
	struct glance_result *result;
	struct glance_look look;
	char *directory;        /* owned; of the last one; NULL: none yet */
	bool passes;            /* what is in it needs no look */
	json_t *mounts;         /* owned */
	VEC(const char *) away; /* of these, when the page began; borrowed */
	VEC(struct registry_move) moves;
	VEC(struct err *) reasons; /* owned; of the moves */
};

/* Nobody has worked on it since the row was read. */
static bool is_still(const struct glance_request *request, const struct registry_row *row)
{
	AUTO_REGISTRY_ROW struct registry_row now = { 0 };

	return registry_get(request->store, row->kind, row->name, &now, ERR_IGNORED) ==
		       0 &&
	       now.state == row->state && now.last_attempt_at == row->last_attempt_at &&
	       now.generation == row->generation;
}

static void glance_inspect_row(struct glancing *glancing, const struct registry_row *row)
{
	const struct glance_request *request = glancing->request;
	struct glance_result *result = glancing->result;
	struct err why;

	result->looked++;
	if (request->kind->copies->look(&glancing->look, row, &why) == 0 ||
	    !err_is_of_data(&why) || !is_still(request, row) ||
	    copies_root_check_mounts(glancing->mounts, request->kind->path, row->name,
				     &result->away) != 0)
		return;
	if (result->doubted++ == 0) {
		result->example = xstrdup(row->name);
		result->why = why;
	}
	struct err *kept = xmalloc(sizeof(*kept));
	*kept = why;
	vec_add(&glancing->reasons, kept);
	vec_add(&glancing->moves,
		((struct registry_move){
			.id = row->id,
			.event = REGISTRY_DOUBTED,
			.generation = row->generation,
			.err = kept,
			.delay_ms = request->pull ? doubt_take(request->pull, row->id)
						  : 0 }));
}

/* Once a page: there may be millions of rows below one. */
static void glance_find_away(struct glancing *glancing)
{
	const json_t *mounts = glancing->mounts;

	glancing->away.count = 0;
	for (size_t i = 0; i < json_array_size(mounts); i++) {
		const char *mount = json_string_value(json_array_get(mounts, i));
		if (mounts_find_away(mounts, glancing->look.root, mount) == mount)
			vec_add(&glancing->away, mount);
	}
}

static bool glance_is_away(const struct glancing *glancing, const char *name)
{
	for (size_t i = 0; i < glancing->away.count; i++)
		if (path_is_within(name, glancing->away.items[i])) {
			copies_root_say_away(glancing->away.items[i],
					     &glancing->result->away);
			return true;
		}
	return false;
}

/* Rows of a kind come in the order of their names. */
static void enter_directory_of(struct glancing *glancing, const char *id)
{
	const struct glance_request *request = glancing->request;
	const char *slash = strrchr(id, '/');
	size_t len = slash ? (size_t)(slash - id) : 0;

	if (!request->enters ||
	    (glancing->directory && strlen(glancing->directory) == len &&
	     strncmp(glancing->directory, id, len) == 0))
		return;
	free(glancing->directory);
	glancing->directory = xstrndup(id, len);
	glancing->passes = !request->enters(request->arg, glancing->directory);
}

static void clear_moves(struct glancing *glancing)
{
	vec_clear_owned(&glancing->reasons);
	vec_clear(&glancing->moves);
}

/* What is not there, because its file system is not, is not doubted. */
static int glance_check_root(const struct glance_request *request, struct err *err)
{
	return copies_root_check(request->store, request->kind->type, request->kind->path,
				 err);
}

static int doubt_page(struct glancing *glancing, struct err *err)
{
	size_t count = glancing->moves.count;

	if (count == 0)
		return 0;
	AUTO_FREE enum registry_result *results = xcalloc(count, sizeof(*results));
	if (glance_check_root(glancing->request, err) != 0)
		return -1;
	return registry_move_many(glancing->request->store, glancing->moves.items, count,
				  results, err);
}

static int glance_page(struct glancing *glancing, const registry_rows *rows,
		       struct err *err)
{
	glance_find_away(glancing);
	for (size_t i = 0; i < rows->count; i++) {
		const struct registry_row *row = &rows->items[i];
		if (glance_is_away(glancing, row->name))
			continue;
		enter_directory_of(glancing, row->name);
		if (row->state == REGISTRY_SYNCED && !row->is_gone &&
		    row->generation > 0 && !glancing->passes)
			glance_inspect_row(glancing, row);
	}
	int result = doubt_page(glancing, err);
	clear_moves(glancing);
	return result;
}

static int glance_pause(const struct glance_request *request, struct err *err)
{
	if (request->paged)
		request->paged(request->arg);
	if (request->stop && stop_wait(request->stop, request->rest_ms))
		return err_set(err, ERR_CANCELED, "stopped");
	return 0;
}

/* Without those that are not below `prefix`, which are the last. */
static void cut_rows(registry_rows *rows, const char *prefix)
{
	while (rows->count > 0 &&
	       !text_starts_with(rows->items[rows->count - 1].name, prefix))
		registry_row_clear(&rows->items[--rows->count]);
}

static int glance_pages(struct glancing *glancing, struct err *err)
{
	const struct glance_request *request = glancing->request;
	AUTO_FREE char *prefix =
		request->below ? xasprintf("%s/", request->below) : xstrdup("");
	AUTO_FREE char *after = *prefix ? xstrdup(prefix) : NULL;
	size_t limit = *prefix ? PAGE_SMALL : PAGE, count;

	do {
		AUTO_REGISTRY_ROWS registry_rows rows = { 0 };
		const struct registry_filter filter = {
			.kind = request->kind->type,
			.after = after,
			.limit = limit,
			.state = request->enters ? REGISTRY_ANY : REGISTRY_SYNCED
		};
		if (registry_list(request->store, &filter, &rows, err) != 0)
			return -1;
		cut_rows(&rows, prefix);
		if (glance_page(glancing, &rows, err) != 0)
			return -1;
		count = rows.count;
		if (count < limit)
			return 0;
		free(TAKE(after));
		after = xstrdup(rows.items[count - 1].name);
		limit = PAGE;
	} while (glance_pause(request, err) == 0);
	return -1;
}

static int glance_begin_work(struct glancing *glancing,
			     const struct glance_request *request,
			     struct glance_result *result, struct err *err)
{
	*result = (struct glance_result){ 0 };
	*glancing = (struct glancing){
		.request = request,
		.result = result,
		.look = { .kind = request->kind, .root = -1, .stop = request->stop },
	};
	if (glance_check_root(request, err) != 0 ||
	    copies_root_read_mounts(request->store, request->kind->type,
				    &glancing->mounts, err) != 0)
		return -1;
	glancing->look.root = dir_open(AT_FDCWD, request->kind->path, err);
	return glancing->look.root < 0 ? -1 : 0;
}

static void glance_end_work(struct glancing *glancing)
{
	free(glancing->directory);
	vec_clear(&glancing->away);
	json_decref(glancing->mounts);
	if (glancing->look.root >= 0)
		close(glancing->look.root);
}

int glance_all(const struct glance_request *request, struct glance_result *result,
	       struct err *err)
{
	struct glancing glancing;
	int done = glance_begin_work(&glancing, request, result, err);

	if (done == 0)
		done = glance_pages(&glancing, err);
	glance_end_work(&glancing);
	return done;
}

static int glance_read_rows(const struct glance_request *request, char *const *names,
			    size_t count, registry_rows *rows, struct err *err)
{
	for (size_t i = 0; i < count; i++) {
		struct registry_row row = { 0 };
		if (registry_get(request->store, request->kind->type, names[i], &row,
				 err) == 0)
			vec_add(rows, row);
		else if (err->class != ERR_MISSING)
			return -1;
	}
	return 0;
}

int glance_these(const struct glance_request *request, char *const *names, size_t count,
		 struct glance_result *result, struct err *err)
{
	struct glancing glancing;
	int done = glance_begin_work(&glancing, request, result, err);

	glancing.look.was_reported = true;
	for (size_t at = 0; done == 0 && at < count; at += PAGE) {
		AUTO_REGISTRY_ROWS registry_rows rows = { 0 };
		done = glance_read_rows(request, names + at,
					count - at < PAGE ? count - at : PAGE, &rows,
					err);
		if (done == 0)
			done = glance_page(&glancing, &rows, err);
	}
	glance_end_work(&glancing);
	return done;
}

void glance_report(const struct glance_request *request, struct glance_result *result,
		   int64_t took_ms)
{
	if (result->doubted > 0) {
		log_warn("copies.doubted", LOG_NUMBER("dur_ms", took_ms),
			 LOG_TEXT("kind", request->kind->type),
			 LOG_NUMBER("count", result->doubted),
			 LOG_TEXT("name", result->example), LOG_ERR(&result->why));
		pull_signal(request->pull);
	}
	free(TAKE(result->example));
}
