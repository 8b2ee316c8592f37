/*
 * Many may borrow from one place, which may take hours to read. The first of them reads
 * it, and the others come back for the result. That is kept as long as it took to find
 * it, so that a place that is damaged is not read all the time; one that is too large is
 * left alone for longer.
 */
#include "base/clock.h"
#include "base/file.h"
#include "git/git_reach.h"
#include "replicable/name.h"
#include "verify/verify_objects.h"
#include "verify/verify_origin_parts.h"

#define KEPT_LEAST_MS ((int64_t)10 * 60 * 1000)

struct place {
	bool is_being_read;
	int64_t whole_at;    /* boot ms: when the reading began that found it so; 0 */
	int64_t kept_until;  /* boot ms: the result of the last reading */
	int64_t limit_ms;    /* ... and sync.timeout then */
	struct err *failure; /* ... owned; NULL: whole */
};

void verify_places_clear(struct verify_origin *verify)
{
	const struct map_entry *entry;
	size_t at = 0;

	while ((entry = map_next(&verify->places, &at)) != NULL)
		free(((struct place *)entry->value)->failure);
	map_clear_owned(&verify->places);
}

static bool is_known_to_fail(const struct place *place, int64_t limit_ms)
{
	return clock_boot_ms() < place->kept_until && place->failure &&
	       (place->failure->class != ERR_TIMEOUT || limit_ms <= place->limit_ms);
}

static struct place *verify_places_get_locked(struct verify_origin *verify,
					      const char *path)
{
	struct place *place = map_get(&verify->places, path);

	if (!place) {
		place = xcalloc(1, sizeof(*place));
		map_put(&verify->places, path, place);
	}
	return place;
}

/* Where something may be wrong since it is read anew. */
static bool counts_as_whole(const struct place *place, const struct origin_row *row,
			    int64_t reverify_ms)
{
	int64_t now = clock_boot_ms();

	if (row->verification == VERIFICATION_SUCCEEDED)
		return place->whole_at > 0 && now - place->whole_at < reverify_ms / 2;
	return (row->verification == VERIFICATION_FAILED || row->verified_at == 0) &&
	       now < place->kept_until;
}

struct borrowing {
	const struct verify_batch *batch;
	const struct origin_row *row;
	const struct repo *repo;
	struct err *unjudged;
};

/* 1: it is whole; 0: it is to be read, by the caller. */
static int take_place(const struct borrowing *borrowing, const char *path,
		      struct err *err)
{
	struct verify_origin *verify = borrowing->batch->verify;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);
	struct place *place = verify_places_get_locked(verify, path);

	if (place->is_being_read)
		return err_set(err, ERR_BUSY, "%s, from which it borrows, is being read",
			       path);
	if (is_known_to_fail(place, verify->options.timeout_ms)) {
		*err = *place->failure;
		return -1;
	}
	if (!place->failure &&
	    counts_as_whole(place, borrowing->row, verify->options.reverify_ms))
		return 1;
	place->is_being_read = true;
	place->limit_ms = verify->options.timeout_ms;
	return 0;
}

/* What ended the reading from outside says nothing. */
static void end_reading(struct verify_origin *verify, const char *path, int64_t begun_at,
			const struct err *failure)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);
	struct place *place = verify_places_get_locked(verify, path);
	int64_t now = clock_boot_ms(), took = now - begun_at;

	place->is_being_read = false;
	if (failure && !err_is_of_data(failure) && failure->class != ERR_TIMEOUT)
		return;
	free(TAKE(place->failure));
	if (failure) {
		place->failure = xmalloc(sizeof(*failure));
		*place->failure = *failure;
	}
	place->whole_at = failure ? 0 : begun_at;
	if (failure && failure->class == ERR_TIMEOUT)
		took = VERIFY_OVERRUN_FACTOR * verify->options.timeout_ms;
	place->kept_until = now + int64_max(took, KEPT_LEAST_MS);
}

static int read_place(const struct borrowing *borrowing, const char *path,
		      struct err *err)
{
	int64_t begun_at = clock_boot_ms();
	const struct git_work work = {
		.stop = borrowing->batch->stop,
		.guard_fd = -1,
		.until = begun_at + verify_origin_timeout_ms(borrowing->batch->verify)
	};
	int result = verify_borrowed(&work, borrowing->repo, path, err);

	end_reading(borrowing->batch->verify, path, begun_at, result == 0 ? NULL : err);
	return result;
}

/* That a place is too large to be read in time is no fault of who borrows from it. */
static int check_place(const struct borrowing *borrowing, const char *path,
		       struct err *err)
{
	int is_whole = take_place(borrowing, path, err);

	if (is_whole > 0 || (is_whole == 0 && read_place(borrowing, path, err) == 0))
		return 0;
	if (err->class != ERR_TIMEOUT)
		return -1;
	*borrowing->unjudged = *err;
	return 0;
}

/* Git reads them, too, but not for us. */
static void tell_unknown(struct err *unjudged)
{
	err_set(unjudged, ERR_CONFIG,
		"objects/info/alternates has a name in quotes, or too many: what it "
		"borrows there is not verified");
	err_remedy(unjudged, "write fewer names into objects/info/alternates, and none "
			     "in quotes");
}

static char *verify_places_resolve(const struct repo *repo, const char *alternate)
{
	const char *before = alternate[0] == '/' ? "" : repo->path;
	AUTO_FREE char *path = xasprintf("%s/%s", before, alternate);

	return path_resolve(path);
}

/* 1: of a repository that is verified by itself. What else is below the root, as the
 * objects of a work tree, nobody else reads. */
static int has_owner(const struct borrowing *borrowing, const char *root,
		     const char *path, struct err *err)
{
	AUTO_FREE char *name = name_of_objects(root, path);
	AUTO_ORIGIN_ROW struct origin_row row = { 0 };

	if (!name)
		return 0;
	int found = origin_row_read(borrowing->batch->verify->options.store,
				    KIND_REPOSITORY, name, &row, err);
	if (found == 0)
		return 0;
	if (found > 0) {
		AUTO_FREE char *objects = xasprintf("%s/%s/objects", root, row.path);
		return strcmp(objects, path) == 0;
	}
	if (err->class != ERR_CANCELED) /* it says nothing of the repository */
		err->class = ERR_BUSY;
	return -1;
}

static int check_named(const struct borrowing *borrowing, const char *root,
		       const char *path, struct err *err)
{
	int is_owned = has_owner(borrowing, root, path, err);

	return is_owned == 0 ? check_place(borrowing, path, err) : is_owned < 0 ? -1 : 0;
}

static int verify_places_check(const struct borrowing *borrowing, struct err *err)
{
	AUTO_FREE char *root = path_resolve(borrowing->batch->kind->of.path);
	git_reach_paths places = { 0 };
	int result = 0;

	git_reach_list_alternates(borrowing->repo->fd, &places);
	for (size_t i = 0; i < places.count && result == 0; i++) {
		AUTO_FREE char *path =
			verify_places_resolve(borrowing->repo, places.items[i]);
		if (strcmp(places.items[i], "/") == 0)
			tell_unknown(borrowing->unjudged);
		else
			result = check_named(borrowing, root, path, err);
	}
	vec_clear_owned(&places);
	return result;
}

int verify_places_read(const struct verify_batch *batch, const struct origin_row *row,
		       const struct repo *repo, struct err *unjudged, struct err *err)
{
	*unjudged = (struct err){ 0 };
	return verify_places_check(
		&(struct borrowing){
			.batch = batch, .row = row, .repo = repo, .unjudged = unjudged },
		err);
}
