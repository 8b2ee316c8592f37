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
#include "git/repo.h"
#include "pull/copy_record.h"
#include "pull/pull_parts.h"
#include "replicable/name.h"
#include "upkeep/copies_root.h"

#define PAGE 200
#define REST_MS 5

static int differs(struct err *err)
{
	err_set(err, ERR_CORRUPT, "the copy's files are not as they were left");
	return err_remedy(err, "it is looked through and mended by itself; if this comes "
			       "back, see who else writes to the copies");
}

static int is_another(struct err *err)
{
	err_set(err, ERR_CORRUPT, "another copy stands in its place, or an older one");
	return err_remedy(err, "nothing: it is brought again, and what stands there goes "
			       "to the trash if it is another repository's");
}

int glance_repository(const char *root, const struct registry_row *row, struct err *err)
{
	AUTO_FREE char *below = name_to_path(row->name);
	AUTO_FREE char *path = xasprintf("%s/%s", root, below);
	AUTO_RECORD struct copy_record record = { 0 };
	AUTO_REPO struct repo copy = REPO_INIT;
	struct stat st;

	if (lstat(path, &st) != 0)
		return err_errno(err, "cannot look at the copy");
	if (!S_ISDIR(st.st_mode))
		return err_set(err, ERR_CORRUPT, "the copy is no directory");
	if (repo_open(AT_FDCWD, path, &copy, err) != 0)
		return err_prefix(err, "the copy");
	copy_record_read(copy.fd, &record);
	if (!record.is_there || copy_record_is_touched(&record, copy.fd))
		return differs(err);
	return copy_record_is_of_row(&record, row) ? 0 : is_another(err);
}

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

void glance_blob_of(const struct registry_row *row, struct glance_blob *known)
{
	known->size = row->size;
	known->known_at = later(row->verified_at, row->last_success_at);
}

/* A file server's times are not of the clock here. */
static bool was_written_since(const struct glance_blob *known, int fd,
			      const struct stat *stat)
{
	int64_t written_at = (int64_t)stat->st_mtim.tv_sec * 1000 +
			     (int64_t)stat->st_mtim.tv_nsec / 1000000;

	return known->known_at > 0 && written_at > known->known_at &&
	       file_system_is_local(fd);
}

int glance_blob(const struct glance_blob *known, int fd, const struct stat *stat,
		struct err *err)
{
	if ((known->size > 0 && (uint64_t)stat->st_size != known->size) ||
	    was_written_since(known, fd, stat))
		return differs(err);
	return 0;
}

static int open_and_glance(int root, const struct registry_row *row, struct err *err)
{
	struct glance_blob known;
	AUTO_CLOSE int fd = -1;
	struct stat st;

	glance_blob_of(row, &known);
	if (blob_open(root, row->name, &fd, &st, err) != 0)
		return -1;
	return glance_blob(&known, fd, &st, err);
}

