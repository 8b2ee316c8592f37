/*
 * For tests of a whole pull, whose primary is a fake one: its database and leases below
 * root.
 */
#ifndef PULL_TEST_H
#define PULL_TEST_H

#include "fake_primary.h"

#include "pull/pull.h"

static struct store *store;
static struct lease_manager *leases;
static struct pull *pull;
static struct kinds_here here;
static char copies[96];

static int pull_set_up(void **state)
{
	if (test_make_root(state) != 0)
		return -1;
	AUTO_FREE char *url = xasprintf("sqlite:%s/db", root);
	AUTO_FREE char *directory = xasprintf("%s/leases", root);
	const struct lease_options options = { .directory = directory };

	fake_init();
	snprintf(copies, sizeof(copies), "%s/copies", root);
	assert_ok(git_setup(root, &err));
	assert_ok(store_open(url, &store, &err));
	assert_ok(lease_manager_open_local(store, &options, &leases, &err));
	return 0;
}

/* Of the kinds that are here. */
static void pull_begin(int64_t consistency_interval_ms)
{
	const struct pull_options options = {
		.store = store,
		.leases = leases,
		.primary = &fake,
		.here = &here,
		.settings = { .repository_capacity = 4,
			      .verification_capacity = 2,
			      .consistency_interval_ms = consistency_interval_ms,
			      .timeout_ms = 60000,
			      .reverify_ms = 3600000,
			      .delete_brake = 0.05 },
	};

	assert_ok(pull_start(&options, &pull, &err));
}

static int pull_tear_down(void **state)
{
	fake.refs_hang = false;
	if (pull)
		pull_stop(TAKE(pull), 0);
	lease_manager_close(leases);
	store_close(store);
	kinds_clear(&here);
	fake_clear();
	return test_remove_root(state);
}

#endif
