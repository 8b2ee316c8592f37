/* What could not be kept of a mirror's changes is tried again until it is. */
#include "mirror/then_teller.h"

#include "base/log.h"

#include "test.h"

static struct {
	atomic_int turns;        /* of the worker; each ends with a look for documents */
	atomic_int retries;      /* of what is owed */
	atomic_bool is_retrying; /* the first one is under way, */
	atomic_bool is_read;     /* until it has read the refs */
} script;

static struct mirrors mirrors;
static struct then_teller *teller;

int then_queue_open(const char *data, const char *mirror, const char *clone,
		    struct then_queue **queue, struct err *error)
{
	(void)data;
	(void)mirror;
	(void)clone;
	*queue = NULL;
	return err_set(error, ERR_DISK, "the disk is full");
}

int then_queue_take(struct then_queue *queue, const struct then_origin *origin,
		    struct err *error)
{
	(void)queue;
	if (origin->job)
		return err_set(error, ERR_DISK, "the disk is full");
	if (atomic_fetch_add(&script.retries, 1) == 0) {
		atomic_store(&script.is_retrying, true);
		while (!atomic_load(&script.is_read))
			usleep(1000);
	}
	return 0;
}

int then_queue_next(struct then_queue *queue, struct str *document, struct err *error)
{
	(void)queue;
	(void)document;
	(void)error;
	atomic_fetch_add(&script.turns, 1);
	return 0;
}

static int begin(void **state)
{
	static const char text[] = "[mirror \"a\"]\nurl = https://example.com/a.git\n"
				   "then = /bin/true\n";
	AUTO_CONF struct conf *conf = NULL;

	if (test_make_root(state) != 0)
		return -1;
	assert_ok(conf_load_text("t.conf", text, strlen(text), &conf, &err));
	assert_ok(mirrors_read(conf, &mirrors, &err));
	teller = then_teller_start(&(struct then_teller_options){
		.mirrors = &mirrors, .data = root, .root = root });
	assert_non_null(teller);
	return 0;
}

static int end(void **state)
{
	atomic_store(&script.is_read, true);
	then_teller_stop(TAKE(teller));
	mirrors_clear(&mirrors);
	return test_remove_root(state);
}

TEST(what_could_not_be_kept_during_a_retry_is_tried_again)
{
	wait_until(atomic_load(&script.is_retrying));
	then_teller_take(teller, "a", &(struct then_origin){ .job = "2" });
	atomic_store(&script.is_read, true);
	wait_until(atomic_load(&script.turns) == 1);
	then_teller_wake(teller, "a");
	wait_until(atomic_load(&script.turns) == 2);
	assert_int_equal(atomic_load(&script.retries), 2);
	then_teller_wake(teller, "a");
	wait_until(atomic_load(&script.turns) == 3);
	assert_int_equal(atomic_load(&script.retries), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			what_could_not_be_kept_during_a_retry_is_tried_again, begin, end),
	};

	log_set_level(LOG_LEVEL_NONE);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