struct glancing {
	const struct glance_request *request;
	struct glance_result *result;
	int root; /* of the blobs */
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

static void look_at(struct glancing *glancing, const struct registry_row *row)
{
	const struct glance_request *request = glancing->request;
	struct glance_result *result = glancing->result;
	struct err why;

	result->looked++;
	if ((request->kind ? open_and_glance(glancing->root, row, &why)
			   : glance_repository(request->root, row, &why)) == 0 ||
	    !is_still(request, row))
		return;
	if (result->doubted++ == 0) {
		result->example = xstrdup(row->name);
		result->why = why;
	}
	struct err *kept = xmalloc(sizeof(*kept));
	*kept = why;
	vec_add(&glancing->reasons, kept);
	vec_add(&glancing->moves, ((struct registry_move){ .id = row->id,
							   .event = REGISTRY_DOUBTED,
							   .generation = row->generation,
							   .err = kept }));
}

static void clear_moves(struct glancing *glancing)
{
	for (size_t i = 0; i < glancing->reasons.count; i++)
		free(glancing->reasons.items[i]);
	vec_clear(&glancing->reasons);
	vec_clear(&glancing->moves);
}

/* What is not there, because its file system is not, is not doubted. */
static int check_root(const struct glance_request *request, struct err *err)
{
	return request->kind ? copies_root_check_blobs(request->store, request->kind, err)
			     : copies_root_check(request->store, request->root, err);
}

static int doubt_page(struct glancing *glancing, struct err *err)
{
	size_t count = glancing->moves.count;

	if (count == 0)
		return 0;
	AUTO_FREE enum registry_result *results = xcalloc(count, sizeof(*results));
	if (check_root(glancing->request, err) != 0)
		return -1;
	return registry_move_many(glancing->request->store, glancing->moves.items, count,
				  results, err);
}

static int glance_page(struct glancing *glancing, const registry_rows *rows,
		       struct err *err)
{
	for (size_t i = 0; i < rows->count; i++)
		if (!rows->items[i].is_gone && rows->items[i].generation > 0)
			look_at(glancing, &rows->items[i]);
	int result = doubt_page(glancing, err);
	clear_moves(glancing);
	return result;
}

static int glance_pages(struct glancing *glancing, struct err *err)
{
	const struct glance_request *request = glancing->request;
	AUTO_FREE char *after = NULL;
	size_t count = PAGE;

	while (count == PAGE) {
		AUTO_REGISTRY_ROWS registry_rows rows = { 0 };
		const struct registry_filter filter = {
			.kind = request->kind ? request->kind->type : KIND_REPOSITORY,
			.after = after,
			.limit = PAGE,
			.state = REGISTRY_SYNCED
		};
		if (registry_list(request->store, &filter, &rows, err) != 0 ||
		    glance_page(glancing, &rows, err) != 0)
			return -1;
		count = rows.count;
		free(TAKE(after));
		if (count > 0)
			after = xstrdup(rows.items[count - 1].name);
		if (request->stop && stop_wait(request->stop, request->rest_ms))
			return err_set(err, ERR_CANCELED, "stopped");
	}
	return 0;
}

int glance_all(const struct glance_request *request, struct glance_result *result,
	       struct err *err)
{
	struct glancing glancing = { .request = request, .result = result, .root = -1 };
	int done = check_root(request, err);

	*result = (struct glance_result){ 0 };
	if (done == 0 && request->kind) {
		glancing.root = blob_root_open(request->kind, err);
		done = glancing.root < 0 ? -1 : 0;
	}
	if (done == 0)
		done = glance_pages(&glancing, err);
	if (glancing.root >= 0)
		close(glancing.root);
	return done;
}

static void glance(struct pull *pull, const struct blob_kind *kind)
{
	const struct glance_request request = { .store = pull->options.store,
						.root = pull->options.root,
						.kind = kind,
						.stop = &pull->stop,
						.rest_ms = REST_MS };
	struct glance_result result = { 0 };
	int64_t started = clock_boot_ms();
	struct err err;

	if (glance_all(&request, &result, &err) != 0 && err.class != ERR_CANCELED)
		log_warn("copies.not_looked_at", LOG_ERR(&err));
	if (result.doubted > 0) {
		log_warn("copies.doubted",
			 LOG_NUMBER("dur_ms", clock_boot_ms() - started),
			 LOG_TEXT("kind", kind ? kind->type : KIND_REPOSITORY),
			 LOG_NUMBER("count", result.doubted),
			 LOG_TEXT("name", result.example), LOG_ERR(&result.why));
		pull_signal(pull);
	}
	free(result.example);
}

/* Once: what happens while the node runs is seen by others. */
void *glance_run(void *arg)
{
	struct pull *pull = arg;
	const struct blob_kinds *kinds = pull->options.kinds;

	glance(pull, NULL);
	for (size_t i = 0; kinds && i < kinds->items.count; i++)
		if (!stop_is_requested(&pull->stop))
			glance(pull, &kinds->items.items[i]);
	return NULL;
}
