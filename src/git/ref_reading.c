#include "git/ref_reading.h"

#include "base/file.h"
#include "git/read_settings.h"
#include "git/repo.h"

#define TRIES 10
#define DESCRIPTION_LIMIT ((size_t)1 << 20)

static int check_not_shallow(const struct repo *repo, struct err *err)
{
	if (repo->is_shallow) {
		err_set(err, ERR_CONFIG,
			"the repository is shallow: its history is cut "
			"short, so it cannot be copied whole");
		return err_remedy(err, "complete it with git fetch --unshallow, or move "
				       "it out of the tree");
	}
	return 0;
}

static int check_not_partial(const struct repo *repo, struct err *err)
{
	if (repo->is_partial) {
		err_set(err, ERR_CONFIG,
			"the repository is a partial clone: it lacks "
			"objects on purpose, so it cannot be copied "
			"whole");
		return err_remedy(
			err, "complete it with git fetch --refetch --no-filter "
			     "and unset its promisor remote, or move it out of the tree");
	}
	return 0;
}

/* What is no plain file of a sane size is no description. */
static int ref_reading_read_description(const struct repo *repo,
					struct ref_reading *reading, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;

	free(TAKE(reading->description));
	if (file_read(repo->fd, "description", DESCRIPTION_LIMIT, &text, err) != 0)
		return err->class == ERR_DISK ? -1 : 0;
	reading->description = str_take(&text);
	return 0;
}

static int ref_reading_read_settings(const struct repo *repo, struct ref_reading *reading,
				     struct err *err)
{
	AUTO_STR struct str text = STR_INIT;

	free(TAKE(reading->settings));
	if (read_settings_take(repo, &text, err) != 0)
		return -1;
	reading->settings = str_take(&text);
	return 0;
}

/* 1: it changed while it was read. */
static int read_once(const struct repo *repo, struct ref_reading *reading,
		     struct err *err)
{
	struct fingerprint after;
	int result;

	ref_snapshot_clear(&reading->refs);
	if (fingerprint_take(repo->fd, FINGERPRINT_REFS, &reading->print, err) != 0)
		return -1;
	result = ref_snapshot_read(repo->fd, repo->oid_len, &reading->refs, err);
	if (result == 0)
		result = ref_reading_read_description(repo, reading, err);
	if (result == 0)
		result = ref_reading_read_settings(repo, reading, err);
	struct err ignored;
	if (fingerprint_take(repo->fd, FINGERPRINT_REFS, &after, &ignored) == 0 &&
	    !fingerprint_equal(&reading->print, &after))
		return 1; /* an error may come of that, too */
	return result;
}

static int read_quietly(const struct repo *repo, struct ref_reading *reading,
			struct err *err)
{
	int result = 1;

	for (int tries = 0; tries < TRIES && result > 0; tries++) {
		if (tries > 0)
			usleep(1000U << tries);
		result = read_once(repo, reading, err);
	}
	if (result > 0) {
		err_set(err, ERR_CONFLICT, "it changes faster than it can be read");
		return err_remedy(err, "tried again by itself");
	}
	return result;
}

static int read_repo(const struct repo *repo, struct ref_reading *reading,
		     struct err *err)
{
	reading->oid_len = repo->oid_len;
	reading->has_alternates = repo->has_alternates;
	reading->has_includes = repo->has_includes;
	if (read_quietly(repo, reading, err) == 0)
		return 0;
	ref_reading_clear(reading);
	return -1;
}

int ref_reading_take(int dir, const char *path, struct ref_reading *reading,
		     struct err *err)
{
	AUTO_REPO struct repo repo = REPO_INIT;

	*reading = (struct ref_reading){ 0 };
	if (repo_open(dir, path, &repo, err) != 0 || check_not_shallow(&repo, err) != 0 ||
	    check_not_partial(&repo, err) != 0 || repo_check_files(&repo, err) != 0)
		return -1;
	return read_repo(&repo, reading, err);
}

int ref_reading_take_refs(int dir, const char *path, struct ref_reading *reading,
			  struct err *err)
{
	AUTO_REPO struct repo repo = REPO_INIT;

	*reading = (struct ref_reading){ 0 };
	if (repo_open(dir, path, &repo, err) != 0 || check_not_partial(&repo, err) != 0)
		return -1;
	return read_repo(&repo, reading, err);
}

void ref_reading_clear(struct ref_reading *reading)
{
	ref_snapshot_clear(&reading->refs);
	free(reading->description);
	free(reading->settings);
	*reading = (struct ref_reading){ 0 };
}
