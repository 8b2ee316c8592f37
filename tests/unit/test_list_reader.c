/*
 * The reading of lists, again and again, with nodes that come and go: here of a
 * directory with a disk that is away after a restart.
 */
#include "mirror/list_reader.h"

#include <sys/stat.h>

#include "base/log.h"
#include "git/repo.h"
#include "mirror/listed.h"
#include "test.h"

static struct store *store;
static struct mirrors mirrors;
static char clones[96];
static _Atomic ino_t inode_away; /* of a directory on another file system; 0: none */

/* The library's. */
int fstat(int fd, struct stat *st)
{
	int result = fstatat(fd, "", st, AT_EMPTY_PATH);

	if (result == 0 && inode_away && st->st_ino == inode_away)
		st->st_dev++;
	return result;
}

/* In the place of the program's: nobody waits. */
int64_t mirror_random_ms(int64_t most)
{
	(void)most;
	return 1;
}

int64_t mirror_jitter_ms(int64_t interval_ms)
{
	(void)interval_ms;
	return 5;
}

void mirror_poll_reload(struct mirror_poll *poll)
{
	(void)poll;
}

static struct list_readers *start_node(void)
{
	AUTO_FREE char *text = xasprintf(
		"[mirrors \"d\"]\nfrom = directory\nurl = %s/upstreams\n", root);
	AUTO_FREE char *database = xasprintf("sqlite:%s/db", root);
	AUTO_CONF struct conf *conf = NULL;

	snprintf(clones, sizeof(clones), "%s/clones", root);
	assert_ok(store_open(database, &store, &err));
	assert_ok(conf_load_text("t.conf", text, strlen(text), &conf, &err));
	assert_ok(mirrors_read(conf, &mirrors, &err));
	assert_ok(listed_begin(store, &mirrors, &err));
	return list_readers_start(&(struct list_readers_options){
		.store = store, .mirrors = &mirrors, .root = clones });
}

static void stop_node(struct list_readers *readers)
{
	list_readers_stop(readers);
	mirrors_clear(&mirrors);
	store_close(store);
}

static struct listed_state state_now(void)
{
	struct listed_state state = { 0 };

	assert_ok(listed_read_state(store, mirrors.lists.items[0], &state, &err));
	listed_state_clear(&(struct listed_state){ .class = TAKE(state.class),
						   .message = TAKE(state.message),
						   .remedy = TAKE(state.remedy) });
	return state;
}

static void make(const char *path)
{
	assert_ok(dir_make_parents(root_fd, path, &err));
	assert_ok(repo_make(root_fd, path, 20, &err));
}

TEST(a_disk_that_is_away_after_a_restart_is_missed_until_it_is_given_up)
{
	struct list_readers *readers;
	struct stat st;

	log_set_level(LOG_LEVEL_NONE);
	assert_ok(dir_make(root_fd, "clones", &err));
	make("upstreams/a.git");
	make("upstreams/disk/b.git");
	assert_int_equal(fstatat(root_fd, "upstreams/disk", &st, 0), 0);
	inode_away = st.st_ino;
	readers = start_node();
	wait_until(state_now().count == 2);
	stop_node(readers);

	inode_away = 0;
	assert_ok(tree_remove(root_fd, "upstreams/disk/b.git", &err));
	readers = start_node();
	wait_until(state_now().failed_at > 0);
	assert_int_equal(state_now().count, 2);
	assert_int_equal(unlinkat(root_fd, "upstreams/disk", AT_REMOVEDIR), 0);
	wait_until(state_now().count == 1);
	stop_node(readers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_disk_that_is_away_after_a_restart_is_missed_until_it_is_given_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
