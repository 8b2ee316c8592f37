/*
 * What the tests of the sync of one repository share: a copy, and what it is a copy of.
 */
#ifndef UNIT_SYNC_TEST_H
#define UNIT_SYNC_TEST_H

#include "git_test.h"

#include "base/failpoint.h"
#include "job/job.h"
#include "pull/hold.h"
#include "pull/sync_repository.h"
#include "replicable/name.h"
#include "store/store.h"

/* A copy at root/here/a.git of root/there/a.git, which has main and a tag. */
static struct store *store;
static struct lease_manager *leases;
static struct discovery there;
static struct source *source;
static char *here;
static struct sync_result result;

/* Done where a failpoint is passed; once. */
static const char *passed, *then __attribute__((unused));

void failpoint(const char *name)
{
	if (passed && strcmp(name, passed) == 0) {
		passed = NULL;
		must("%s", then);
	}
}

static inline int set_up(void **state)
{
	AUTO_FREE char *url = NULL, *directory = NULL, *path = NULL;

	if (test_make_root(state) != 0)
		return -1;
	must("mkdir there here && git clone -q --bare %s there/a.git", store_path);
	url = xasprintf("sqlite:%s/db", root);
	directory = xasprintf("%s/leases", root);
	path = xasprintf("%s/there", root);
	here = xasprintf("%s/here", root);
	assert_ok(git_setup(root, &err));
	assert_ok(store_open(url, &store, &err));
	assert_ok(lease_manager_open_local(
		store, &(struct lease_options){ .directory = directory }, &leases, &err));
	assert_ok(discover(path, &there, &err));
	source = source_new_directory(path, &there);
	*state = TAKE(path); /* the source borrows it */
	return 0;
}

static inline int tear_down(void **state)
{
	passed = NULL;
	source_free(source);
	free(*state);
	discovery_clear(&there);
	lease_manager_close(leases);
	store_close(store);
	free(here);
	return test_remove_root(state);
}

static inline int work(struct job *job, void *arg, struct err *e)
{
	return sync_repository(job, arg, &result, e);
}

static inline int sync_by(struct sync_request request)
{
	request.source = source;
	request.root = here;
	request.name = "a";
	if (request.delete_share == 0)
		request.delete_share = HOLD_SHARE;
	return job_run(&(struct job_request){ .leases = leases,
					      .kind = KIND_REPOSITORY,
					      .name = "a",
					      .operation = "sync",
					      .fence_floor = job_fence_floor(here, "a"),
					      .run = work,
					      .arg = &request },
		       &err);
}

/* As a secondary's node does, which alone writes the copies. */
static inline int mend(void)
{
	return sync_by((struct sync_request){ .mends = true, .may_rebuild = true });
}

static inline void assert_equal_and_whole(void)
{
	must("git -C there/a.git for-each-ref >.there && "
	     "git -C here/a.git for-each-ref >.here && cmp -s .there .here");
	must("git -C here/a.git fsck --connectivity-only >/dev/null 2>&1");
}

static inline size_t count_trash(void)
{
	AUTO_FREE char *text = output_of(
		"ls here/.refrelay/trash 2>/dev/null | grep -c 'a.git$' || true");

	return strtoul(text, NULL, 10);
}

#define SYNC_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
