#include "cli/replicate_run.h"

#include "base/file.h"
#include "git/repo.h"

static int refuse_inside(const struct replicate_run *run, struct err *err)
{
	err_set(err, ERR_CONFIG, "SOURCE and DEST lie inside each other: %s, %s",
		run->source_root, run->options.dest);
	return err_remedy(err, "choose directories of which none is above the other");
}

/* Copies of copies would have no end. */
static int replicate_roots_check_apart(const struct replicate_run *run, struct err *err)
{
	if (path_is_below(run->source_root, run->dest_root) ||
	    path_is_below(run->dest_root, run->source_root))
		return refuse_inside(run, err);
	return 0;
}

static int replicate_roots_check_root(const char *path, struct err *err)
{
	AUTO_CLOSE int fd = dir_open(AT_FDCWD, path, err);

	if (fd < 0) {
		if (err->sys_errno == ENOTDIR)
			err_set(err, ERR_CONFIG, "%s is not a directory", path);
		return err->remedy[0] ? -1
				      : err_remedy(err, "name a directory of bare "
							"repositories");
	}
	if (repo_look_at(fd) == REPO_NOTHING)
		return 0;
	err_set(err, ERR_CONFIG, "%s is itself a repository", path);
	return err_remedy(err, "name the directory above it: all repositories below "
			       "SOURCE are copied to the same places below DEST");
}

static int replicate_roots_resolve_path(const char *path, char **absolute,
					struct err *err)
{
	*absolute = realpath(path, NULL);
	return *absolute ? 0 : err_errno(err, "cannot find %s", path);
}

/* DEST may not exist yet: nothing is made inside SOURCE before that is refused. */
static int check_before_making(struct replicate_run *run, struct err *err)
{
	AUTO_FREE char *path = xstrdup(run->options.dest);
	char *slash;
	int result = 0;

	while ((run->dest_root = realpath(path, NULL)) == NULL && errno == ENOENT &&
	       (slash = strrchr(path, '/')) != NULL && slash != path)
		*slash = '\0';
	if (!run->dest_root)
		run->dest_root = realpath(".", NULL);
	if (run->dest_root && path_is_below(run->dest_root, run->source_root))
		result = refuse_inside(run, err);
	free(TAKE(run->dest_root));
	return result;
}

/* "host:path" is another machine to rsync and scp; a directory of that name here is
 * hardly meant, unless it is there. */
static int check_local(const char *path, struct err *err)
{
	const char *colon = strchr(path, ':');

	if (!colon || text_starts_with(colon, "://") ||
	    memchr(path, '/', (size_t)(colon - path)) || access(path, F_OK) == 0)
		return 0;
	err_set(err, ERR_CONFIG, "%s looks like a place on another machine", path);
	return err_remedy(err,
			  "both must be directories on this machine; write ./%s if "
			  "that is one",
			  path);
}

/* A password there would end up in the output and in records of copies. */
static int take_url(struct replicate_run *run, struct err *err)
{
	const char *host = strstr(run->options.source, "://") + 3;

	if (memchr(host, '@', strcspn(host, "/"))) {
		err_set(err, ERR_CONFIG, "the URL has a user or a password in it");
		return err_remedy(err, "leave them out; --secret-file names the secret "
				       "that this site and the primary share");
	}
	run->source_root = xstrdup(run->options.source);
	return 0;
}

static int open_dest(struct replicate_run *run, struct err *err)
{
	const struct replicate_options *options = &run->options;

	if (dir_make(AT_FDCWD, options->dest, err) != 0 ||
	    replicate_roots_check_root(options->dest, err) != 0)
		return -1;
	return replicate_roots_resolve_path(options->dest, &run->dest_root, err);
}

int replicate_open_roots(struct replicate_run *run, struct err *err)
{
	const struct replicate_options *options = &run->options;

	if (check_local(options->source, err) != 0 ||
	    check_local(options->dest, err) != 0)
		return -1;
	if (replicate_is_url(options->source))
		return take_url(run, err) == 0 ? open_dest(run, err) : -1;
	if (strstr(options->source, "://")) {
		err_set(err, ERR_CONFIG,
			"SOURCE is neither a directory nor an http "
			"or https URL: %s",
			options->source);
		return err_remedy(err, "name a directory of bare repositories, or the "
				       "URL of a refrelay primary");
	}
	if (replicate_roots_check_root(options->source, err) != 0 ||
	    replicate_roots_resolve_path(options->source, &run->source_root, err) != 0 ||
	    check_before_making(run, err) != 0 || open_dest(run, err) != 0)
		return -1;
	return replicate_roots_check_apart(run, err);
}
