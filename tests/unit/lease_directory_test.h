/*
 * What the tests of leases in a directory share: managers, which are to each other as
 * processes are, and the directory as others would find it. Time is not waited for where
 * it can be set back.
 */
#ifndef UNIT_LEASE_DIRECTORY_TEST_H
#define UNIT_LEASE_DIRECTORY_TEST_H

#include "test_lease.h"

#include "lease/directory.h"
#include "lease/directory_key.h"

/* ------------------------------------------------------------------ what is on disk */

static inline char *key_path(void)
{
	char name[KEY_NAME_SIZE];

	key_name(KEY, name);
	return xasprintf("%s/leases/%s", root, name);
}

/* The latest generation, opened. */
static inline int open_latest(uint64_t *number)
{
	AUTO_FREE char *path = key_path();
	AUTO_CLOSE int key_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	key_entries entries = { 0 };

	assert_ok(key_list(key_fd, &entries, number));
	vec_clear(&entries);
	return key_open_generation(key_fd, *number);
}

static inline size_t count_entries(void)
{
	AUTO_FREE char *path = key_path();
	AUTO_CLOSE int key_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	key_entries entries = { 0 };
	uint64_t latest;

	assert_ok(key_list(key_fd, &entries, &latest));
	size_t count = entries.count;
	vec_clear(&entries);
	return count;
}

static inline int count_tickets(void)
{
	AUTO_FREE char *path = key_path();
	AUTO_CLOSE int key_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	key_entries entries = { 0 };
	uint64_t latest;
	int count = 0;

	assert_ok(key_list(key_fd, &entries, &latest));
	for (size_t i = 0; i < entries.count; i++)
		count += key_is_ticket(entries.items[i].name);
	vec_clear(&entries);
	return count;
}

/* Makes the last heartbeat so much older. */
static inline void set_back(int64_t ms)
{
	uint64_t number;
	struct stat st;
	AUTO_CLOSE int fd = open_latest(&number);

	assert_int_equal(fstat(fd, &st), 0);
	struct timespec times[2] = { st.st_atim, st.st_mtim };
	times[1].tv_sec -= ms / 1000;
	assert_int_equal(futimens(fd, times), 0);
}

/* Puts another boot's id into the owner of the latest generation. */
static inline void change_boot(void)
{
	uint64_t number;
	struct owner owner;
	AUTO_CLOSE int fd = open_latest(&number);

	assert_int_equal(owner_read(fd, &owner), 0);
	snprintf(owner.holder.boot_id, sizeof(owner.holder.boot_id), "another");
	assert_int_equal(unlinkat(fd, "owner", 0), 0);
	assert_int_equal(owner_write(fd, &owner), 0);
}

/* ------------------------------------------------------------------ managers */

static inline struct lease_manager *open_shared(int64_t ttl_ms)
{
	AUTO_FREE char *path = xasprintf("%s/leases", root);
	const struct lease_options options = { .directory = path,
					       .node = "here",
					       .ttl_ms = ttl_ms };
	struct lease_manager *manager;

	assert_ok(lease_manager_open_directory(&options, &manager, &err));
	return manager;
}

static inline int open_two(int64_t ttl)
{
	log_set_level(LOG_LEVEL_NONE);
	ann = open_shared(ttl);
	bob = open_shared(ttl);
	return 0;
}

static inline int setup_shared(void **state, int64_t ttl)
{
	return test_make_root(state) == 0 ? open_two(ttl) : -1;
}

/* Where other tests, which sync their files, do not hold us up. */
static inline int setup_in_memory(void **state)
{
	if (access("/dev/shm", W_OK) != 0)
		return setup_shared(state, TTL);
	snprintf(root, sizeof(root), "/dev/shm/refrelay-test.XXXXXX");
	if (!mkdtemp(root))
		return -1;
	root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return root_fd < 0 ? -1 : open_two(TTL);
}

static inline int setup(void **state)
{
	return setup_shared(state, TTL);
}

/* Of ann, whose lease is to be lost. */
static inline int setup_short(void **state)
{
	int result = setup(state);

	lease_manager_close(ann);
	ann = open_shared(SHORT_TTL);
	return result;
}

static inline int teardown(void **state)
{
	lease_manager_close(ann);
	lease_manager_close(bob);
	return test_remove_root(state);
}

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define CASE_IN_MEMORY(name)                                                             \
	cmocka_unit_test_setup_teardown(name, setup_in_memory, teardown)
#define CASE_SHORT(name) cmocka_unit_test_setup_teardown(name, setup_short, teardown)

static inline struct lease_holder inspect(void)
{
	struct lease_holder holder;

	assert_ok(lease_inspect(bob, KEY, &holder, &err));
	return holder;
}

/* Takes it, says after what, and gives it back; returns the fence. */
static inline uint64_t pass(struct lease_manager *manager,
			    enum lease_predecessor expected)
{
	struct lease *lease = must_acquire(manager, 0);
	uint64_t fence = lease_fence(lease);

	assert_int_equal(lease_predecessor(lease), expected);
	lease_release(lease);
	return fence;
}

#endif
