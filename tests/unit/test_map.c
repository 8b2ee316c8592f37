/*
 * Random operations on the map and on a plain array must agree. Few keys, a small table
 * and many removals make chains that wrap around its end.
 */
#include "test.h"

#include <sys/wait.h>

#include "base/map.h"

enum { KEYS = 60, ROUNDS = 60000 };

static char names[KEYS][16];
static int things[KEYS]; /* values are their addresses */
static void *model[KEYS];
static unsigned seed = 1;

static unsigned roll(unsigned sides)
{
	seed = seed * 1103515245u + 12345u;
	return (seed >> 16) % sides;
}

static size_t model_count(void)
{
	size_t count = 0;

	for (int i = 0; i < KEYS; i++)
		count += model[i] != NULL;
	return count;
}

static void assert_same(const struct map *map)
{
	const struct map_entry *entry;
	size_t at = 0, seen = 0;

	for (int i = 0; i < KEYS; i++)
		assert_ptr_equal(map_get(map, names[i]), model[i]);
	while ((entry = map_next(map, &at)) != NULL) {
		assert_ptr_equal(map_get(map, entry->key), entry->value);
		seen++;
	}
	assert_int_equal(seen, model_count());
	assert_int_equal(map->count, seen);
}

static void forget_all(struct map *map)
{
	map_clear(map);
	memset(model, 0, sizeof(model));
}

/* How full the table is kept; up to 10 entries it stays at 16 places. */
static void run(struct map *map, unsigned keys, unsigned rounds, bool check_all)
{
	for (unsigned i = 0; i < rounds; i++) {
		unsigned key = roll(keys);
		void *thing = &things[roll(KEYS)];

		if (roll(2) == 0) {
			assert_ptr_equal(map_put(map, names[key], thing), model[key]);
			model[key] = thing;
		} else {
			assert_ptr_equal(map_remove(map, names[key]), model[key]);
			model[key] = NULL;
		}
		if (check_all || i % 97 == 0)
			assert_same(map);
	}
}

/* Keys that collide in one process do not in another. This must be the first test: a
 * child inherits what its parent has hashed with. */
TEST(each_process_hashes_in_its_own_way)
{
	int ends[2], status;
	size_t theirs = 0;

	assert_int_equal(pipe(ends), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		const size_t hash = map_hash("refs/heads/main");
		_exit(write(ends[1], &hash, sizeof(hash)) == (ssize_t)sizeof(hash) ? 0
										   : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(read(ends[0], &theirs, sizeof(theirs)), sizeof(theirs));
	assert_true(map_hash("refs/heads/main") != theirs);
	assert_true(map_hash("refs/heads/main") == map_hash("refs/heads/main"));
	close(ends[0]);
	close(ends[1]);
}

TEST(random_operations_agree_with_an_array)
{
	struct map map = { 0 };

	run(&map, KEYS, ROUNDS, false);
	assert_same(&map);
	forget_all(&map);
}

/* Other names each time, so that chains begin at all places of the table. */
TEST(removal_keeps_chains_that_wrap_around_the_end)
{
	for (int turn = 0; turn < 200; turn++) {
		struct map map = { 0 };

		for (int i = 0; i < KEYS; i++)
			snprintf(names[i], sizeof(names[i]), "t%d-%d", turn, i);
		run(&map, 9, 200, true);
		assert_true(map.capacity <= 16);
		forget_all(&map);
	}
}

TEST(keys_are_copied_and_may_be_empty)
{
	struct map map = { 0 };
	char key[] = "short";

	assert_null(map_get(&map, "short"));
	assert_null(map_remove(&map, "short"));
	assert_null(map_put(&map, key, &things[0]));
	assert_null(map_put(&map, "", &things[1]));
	memset(key, 'x', sizeof(key) - 1);
	assert_ptr_equal(map_get(&map, "short"), &things[0]);
	assert_null(map_get(&map, key));
	assert_ptr_equal(map_get(&map, ""), &things[1]);
	map_clear(&map);
	assert_int_equal(map.count, 0);
	assert_null(map_get(&map, ""));
	map_clear(&map);
}

TEST(a_map_grows_to_many_keys)
{
	struct map map = { 0 };
	char key[16];

	for (int i = 0; i < 20000; i++) {
		snprintf(key, sizeof(key), "%d", i);
		assert_null(map_put(&map, key, &things[i % KEYS]));
	}
	assert_int_equal(map.count, 20000);
	assert_true(3 * map.count <= 2 * map.capacity);
	for (int i = 0; i < 20000; i++) {
		snprintf(key, sizeof(key), "%d", i);
		assert_ptr_equal(map_get(&map, key), &things[i % KEYS]);
	}
	map_clear(&map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_process_hashes_in_its_own_way),
		cmocka_unit_test(random_operations_agree_with_an_array),
		cmocka_unit_test(removal_keeps_chains_that_wrap_around_the_end),
		cmocka_unit_test(keys_are_copied_and_may_be_empty),
		cmocka_unit_test(a_map_grows_to_many_keys),
	};

	for (int i = 0; i < KEYS; i++)
		snprintf(names[i], sizeof(names[i]), "key%d", i);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
