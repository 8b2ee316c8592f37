/*
 * Repositories in a form that this version cannot read: nothing else is stopped by them,
 * so who does not look for them may not know that they are left out.
 */
#include "base/file.h"
#include "cli/check.h"
#include "git/repo.h"
#include "replicable/discover.h"

struct unsupported {
	size_t count;
	const struct discovered *example;
	struct err why; /* of the example */
};

static void check_formats_inspect_repository(int root, const struct discovered *one,
					     struct unsupported *found)
{
	AUTO_REPO struct repo repo = REPO_INIT;
	struct err err;

	if (repo_open(root, one->path, &repo, &err) == 0 || err.reason != REASON_FORMAT ||
	    found->count++ > 0)
		return;
	found->example = one;
	found->why = err;
}

static void check_formats_report_unsupported(struct checking *checking,
					     const struct unsupported *found)
{
	struct err err = found->why;

	err_set(&err, ERR_CONFIG, "%zu %s a format that is not supported, e.g. %s: %s",
		found->count, found->count == 1 ? "repository has" : "repositories have",
		found->example->name, found->why.text);
	err_remedy(&err, "%s", found->why.remedy);
	check_tell(checking, CHECK_WRONG, "formats", &err);
}

void check_formats(struct checking *checking)
{
	AUTO_DISCOVERY struct discovery discovery = { 0 };
	struct unsupported found = { 0 };
	AUTO_CLOSE int root =
		dir_open(AT_FDCWD, checking->site.repositories, ERR_IGNORED);

	if (root < 0 ||
	    discover(checking->site.repositories, &discovery, ERR_IGNORED) != 0)
		return; /* as check_repositories() says */
	for (size_t i = 0; i < discovery.found.count; i++)
		check_formats_inspect_repository(root, &discovery.found.items[i], &found);
	if (found.count > 0)
		check_formats_report_unsupported(checking, &found);
	else
		check_tell_good(checking, "formats",
				"all repositories have a format that is supported");
}
