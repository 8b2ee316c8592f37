/*
 * What the tests of pushes share. Bodies are made of commands and what `git pack-objects`
 * writes; the state is looked at where it counts: in `recorded`, and at the end.
 */
#ifndef UNIT_RECEIVE_TEST_H
#define UNIT_RECEIVE_TEST_H

#include "git_test.h"

#include "base/thread.h"
#include "git/git_child.h"
#include "git/pkt_line.h"
#include "git/state.h"
#include "serve/receive_pack.h"

#define CAPS "report-status side-band-64k push-options object-format=sha1"

struct push {
	struct receive_pack_request request;
	struct str body, answer;
	size_t taken, at_once;
	size_t cut_at; /* 0: it is not cut */
	bool lingers;  /* before the body's end, of which git might know too early */
	unsigned commands, recorded, reported;
	size_t deletions;
	struct receive_outcome outcome;
	size_t passed; /* of the answer, when the outcome was told */
	bool fails;    /* what is called when it is recorded */
	char key_before[STATE_KEY_SIZE], key_recorded[STATE_KEY_SIZE];
	char *refs_recorded;
	struct err err;
};

static struct push push __attribute__((unused));
static char path[96] __attribute__((unused));
static bool is_bad __attribute__((unused));

static inline unsigned pending(void)
{
	AUTO_FREE char *count =
		output_of("ls r.git/refrelay/state/pending 2>/dev/null | wc -l");

	return (unsigned)atoi(count);
}

static inline void read_key(char key[STATE_KEY_SIZE])
{
	struct state_look look;

	assert_ok(state_look(repo_fd, &look, &err));
	memcpy(key, look.key, sizeof(look.key));
}

static inline ssize_t read_body(void *arg, void *buffer, size_t size, struct err *error)
{
	struct push *mine = arg;
	size_t end = mine->cut_at > 0 ? mine->cut_at : mine->body.len;
	size_t len = end - mine->taken;

	len = len < size ? len : size;
	len = mine->at_once > 0 && mine->at_once < len ? mine->at_once : len;
	if (len == 0 && mine->cut_at > 0)
		return err_set(error, ERR_NETWORK, "the client is gone");
	if (mine->lingers && len == 0) {
		usleep(200000);
		assert_int_equal(pending(), 0);
	}
	memcpy(buffer, mine->body.data + mine->taken, len);
	mine->taken += len;
	return (ssize_t)len;
}

static inline int note(void *arg, struct err *error)
{
	struct push *mine = arg;

	mine->recorded++;
	read_key(mine->key_recorded);
	free(mine->refs_recorded);
	mine->refs_recorded = output_of("git -C r.git for-each-ref "
					"--format='%%(refname)=%%(objectname)'; "
					"ls r.git/refrelay/state/pending");
	return mine->fails ? err_set(error, ERR_DISK, "not recorded") : 0;
}

/* Before git deletes anything. */
static inline void note_deletions(void *arg, size_t count)
{
	struct push *mine = arg;

	assert_int_equal(mine->deletions + mine->recorded, 0);
	mine->deletions = count;
}

static inline void note_outcome(void *arg, const struct receive_outcome *outcome)
{
	struct push *mine = arg;

	assert_int_equal(++mine->reported, mine->recorded);
	mine->outcome = *outcome;
	mine->passed = mine->answer.len;
}

static inline void push_init(struct push *mine)
{
	*mine = (struct push){
		.request = { .path = path,
			     .read = read_body,
			     .recorded = note,
			     .deletes = note_deletions,
			     .reported = note_outcome,
			     .user = "ann",
			     .client = "192.0.2.7",
			     .timeout_ms = 60000,
			     .is_bad = &is_bad,
			     .read_arg = mine,
			     .arg = mine },
		.body = STR_INIT,
		.answer = STR_INIT,
	};
}

static inline void push_clear(struct push *mine)
{
	str_clear(&mine->body);
	str_clear(&mine->answer);
	free(TAKE(mine->refs_recorded));
}

