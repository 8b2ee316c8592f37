#include "test.h"

#include <stdatomic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "git/repo.h"
#include "lease/lease.h"
#include "mirror/checkouts.h"
#include "replicable/discover.h"
#include "replicable/name.h"
#include "store/store.h"
#include "upkeep/checkout.h"

#define NAME "acme/a"
#define LINK "acme/a.checkout"
#define FOLDER ".refrelay/checkouts/acme/a.git"

static const struct git_work work = { .guard_fd = -1 };
static struct repo repo;
static struct store *store;
static struct lease_manager *leases;

static struct job *running;

/* What happens when the next tree is brought to disk, or the next link is made. */
static bool disk_fails, disk_lies, takes_the_lease;

/* In each tree that is not proved. */
static void spoil(int folder)
{
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *dir = dir_list(folder, ".");

	while ((entry = readdir(dir)) != NULL) {
		AUTO_FREE char *index = xasprintf("%s/index", entry->d_name);
		AUTO_FREE char *file = xasprintf("%s/tree/dir/file", entry->d_name);
		if (faccessat(folder, file, F_OK, 0) == 0 &&
		    faccessat(folder, index, F_OK, 0) != 0)
			assert_ok(
				file_replace(folder, file, "TWO", 3, FILE_NO_SYNC, &err));
	}
}

int syncfs(int fd)
{
	if (disk_lies)
		spoil(fd);
	errno = EIO;
	return disk_fails ? -1 : 0;
}

int symlinkat(const char *target, int dir, const char *path)
{
	if (takes_the_lease) {
		assert_ok(lease_force_release(leases, lease_key(running->lease),
					      running->fence, "test", "test", &err));
		while (lease_check(running->lease, ERR_IGNORED) == 0)
			usleep(10000); /* until its keeper knows */
	}
	return (int)syscall(SYS_symlinkat, target, dir, path);
}

/* Whoever moves a tree waits meanwhile. */
static atomic_bool is_slow;

int renameat(int from, const char *old, int to, const char *new)
{
	while (text_starts_with(old, ".refrelay/checkouts/") && atomic_load(&is_slow))
		usleep(10000);
	return (int)syscall(SYS_renameat2, from, old, to, new, 0);
}

static void open_leases(int64_t ttl_ms)
{
	AUTO_FREE char *directory = xasprintf("%s/leases", root);

	assert_ok(lease_manager_open_local(
		store,
		&(struct lease_options){ .directory = directory, .ttl_ms = ttl_ms },
		&leases, &err));
}

static void open_all(void)
{
	AUTO_FREE char *url = xasprintf("sqlite:%s/db", root);
	AUTO_FREE char *path = xasprintf("%s/" NAME ".git", root);

	disk_fails = disk_lies = takes_the_lease = false;
	assert_ok(git_setup(root, &err));
	assert_ok(store_open(url, &store, &err));
	open_leases(0);
	assert_ok(dir_make(root_fd, "acme", &err));
	assert_ok(repo_make(root_fd, NAME ".git", 20, &err));
	assert_ok(repo_open(AT_FDCWD, path, &repo, &err));
}

static void close_all(void)
{
	repo_close(&repo);
	lease_manager_close(leases);
	store_close(store);
}

static void git(const char *const *args, const char *input, struct str *output)
{
	AUTO_STR struct str text = STR_INIT;

	str_add(&text, input);
	assert_ok(git_run(&(struct git_call){ .work = &work,
					      .repository = repo.path,
					      .args = args,
					      .input = &text,
					      .output = output,
					      .output_limit = 65536 },
			  &err));
}

/* With that text in dir/file. */
static struct oid make_commit(const char *text)
{
	static const char *const import[] = { "fast-import", "--quiet", "--done",
					      "--force", NULL };
	static const char *const parse[] = { "rev-parse", "refs/heads/main", NULL };
	AUTO_STR struct str output = STR_INIT;
	AUTO_FREE char *stream = xasprintf(
		"commit refs/heads/main\ncommitter A <a@example.com> 1700000000 +0000\n"
		"data 1\nx\nM 100644 inline dir/file\ndata %zu\n%s\ndone\n",
		strlen(text), text);
	struct oid oid;

