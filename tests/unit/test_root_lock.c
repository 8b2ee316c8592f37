#include "test.h"

#include "store/data_lock.h"

TEST(a_tree_is_one_nodes_until_it_is_given_up)
{
	AUTO_CLOSE int ours = -1;
	int other = -1;

	assert_ok(
		root_lock_take("site.repositories", root, ROOT_LOCK_ALONE, &ours, &err));
	assert_true(ours >= 0);
	assert_int_equal(fcntl(ours, F_GETFD), FD_CLOEXEC);
	assert_ok(root_lock_take("site.repositories", root, ROOT_LOCK_ALONE, &ours,
				 &err)); /* it is ours already */
	assert_fails(
		root_lock_take("site.repositories", root, ROOT_LOCK_ALONE, &other, &err),
		ERR_BUSY);
	assert_non_null(strstr(err.text, root));
	assert_int_equal(other, -1);
	close(ours);
	ours = -1;
	assert_ok(
		root_lock_take("site.repositories", root, ROOT_LOCK_ALONE, &other, &err));
	assert_true(other >= 0);
	close(other);
}

/* By whatever path. */
TEST(a_link_to_a_tree_is_that_tree)
{
	AUTO_FREE char *link = xasprintf("%s/link", root);
	AUTO_CLOSE int ours = -1;
	AUTO_CLOSE int other = -1;

	assert_int_equal(symlink(".", link), 0);
	assert_ok(
		root_lock_take("site.repositories", root, ROOT_LOCK_ALONE, &ours, &err));
	assert_fails(
		root_lock_take("site.repositories", link, ROOT_LOCK_ALONE, &other, &err),
		ERR_BUSY);
}

TEST(a_tree_that_is_not_there_is_locked_when_it_is)
{
	AUTO_FREE char *path = xasprintf("%s/later", root);
	AUTO_CLOSE int lock = -1;

	assert_ok(
		root_lock_take("site.repositories", path, ROOT_LOCK_ALONE, &lock, &err));
	assert_int_equal(lock, -1);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_ok(
		root_lock_take("site.repositories", path, ROOT_LOCK_ALONE, &lock, &err));
	assert_true(lock >= 0);
}

TEST(nodes_that_only_look_share_a_tree_but_with_no_other)
{
	AUTO_CLOSE int one = -1;
	AUTO_CLOSE int two = -1;
	int alone = -1;

	assert_ok(
		root_lock_take("site.repositories", root, ROOT_LOCK_SHARED, &one, &err));
	assert_ok(
		root_lock_take("site.repositories", root, ROOT_LOCK_SHARED, &two, &err));
	assert_true(one >= 0 && two >= 0);
	assert_fails(
		root_lock_take("site.repositories", root, ROOT_LOCK_ALONE, &alone, &err),
		ERR_BUSY);
	close(one);
	close(two);
	one = two = -1;
	assert_ok(root_lock_take("site.repositories", root, ROOT_LOCK_ALONE, &one, &err));
	assert_fails(
		root_lock_take("site.repositories", root, ROOT_LOCK_SHARED, &two, &err),
		ERR_BUSY);
	assert_non_null(strstr(err.remedy, "lease.backend is local"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_tree_is_one_nodes_until_it_is_given_up),
		CASE(a_link_to_a_tree_is_that_tree),
		CASE(a_tree_that_is_not_there_is_locked_when_it_is),
		CASE(nodes_that_only_look_share_a_tree_but_with_no_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