static inline int setup(void **state)
{
	if (make_repo(state) != 0)
		return -1;
	must("rm r.git/objects/info/alternates && mkdir r.git/hooks");
	snprintf(path, sizeof(path), "%s/r.git", root);
	assert_ok(git_setup(root, &err));
	is_bad = false;
	push_init(&push);
	return 0;
}

static inline int teardown(void **state)
{
	push_clear(&push);
	return test_remove_root(state);
}

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static inline const char *text_or_zero(const struct oid *oid, char text[OID_MAX_TEXT])
{
	static const char zero[] = "0000000000000000000000000000000000000000";

	return oid ? oid_text(oid, text) : zero;
}

static inline void command(struct push *mine, const struct oid *old,
			   const struct oid *new, const char *name, const char *caps)
{
	char before[OID_MAX_TEXT], after[OID_MAX_TEXT];
	size_t begin = pkt_begin(&mine->body);

	str_addf(&mine->body, "%s %s %s", text_or_zero(old, before),
		 text_or_zero(new, after), name);
	if (mine->commands++ == 0 && caps) {
		str_add_char(&mine->body, '\0');
		str_add(&mine->body, caps);
	}
	pkt_end(&mine->body, begin);
}

/* The flush, and all that these commits need and the repository has not. */
static inline void pack_of(struct push *mine, const struct oid *oid, const char *options)
{
	char text[OID_MAX_TEXT];

	pkt_add_flush(&mine->body);
	str_add(&mine->body, options);
	must("echo %s | git -C %s pack-objects --revs --stdout -q >pack",
	     oid_text(oid, text), store_path);
	assert_ok(file_read(root_fd, "pack", 1 << 24, &mine->body, &err));
}

static inline void simple(struct push *mine, const struct oid *oid, const char *name)
{
	command(mine, NULL, oid, name, CAPS);
	pack_of(mine, oid, "0000");
}

static inline int read_answer(struct push *mine)
{
	struct receive_pack *pack;
	char buffer[4096];
	ssize_t got;

	if (receive_pack_open(&mine->request, &pack, &mine->err) != 0)
		return -1;
	if (mine == &push) /* a hook may wait for it */
		assert_ok(file_replace(root_fd, "answered", "", 0, FILE_NO_SYNC, &err));
	while ((got = receive_pack_read(pack, buffer, sizeof(buffer), &mine->err)) > 0)
		str_add_bytes(&mine->answer, buffer, (size_t)got);
	receive_pack_close(pack);
	return (int)got;
}

static inline int go(void)
{
	int result;

	read_key(push.key_before);
	result = read_answer(&push);
	err = push.err;
	return result;
}

static inline bool says(const char *text)
{
	return memmem(push.answer.data, push.answer.len, text, strlen(text)) != NULL;
}

static inline void hook(const char *name, const char *script)
{
	AUTO_FREE char *file = xasprintf("hooks/%s", name);
	AUTO_FREE char *text = xasprintf("#!/bin/sh\n%s\n", script);

	write_text(file, text);
	must("chmod +x r.git/%s", file);
}

/* Told once, before the client could read it. */
static inline void assert_outcome(size_t asked, size_t taken, size_t refused)
{
	assert_int_equal(push.reported, 1);
	assert_true(push.outcome.is_known);
	assert_int_equal(push.outcome.asked, asked);
	assert_int_equal(push.outcome.taken, taken);
	assert_int_equal(push.outcome.refused, refused);
	assert_null(memmem(push.answer.data, push.passed, "unpack", 6));
}

static inline void assert_changed_once(void)
{
	char key[STATE_KEY_SIZE];

	read_key(key);
	assert_int_equal(push.recorded, 1);
	assert_string_not_equal(push.key_before, push.key_recorded);
	assert_string_equal(push.key_recorded, key);
	assert_int_equal(pending(), 0);
}

static inline void assert_tidy(void)
{
	must("test -z \"$(ls -d r.git/objects/*incoming* r.git/objects/tmp_objdir* "
	     "r.git/refrelay/state/*.tmp-* 2>/dev/null)\"");
	assert_int_equal(pending(), 0);
}

static inline int note_nothing(void *arg, struct err *error)
{
	(void)error;
	((struct push *)arg)->recorded++;
	return 0;
}

#endif