	git(import, stream, NULL);
	git(parse, "", &output);
	assert_true(oid_parse(output.data, 20, &oid));
	return oid;
}

struct ask {
	struct oid commit;
	enum { SWITCH, EXPIRE, DROP, TRASH } what;
	bool is_new;
	int64_t next_ms;
};

static int ask_leased(struct job *job, void *arg, struct err *e)
{
	struct ask *ask = arg;
	const struct checkout_call call = { .job = job, .root = root, .name = NAME };

	running = job;
	switch (ask->what) {
	case SWITCH:
		return checkout_switch(&call, &ask->commit, &ask->is_new, e);
	case EXPIRE:
		return checkout_expire(&call, &ask->next_ms, e);
	case DROP:
		return checkout_drop(&call, e);
	default:
		return checkout_trash(&call, e);
	}
}

static int run(struct ask *ask)
{
	return job_run(&(struct job_request){ .leases = leases,
					      .kind = KIND_REPOSITORY,
					      .name = NAME,
					      .operation = "checkout",
					      .run = ask_leased,
					      .arg = ask },
		       &err);
}

static bool switch_to(struct oid commit)
{
	struct ask ask = { .what = SWITCH, .commit = commit };

	assert_ok(run(&ask));
	return ask.is_new;
}

static int64_t expire(void)
{
	struct ask ask = { .what = EXPIRE };

	assert_ok(run(&ask));
	return ask.next_ms;
}

static void assert_shows(const char *text)
{
	AUTO_STR struct str found = STR_INIT;

	assert_ok(file_read(root_fd, LINK "/dir/file", 4096, &found, &err));
	assert_string_equal(found.data, text);
}

static char *read_target(void)
{
	char target[4096];
	ssize_t len = readlinkat(root_fd, LINK, target, sizeof(target));

	assert_true(len > 0);
	return xstrndup(target, (size_t)len);
}

/* Of the version that the link leads to: "acme/<target less tree>/part". */
static char *version_part(const char *part)
{
	AUTO_FREE char *target = read_target();

	return xasprintf("acme/%.*s/%s", (int)(strlen(target) - strlen("/tree")), target,
			 part);
}

static size_t count_versions(void)
{
	size_t count = 0;
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *dir = dir_list(root_fd, FOLDER);

	while (dir && (entry = readdir(dir)) != NULL)
		count += entry->d_name[0] != '.' && strcmp(entry->d_name, "git") != 0;
	return count;
}

static void write_file(const char *path, const char *text)
{
	assert_ok(file_replace(root_fd, path, text, strlen(text), FILE_NO_SYNC, &err));
}

TEST(the_link_leads_to_what_the_commit_has_and_nothing_is_made_twice)
{
	AUTO_DISCOVERY struct discovery found = { 0 };

	open_all();
	assert_true(switch_to(make_commit("one")));
	assert_shows("one");
	AUTO_FREE char *first = read_target();
	assert_true(strncmp(first, "../" FOLDER "/", strlen("../" FOLDER "/")) == 0);
	assert_false(switch_to(make_commit("one")));
	assert_true(switch_to(make_commit("two")));
	assert_shows("two");
	assert_int_equal(count_versions(), 2);
	assert_ok(discover(root, &found, &err));
	assert_int_equal(found.found.count, 1);
	assert_int_equal(found.findings.count, 0);
	close_all();
}

TEST(what_somebody_changed_is_made_anew)
{
	open_all();
	struct oid commit = make_commit("one");
	switch_to(commit);
	AUTO_FREE char *file = version_part("tree/dir/file");
	write_file(file, "ONE"); /* of the same size */
	assert_true(switch_to(commit));
	assert_shows("one");
	AUTO_FREE char *more = version_part("tree/more");
	write_file(more, "");
	assert_true(switch_to(commit));
	AUTO_FREE char *index = version_part("index");
	assert_int_equal(unlinkat(root_fd, index, 0), 0);
	assert_true(switch_to(commit));
	assert_false(switch_to(commit));
	close_all();
}

