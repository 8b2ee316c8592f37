/*
 * The server tells which of the wanted's commits are cut at that depth, and which of the
 * cuts that it was told of are none any more. Git keeps those of which it hears nothing,
 * since refs may still need them. Here all refs are wanted, so only what they reach
 * counts: with a commit that is cut off, its own cut is of no more use.
 *
 * The haves are told with the cuts that they have: the server then knows what is not
 * behind them.
 */
#include "git/cut_fetch.h"

#include "base/failpoint.h"
#include "base/file.h"
#include "git/cuts.h"
#include "git/objects.h"

#define LIMIT ((size_t)1 << 30)

static int cut_fetch_make_scratch(const struct cut_fetch *fetch, int dir, struct err *err)
{
	AUTO_STR struct str refs = STR_INIT;
	AUTO_STR struct str cuts = STR_INIT;

	if (!fetch->have)
		return 0;
	ref_write_packed(fetch->have, &refs);
	cuts_format(&fetch->have->cuts, &cuts);
	if (file_replace(dir, "packed-refs", refs.data, refs.len, FILE_NO_SYNC, err) != 0)
		return -1;
	return cuts.len == 0 ? 0
			     : file_replace(dir, CUTS_FILE, cuts.data, cuts.len,
					    FILE_NO_SYNC, err);
}

static int cut_fetch_run(const struct cut_fetch *fetch, const char *path, struct err *err)
{
	AUTO_FREE char *objects = xasprintf("%s/objects", fetch->repo->path);
	AUTO_FREE char *depth = xasprintf("--depth=%u", fetch->depth);
	const char *const args[] = { "fetch",
				     "--quiet",
				     "--no-auto-maintenance",
				     "--no-write-fetch-head",
				     "--no-write-commit-graph",
				     "--no-tags",
				     "--no-recurse-submodules",
				     "--refmap=",
				     depth,
				     "--stdin",
				     "--",
				     fetch->from->url,
				     NULL };
	AUTO_STR struct str input = STR_INIT;

	cuts_format(fetch->wanted, &input);
	return git_run(&(struct git_call){ .work = fetch->work,
					   .repository = path,
					   .args = args,
					   .input = &input,
					   .remote = fetch->from,
					   .object_directory = objects },
		       err);
}

/* Those that the wanted reach. */
static int cut_fetch_choose(const struct cut_fetch *fetch, const oid_list *all,
			    oid_list *cuts, struct err *err)
{
	AUTO_FREE char *file = xasprintf("%s/" CUTS_FILE, fetch->scratch);
	struct repo repo = *fetch->repo;
	oid_list roots = { 0 };
	int result;

	repo.shallow_file = file;
	result = objects_list_roots(fetch->work, &repo, fetch->wanted, &roots, err);
	for (size_t i = 0; result == 0 && i < all->count; i++)
		if (oid_list_has(&roots, &all->items[i]))
			vec_add(cuts, all->items[i]);
	vec_clear(&roots);
	return result;
}

static int cut_fetch_take_cuts(const struct cut_fetch *fetch, int dir, oid_list *cuts,
			       struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	oid_list all = { 0 };
	int result;

	if (file_read(dir, CUTS_FILE, LIMIT, &text, err) != 0)
		return err->class == ERR_MISSING ? 0 : -1;
	result = cuts_parse(text.data, fetch->repo->oid_len, &all, err);
	if (result == 0 && all.count > 0)
		result = cut_fetch_choose(fetch, &all, cuts, err);
	vec_clear(&all);
	return result;
}

int cut_fetch(const struct cut_fetch *fetch, oid_list *cuts, struct err *err)
{
	AUTO_FREE char *path = xasprintf("%s/%s", fetch->repo->path, fetch->scratch);

	if (repo_make(AT_FDCWD, path, fetch->repo->oid_len, err) != 0)
		return -1;
	AUTO_CLOSE int dir = dir_open(AT_FDCWD, path, err);
	if (dir < 0 || cut_fetch_make_scratch(fetch, dir, err) != 0 ||
	    cut_fetch_run(fetch, path, err) != 0)
		return -1;
	failpoint("objects.fetched");
	if (dir_sync(fetch->repo->fd, "objects/pack", err) != 0)
		return -1;
	return cut_fetch_take_cuts(fetch, dir, cuts, err);
}
