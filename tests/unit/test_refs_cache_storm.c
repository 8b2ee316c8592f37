/*
 * Writers that change refs in all the ways there are, as fast as they like, and readers
 * who must never see what was older than the last change that had ended before they
 * asked.
 */
#include "refs_cache_test.h"

#include <sys/inotify.h>
#include <sys/syscall.h>

#include "base/clock.h"

#define STEPS 4000
#define READERS 4
#define STORM_MS 1000
#define LONGEST_MS 20000
#define REST_MS 200 /* of a writer, at most; later longer, if needed */
#define LONGEST_REST_MS 3200
#define ENOUGH 50 /* answers, for it to mean something */

/* Stands before the C library's. */
static bool may_watch = true;
int inotify_init1(int flags)
{
	if (may_watch)
		return (int)syscall(SYS_inotify_init1, flags);
	errno = EMFILE;
	return -1;
}

/* Commits in the order in which each place goes through them. */
static char steps[STEPS][OID_MAX_TEXT];
static struct map step_of; /* of a commit's name; + 1 */

static void make_steps(void)
{
	AUTO_STR struct str text = STR_INIT;

	must("i=0; while test $i -lt %d; do echo commit refs/heads/steps; "
	     "echo \"committer A <a@b> $((1700000000 + i)) +0000\"; echo data 0; "
	     "i=$((i + 1)); done | git -C r.git fast-import --quiet",
	     STEPS);
	must("git -C r.git rev-list --reverse refs/heads/steps >steps && "
	     "git -C r.git update-ref -d refs/heads/steps");
	assert_ok(file_read(root_fd, "steps", 1 << 20, &text, &err));
	assert_int_equal(text.len, STEPS * 41);
	for (uintptr_t i = 0; i < STEPS; i++) {
		memcpy(steps[i], text.data + 41 * i, 40);
		map_put(&step_of, steps[i], (void *)(i + 1));
	}
}

static void replace(const char *path, const char *text, size_t len)
{
	struct err why;

	if (file_replace(repo_fd, path, text, len, FILE_NO_SYNC, &why) != 0)
		abort();
}

static void replace_ref(const char *path, int step)
{
	char text[OID_MAX_TEXT + 1];
	int len = snprintf(text, sizeof(text), "%s\n", steps[step]);

	replace(path, text, (size_t)len);
}

/* In place; a reader on disk sees the old or the new. */
static void edit(const char *path, int step)
{
	AUTO_CLOSE int fd = openat(repo_fd, path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || pwrite(fd, steps[step], 40, 0) != 40)
		abort();
}

static void change_in_bracket(const char *path, int step)
{
	struct lock_owner writer;
	struct err why;

	if (state_begin(repo_fd, &writer, &why) != 0)
		abort();
	replace_ref(path, step);
	if (state_end(&writer, &why) != 0)
		abort();
}

static void change_any(const char *path, int step)
{
	switch (step % 3) {
	case 0:
		edit(path, step);
		break;
	case 1:
		replace_ref(path, step);
		break;
	case 2:
		change_in_bracket(path, step);
		break;
	}
}

static void change_packed(const char *path, int step)
{
	char text[128];
	int len = snprintf(text, sizeof(text), "%s %s\n", steps[step], path);

	replace("packed-refs", text, (size_t)len);
}

/* What one writer moves through all steps. */
struct place {
	const char *name; /* in the advertisement */
	void (*change)(const char *path, int step);
	pthread_t thread;
	atomic_int done; /* the step of the last change that has ended */
};

static struct place places[] = {
	{ .name = "refs/heads/any", .change = change_any },
	{ .name = "refs/heads/edited", .change = edit },
	{ .name = "refs/heads/bracketed", .change = change_in_bracket },
	{ .name = "refs/heads/packed", .change = change_packed },
	{ .name = "HEAD", .change = replace_ref },
};

static struct stop over;
static atomic_int answered, bypassed, rest_ms;
static _Atomic(const char *) stale; /* where an old value was seen */

static void *write_on(void *arg)
{
	struct place *place = arg;
	unsigned seed = (unsigned)(uintptr_t)place;

	for (int step = 1; step < STEPS && !stop_is_requested(&over); step++) {
		place->change(place->name, step);
		atomic_store(&place->done, step);
		/* Bursts, and rests in which a generation can be made and hit. */
		if (rand_r(&seed) % 4 == 0)
			stop_wait(&over, rand_r(&seed) % atomic_load(&rest_ms));
	}
	return NULL;
}