TEST(what_git_cannot_write_down_is_no_change_of_somebody)
{
	struct ask ask = { .what = SWITCH };

	open_all();
	ask.commit = make_commit("one");
	switch_to(ask.commit);
	AUTO_FREE char *file = version_part("tree/dir/file");
	AUTO_FREE char *in_the_way = version_part("index.lock/x");
	AUTO_FREE char *lock = version_part("index.lock");
	AUTO_FREE char *before = read_target();
	assert_int_equal(utimensat(root_fd, file, NULL, 0), 0);
	assert_ok(dir_make(root_fd, in_the_way, &err));
	assert_fails(run(&ask), ERR_CONFLICT);
	assert_int_equal(count_versions(), 1);
	assert_ok(tree_remove(root_fd, lock, &err));
	assert_false(switch_to(ask.commit));
	AUTO_FREE char *after = read_target();
	assert_string_equal(before, after);
	AUTO_FREE char *index = version_part("index");
	write_file(index, ""); /* git calls that smaller than expected */
	assert_true(switch_to(ask.commit));
	close_all();
}

TEST(a_former_tree_stays_for_an_hour_and_while_somebody_has_a_lock)
{
	open_all();
	switch_to(make_commit("one"));
	AUTO_FREE char *tree = version_part("tree");
	AUTO_FREE char *mark = version_part("replaced");
	assert_int_equal(expire(), 0);
	switch_to(make_commit("two"));
	assert_int_equal(expire(), CHECKOUT_KEEP_MS);
	assert_in_range(expire(), CHECKOUT_KEEP_MS - 600000, CHECKOUT_KEEP_MS);
	int reader = openat(root_fd, tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(flock(reader, LOCK_SH), 0);
	write_file(mark, "1\n");
	assert_true(expire() > 0);
	assert_int_equal(faccessat(root_fd, tree, F_OK, 0), 0);
	close(reader);
	assert_int_equal(expire(), 0);
	assert_int_equal(count_versions(), 1);
	assert_shows("two");
	close_all();
}

/* Nobody has seen it. */
TEST(what_is_half_made_goes_at_once)
{
	open_all();
	switch_to(make_commit("one"));
	assert_ok(dir_make(root_fd,
			   FOLDER "/7-0123456789012345678901234567890123456789/tree/x",
			   &err));
	assert_int_equal(count_versions(), 2);
	assert_int_equal(expire(), 0);
	assert_int_equal(count_versions(), 1);
	close_all();
}

TEST(what_cannot_be_brought_to_disk_is_not_shown)
{
	open_all();
	switch_to(make_commit("one"));
	struct ask ask = { .what = SWITCH, .commit = make_commit("two") };
	disk_fails = true;
	assert_fails(run(&ask), ERR_DISK);
	assert_shows("one");
	assert_int_equal(count_versions(), 1);
	disk_fails = false;
	assert_ok(run(&ask));
	assert_shows("two");
	close_all();
}

static struct oid read_oid(const struct str *output)
{
	struct oid oid;

	assert_true(oid_parse(output->data, 20, &oid));
	return oid;
}

/* Of ten entries, each of them that object. */
static struct oid make_tree_of(const char *what, const struct oid *oid)
{
	static const char *const mktree[] = { "mktree", NULL };
	AUTO_STR struct str input = STR_INIT, output = STR_INIT;
	char text[OID_MAX_TEXT];

	for (int i = 0; i < 10; i++)
		str_addf(&input, "%s %s\t%d\n", what, oid_text(oid, text), i);
	git(mktree, input.data, &output);
	return read_oid(&output);
}

TEST(a_commit_of_more_files_than_any_disk_has_room_for_is_refused)
{
	static const char *const hash[] = { "hash-object", "-w", "--stdin", NULL };
	static const char *const pack[] = { "repack", "-adq", NULL };
	AUTO_STR struct str output = STR_INIT, made = STR_INIT;
	char text[OID_MAX_TEXT];

	open_all();
	switch_to(make_commit("one"));
	git(hash, "x", &output);
	struct oid oid = read_oid(&output);
	oid = make_tree_of("100644 blob", &oid);
	for (int i = 0; i < 8; i++)
		oid = make_tree_of("040000 tree", &oid);
	const char *const commit[] = {
		"-c", "user.name=A",        "-c", "user.email=a@b", "commit-tree", "-m",
		"x",  oid_text(&oid, text), NULL
	};
	git(commit, "", &made);
	struct ask ask = { .what = SWITCH, .commit = read_oid(&made) };
	const char *const keep[] = { "update-ref", "refs/heads/many",
				     oid_text(&ask.commit, text), NULL };
	git(keep, "", NULL);
	git(pack, "", NULL); /* as what was fetched: a look at it costs no file */
	assert_fails(run(&ask), ERR_CONFIG);
	assert_non_null(strstr(err.text, "too many files"));
	assert_shows("one");
	close_all();
}

TEST(what_is_not_as_the_commit_is_is_not_shown)
{
	open_all();
	switch_to(make_commit("one"));
	struct ask ask = { .what = SWITCH, .commit = make_commit("two") };
	disk_lies = true;
	assert_fails(run(&ask), ERR_CORRUPT);
	assert_shows("one");
	assert_int_equal(count_versions(), 1);
	close_all();
}

TEST(who_lost_the_lease_switches_nothing)
{
	open_all();
	switch_to(make_commit("one"));
	/* Whose keeper looks often; what is not to be lost had all the time it needs. */
	lease_manager_close(leases);
	open_leases(3000);
	struct ask ask = { .what = SWITCH, .commit = make_commit("two") };
	takes_the_lease = true;
	assert_fails(run(&ask), ERR_LOST);
	assert_shows("one");
	close_all();
}

TEST(nothing_but_its_own_link_is_replaced_or_removed)
{
	static const enum {
		FILE_THERE,
		FOLDER_THERE,
		LINK_THERE
	} what[] = { FILE_THERE, FOLDER_THERE, LINK_THERE };
	struct ask drop = { .what = DROP };

	open_all();
	struct ask ask = { .what = SWITCH, .commit = make_commit("one") };
	for (size_t i = 0; i < ARRAY_SIZE(what); i++) {
		struct stat before, after;
		if (what[i] == FILE_THERE)
			write_file(LINK, "mine");
		else if (what[i] == FOLDER_THERE)
			assert_ok(dir_make(root_fd, LINK, &err));
		else
			assert_int_equal(symlinkat("/etc", root_fd, LINK), 0);
		assert_int_equal(fstatat(root_fd, LINK, &before, AT_SYMLINK_NOFOLLOW), 0);
		assert_fails(run(&ask), ERR_CONFIG);
		assert_ok(run(&drop));
		assert_int_equal(fstatat(root_fd, LINK, &after, AT_SYMLINK_NOFOLLOW), 0);
		assert_true(before.st_ino == after.st_ino);
		assert_ok(tree_remove(root_fd, LINK, &err));
	}
	assert_int_equal(count_versions(), 0);
	assert_ok(run(&ask));
	close_all();
}

TEST(one_that_is_dropped_goes_later_and_one_that_is_removed_to_the_trash)
{
	struct ask drop = { .what = DROP }, trash = { .what = TRASH };

	open_all();
	struct oid commit = make_commit("one");
	switch_to(commit);
	AUTO_FREE char *mark = version_part("replaced");
	assert_ok(run(&drop));
	assert_int_equal(faccessat(root_fd, LINK, F_OK, AT_SYMLINK_NOFOLLOW), -1);
	assert_int_equal(expire(), CHECKOUT_KEEP_MS);
	assert_true(checkout_is_any(root, NAME));
	write_file(mark, "1\n");
	assert_int_equal(expire(), 0);
	assert_false(checkout_is_any(root, NAME));
	switch_to(commit);
	int reader = openat(root_fd, LINK "/dir/file", O_RDONLY | O_CLOEXEC);
	assert_ok(run(&trash));
	assert_false(checkout_is_any(root, NAME));
	assert_int_equal(faccessat(root_fd, ".refrelay/checkouts/acme", F_OK, 0), -1);
	struct stat st;
	assert_true(fstat(reader, &st) == 0 && st.st_nlink == 1);
	close(reader);
	assert_ok(run(&trash)); /* again: nothing is there */
	close_all();
}

static int add_checkouts(struct store_tx *tx, void *arg, struct err *e)
{
	(void)arg;
	return store_exec(tx,
			  "INSERT INTO mirror_checkout (name) VALUES ('away/a'),"
			  " ('b'), ('c');"
			  "INSERT INTO site_value (key, value)"
			  " VALUES ('origin.mounts', '[\"away\"]')",
			  e);
}

/* In a thread, which ends before it is done where the node stops. */
TEST(where_no_mirrors_are_kept_all_go_but_those_of_another_file_system)
{
	struct checkouts_trash *trash = NULL;

	open_all();
	assert_ok(dir_make(root_fd, "away", &err)); /* its file system is not mounted */
	assert_ok(dir_make(root_fd, ".refrelay/checkouts/away/a.git", &err));
	assert_ok(dir_make(root_fd, ".refrelay/checkouts/b.git", &err));
	assert_ok(dir_make(root_fd, ".refrelay/checkouts/c.git", &err));
	assert_ok(store_write(store, add_checkouts, NULL, &err));
	const struct mirror_checkout_site site = {
		.store = store, .leases = leases, .root = root, .timeout_ms = 60000
	};
	is_slow = true;
	assert_ok(checkouts_trash_start(&site, &trash, &err));
	assert_true(checkout_is_any(root, "b"));
	is_slow = false;
	while (checkout_is_any(root, "c"))
		usleep(10000);
	checkouts_trash_stop(trash);
	assert_false(checkout_is_any(root, "b"));
	assert_true(checkout_is_any(root, "away/a"));
	close_all();
}

/* As while the node that has just become a secondary brings its repository. */
TEST(where_no_mirrors_are_kept_one_at_work_goes_later)
{
	struct checkouts_trash *trash = NULL;
	struct lease *lease = NULL;
	char key[LEASE_KEY_SIZE];

	open_all();
	assert_ok(dir_make(root_fd, ".refrelay/checkouts/b.git", &err));
	assert_ok(dir_make(root_fd, ".refrelay/checkouts/c.git", &err));
	assert_ok(store_write(store, add_checkouts, NULL, &err));
	lease_key_for(leases, KIND_REPOSITORY, replicable_id(KIND_REPOSITORY, "b"), "b",
		      key);
	assert_ok(lease_acquire(leases,
				&(struct lease_request){ .key = key, .name = "b" },
				&lease, &err));
	const struct mirror_checkout_site site = {
		.store = store, .leases = leases, .root = root, .timeout_ms = 60000
	};
	assert_ok(checkouts_trash_start(&site, &trash, &err));
	while (checkout_is_any(root, "c"))
		usleep(10000);
	assert_true(checkout_is_any(root, "b"));
	lease_release(lease);
	while (checkout_is_any(root, "b"))
		usleep(10000);
	checkouts_trash_stop(trash);
	close_all();
}

TEST(where_there_are_no_working_trees_no_thread_looks_for_them)
{
	struct checkouts_trash *trash = NULL;

	open_all();
	const struct mirror_checkout_site site = {
		.store = store, .leases = leases, .root = root, .timeout_ms = 60000
	};
	assert_ok(checkouts_trash_start(&site, &trash, &err));
	assert_null(trash);
	checkouts_trash_stop(trash);
	close_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(the_link_leads_to_what_the_commit_has_and_nothing_is_made_twice),
		CASE(what_somebody_changed_is_made_anew),
		CASE(what_git_cannot_write_down_is_no_change_of_somebody),
		CASE(a_former_tree_stays_for_an_hour_and_while_somebody_has_a_lock),
		CASE(what_is_half_made_goes_at_once),
		CASE(what_cannot_be_brought_to_disk_is_not_shown),
		CASE(a_commit_of_more_files_than_any_disk_has_room_for_is_refused),
		CASE(what_is_not_as_the_commit_is_is_not_shown),
		CASE(who_lost_the_lease_switches_nothing),
		CASE(nothing_but_its_own_link_is_replaced_or_removed),
		CASE(one_that_is_dropped_goes_later_and_one_that_is_removed_to_the_trash),
		CASE(where_no_mirrors_are_kept_all_go_but_those_of_another_file_system),
		CASE(where_no_mirrors_are_kept_one_at_work_goes_later),
		CASE(where_there_are_no_working_trees_no_thread_looks_for_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
