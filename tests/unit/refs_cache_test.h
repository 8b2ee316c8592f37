/*
 * What the tests of the info/refs cache share: a cache on the test's root, git behind a
 * program of that name that writes down each call and can be told to fail or to pause,
 * and what git itself would answer.
 */
#ifndef UNIT_REFS_CACHE_TEST_H
#define UNIT_REFS_CACHE_TEST_H

#include "git_test.h"

#include "base/metrics.h"
#include "git/git_child.h"
#include "serve/refs_parts.h"

#define REFS_CASE(name) cmocka_unit_test_setup_teardown(name, refs_setup, refs_teardown)

static struct refs_cache *cache;
static struct slots *fills;
static struct serve_settings settings;
static struct stop leave;
static char usual_path[4096];

static inline void open_cache(void)
{
	cache = refs_cache_open(&(struct refs_cache_options){
		.root = root, .settings = &settings, .slots = fills });
}

static inline void close_cache(void)
{
	refs_cache_close(TAKE(cache));
}

/* Files beside it tell it what to do: "fail"; "slow": it stops in the middle as long as
 * that is there; "moves": a script to be run before its answer ends. */
static inline void write_git(void)
{
	AUTO_FREE char *git = output_of("command -v git | tr -d '\\n'");
	AUTO_FREE char *text = xasprintf(
		"#!/bin/sh\n"
		"echo \"${GIT_PROTOCOL:-none} $*\" >>%1$s/log\n"
		"case \"$GIT_PROTOCOL $*\" in *version=2*) exec %2$s \"$@\" ;;\n"
		"*upload-pack*) ;; *) exec %2$s \"$@\" ;; esac\n"
		"if test -e %1$s/fail; then echo 'fatal: no' >&2; exit 1; fi\n"
		"if test -e %1$s/slow; then\n"
		"	%2$s \"$@\" >%1$s/all.$$\n"
		"	head -c 5000 %1$s/all.$$\n"
		"	while test -e %1$s/slow; do sleep 0.01; done\n"
		"	if test -e %1$s/break; then exit 1; fi\n"
		"	exec tail -c +5001 %1$s/all.$$\n"
		"fi\n"
		"if test -e %1$s/moves; then %2$s \"$@\"; . %1$s/moves; exit 0; fi\n"
		"exec %2$s \"$@\"\n",
		root, git);
	AUTO_FREE char *path = xasprintf("%s/bin:%s", root, usual_path);

	must("mkdir bin");
	assert_ok(
		file_replace(root_fd, "bin/git", text, strlen(text), FILE_NO_SYNC, &err));
	must("chmod +x bin/git && : >log");
	setenv("PATH", path, 1);
}

static inline void set_ref(const char *name, const struct oid *oid)
{
	char text[OID_MAX_TEXT];

	must("%s/bin/git -C r.git update-ref %s %s", root, name, oid_text(oid, text));
}

static inline int refs_setup(void **state)
{
	if (make_repo(state) != 0)
		return -1;
	snprintf(usual_path, sizeof(usual_path), "%s", getenv("PATH"));
	write_git();
	set_ref("refs/heads/main", &commits[9]);
	set_ref("refs/tags/v1", &tags[0]);
	assert_ok(git_setup(root, &err));
	settings = (struct serve_settings){
		.directory = xasprintf("%s/cache", root),
		.disk_cache = { .size = 1 << 30, .max_age_ms = 86400 * 1000 },
		.memory = 64 << 20,
		.fills = { .running = 4, .waiting = 64, .wait_ms = 30000 },
		.timeout_ms = 60000,
	};
	stop_init(&leave);
	fills = slots_new("fills", &settings.fills);
	open_cache();
	return 0;
}

static inline int refs_teardown(void **state)
{
	close_cache();
	slots_free(fills);
	stop_clear(&leave);
	setenv("PATH", usual_path, 1);
	free(settings.directory);
	return test_remove_root(state);
}

static inline int get(const char *name, struct refs_answer *answer)
{
	return refs_cache_get(
		cache,
		&(struct refs_request){ .name = name, .kind = REFS_INFO, .stop = &leave },
		answer, &err);
}

/* How often a class of answers was counted, by all tests so far. */
static inline int counted(const char *class)
{
	AUTO_STR struct str text = STR_INIT;
	AUTO_FREE char *wanted = xasprintf("refrelay_refs_requests_total"
					   "{kind=\"info_refs\",class=\"%s\"} ",
					   class);

	metrics_render_as(METRICS_PROMETHEUS, &text);
	const char *at = strstr(text.data, wanted);
	return at ? atoi(at + strlen(wanted)) : 0;
}

/* Generators that ran. */
static inline int runs(void)
{
	AUTO_FREE char *text = output_of("grep -c '^none.*upload-pack' log || true");

	return atoi(text);
}

static inline char *truth(const char *name)
{
	return output_of("printf '001e# service=git-upload-pack\\n0000' && PATH='%s' "
			 "git upload-pack --http-backend-info-refs %s.git | tr '\\0' '#'",
			 usual_path, name);
}

/* As text, which has no NUL. */
static inline char *as_text(const char *bytes, size_t len)
{
	char *text = xmalloc(len + 1);

	for (size_t i = 0; i < len; i++)
		text[i] = bytes[i] ? bytes[i] : '#';
	text[len] = '\0';
	return text;
}

static inline char *text_of_generation(struct generation *generation)
{
	struct generation_body body = generation_info_refs(generation, 0, false);

	return as_text(body.data, body.len);
}

/* Asks, and it must be a generation that says what git says now. */
static inline void assert_true_answer(const char *name)
{
	AUTO_FREE char *wanted = truth(name);
	struct refs_answer answer;

	assert_ok(get(name, &answer));
	if (!answer.generation)
		fail_msg("bypassed: %s", bypass_name(answer.bypass));
	AUTO_FREE char *found = text_of_generation(answer.generation);
	refs_answer_clear(&answer);
	assert_string_equal(found, wanted);
}

#endif
