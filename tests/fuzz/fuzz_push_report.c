/*
 * libFuzzer: anything that a `git push --porcelain` may say on stdout, and what stands
 * behind a line "--" on its stderr, is understood somehow: each ref's line has one of
 * git's flags and gets a status and, refused, a text of one line and of bounded length; a
 * push that failed as a whole has a class.
 */
#include <assert.h>

#include "git/git_message.h"
#include "push/push.h"

#define TEXT_MAX 4096

static void check_line(const struct push_line *line, const char *tail)
{
	struct ref_result result = { .text = NULL };
	enum push_verdict verdict = push_report_judge(line, tail, &result);

	assert(strchr(" +-*!=", line->flag) && line->dst && line->summary &&
	       line->reason);
	assert(ref_status_name(result.status));
	if (line->flag != '!')
		assert(verdict == PUSH_SETTLED && !result.text &&
		       (result.status == REF_OK || result.status == REF_UP_TO_DATE));
	else if (verdict != PUSH_STALE)
		assert(result.status != REF_OK && result.text &&
		       !strchr(result.text, '\n') &&
		       strlen(result.text) <
			       TEXT_MAX + strlen(line->reason) + strlen(line->summary));
	assert(!result.is_lock || result.is_transient);
	assert(!push_report_is_unpacking(line) || line->flag == '!');
	free(result.text);
}

static void check_tail(const char *tail)
{
	AUTO_STR struct str words = STR_INIT;
	struct err err;

	git_message_add_words(tail, &words);
	assert(!strchr(words.data, '\n') && words.len <= strlen(tail));
	git_message_sent(tail);
	for (enum err_class class = ERR_NONE + 1; class <= ERR_INTERNAL; class ++) {
		err_set(&err, class, "git push ended with status 128");
		int result = push_report_failure(tail, &err);
		assert(result == -1 && err.class != ERR_NONE && err.text[0]);
	}
	err_set(&err, ERR_NETWORK, "git push ended with status 128");
	if (push_report_unpacking(tail, &err) != 0)
		assert(err.class != ERR_NONE && err.text[0]);
	err_set(&err, ERR_NETWORK, "git push ended with status 128");
	if (push_report_is_local(tail, &err))
		assert(text_starts_with(err.text, "local repository"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	AUTO_FREE char *text = xstrndup((const char *)data, len);
	char *rest = text, *cut = strstr(text, "\n--\n");
	const char *tail = cut ? cut + 4 : "";
	struct push_line line;
	size_t lines = 0;

	if (cut)
		*cut = '\0';
	while (push_report_next(&rest, &line)) {
		check_line(&line, tail);
		lines++;
	}
	assert(lines <= len / 4);
	check_tail(tail);
	return 0;
}