/* The step that the advertisement shows of a place; -1: none. */
static int step_shown(const struct generation_body *body, const char *name)
{
	char pattern[64], oid[41] = "";
	size_t len = (size_t)snprintf(pattern, sizeof(pattern), " %s", name);
	const char *at = body->data;

	while ((at = memmem(at, (size_t)(body->data + body->len - at), pattern, len))) {
		if (at[len] == '\n' || at[len] == '\0')
			break;
		at++;
	}
	if (!at)
		return -1;
	memcpy(oid, at - 40, 40);
	return (int)(intptr_t)map_get(&step_of, oid) - 1;
}

static void judge(struct generation *generation, const int *before)
{
	struct generation_body body = generation_info_refs(generation, 0, false);

	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		if (step_shown(&body, places[i].name) < before[i])
			atomic_store(&stale, places[i].name);
}

static void *read_on(void *arg)
{
	int before[ARRAY_SIZE(places)];
	struct refs_answer answer;
	struct err why;

	(void)arg;
	while (!stop_is_requested(&over)) {
		for (size_t i = 0; i < ARRAY_SIZE(places); i++)
			before[i] = atomic_load(&places[i].done);
		if (refs_cache_get(
			    cache,
			    &(struct refs_request){ .name = "r", .kind = REFS_INFO },
			    &answer, &why) != 0) {
			fprintf(stderr, "# %s\n", why.text);
			atomic_store(&stale, "an error");
			continue;
		}
		if (answer.generation)
			judge(answer.generation, before);
		atomic_fetch_add(answer.generation ? &answered : &bypassed, 1);
		refs_answer_clear(&answer);
	}
	return NULL;
}

/* Without a watch there are answers only when all writers rest for as long as git takes:
 * where git is slow, they have to rest longer. */
static void let_it_rage(void)
{
	const int64_t until = clock_boot_ms() + LONGEST_MS;

	for (;;) {
		stop_wait(&over, STORM_MS);
		if (atomic_load(&answered) >= ENOUGH || clock_boot_ms() >= until)
			return;
		int longer = 2 * atomic_load(&rest_ms);
		atomic_store(&rest_ms,
			     longer < LONGEST_REST_MS ? longer : LONGEST_REST_MS);
	}
}

static void storm(void)
{
	pthread_t readers[READERS];

	atomic_store(&rest_ms, REST_MS);
	atomic_store(&answered, 0);
	atomic_store(&bypassed, 0);
	atomic_store(&stale, NULL);
	stop_init(&over);
	make_steps();
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		if (places[i].change != change_packed)
			replace_ref(places[i].name, 0);
		else
			change_packed(places[i].name, 0);
		atomic_store(&places[i].done, 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		thread_start(&places[i].thread, "writer", write_on, &places[i]);
	for (size_t i = 0; i < READERS; i++)
		thread_start(&readers[i], "reader", read_on, NULL);
	let_it_rage();
	stop_request(&over);
	for (size_t i = 0; i < READERS; i++)
		thread_join(readers[i]);
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		thread_join(places[i].thread);
	stop_clear(&over);
	map_clear(&step_of);
	print_message("# %d from generations, %d bypassed, %d generators\n",
		      atomic_load(&answered), atomic_load(&bypassed), runs());
	if (atomic_load(&stale))
		fail_msg("stale: %s", atomic_load(&stale));
	assert_true(atomic_load(&answered) >= ENOUGH);
}

TEST(no_answer_is_older_than_the_last_change_that_ended_before_it_was_asked_for)
{
	storm();
	assert_true_answer("r");
}

TEST(nor_is_one_when_nothing_can_be_watched)
{
	close_cache();
	may_watch = false;
	open_cache();
	may_watch = true;
	storm();
	assert_true_answer("r");
}

TEST(nor_is_one_when_all_comes_from_disk)
{
	settings.memory = 1;
	refs_cache_set(cache, &settings);
	storm();
	assert_true_answer("r");
	assert_true(counted("disk") > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		REFS_CASE(
			no_answer_is_older_than_the_last_change_that_ended_before_it_was_asked_for),
		REFS_CASE(nor_is_one_when_nothing_can_be_watched),
		REFS_CASE(nor_is_one_when_all_comes_from_disk),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
