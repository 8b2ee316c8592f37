#include "push/push_report.h"

#include <ctype.h>

#include "git/git_message.h"
#include "push/outcome.h"

#define WORDS_MAX 300

static char *cut_line(char **text)
{
	char *line = *text;
	size_t len = strcspn(line, "\n");

	if (!*line)
		return NULL;
	*text = line + len + (line[len] == '\n');
	line[len] = '\0';
	return line;
}

/* The summary may hold parentheses of its own only in what the other side gave as reason,
 * which comes last. */
static void split_summary(char *summary, struct push_line *line)
{
	char *reason = strstr(summary, " (");
	size_t len = strlen(summary);

	line->summary = summary;
	line->reason = "";
	if (!reason || summary[len - 1] != ')')
		return;
	summary[len - 1] = '\0';
	*reason = '\0';
	line->reason = reason + 2;
}

static bool push_report_parse_line(char *text, struct push_line *line)
{
	char *names, *summary, *dst;

	if (!text[0] || !strchr(" +-*!=", text[0]) || text[1] != '\t')
		return false;
	names = text + 2;
	summary = strchr(names, '\t');
	if (!summary)
		return false;
	*summary++ = '\0';
	dst = strchr(names, ':');
	if (!dst)
		return false;
	line->flag = text[0];
	line->dst = dst + 1;
	split_summary(summary, line);
	return true;
}

bool push_report_next(char **text, struct push_line *line)
{
	char *one;

	while ((one = cut_line(text)) != NULL)
		if (push_report_parse_line(one, line))
			return true;
	return false;
}

/* What a refusal comes to. */
static const struct {
	enum ref_status status;
	bool is_transient, is_lock;
} effects[] = {
	[REFUSAL_OTHER] = { REF_REJECTED_OTHER_REASON, false, false },
	[REFUSAL_STALE] = { REF_REJECTED_OTHER_REASON, false, false },
	[REFUSAL_LOCKED] = { REF_REJECTED_OTHER_REASON, true, true },
	[REFUSAL_CHANGED] = { REF_REJECTED_REMOTE_CHANGED, true, false },
	[REFUSAL_UNPACKING] = { REF_REJECTED_OTHER_REASON, true, false },
	[REFUSAL_PASSING] = { REF_REJECTED_OTHER_REASON, true, false },
	[REFUSAL_NO_FORCE] = { REF_REJECTED_NONFASTFORWARD, false, false },
	[REFUSAL_NO_DELETION] = { REF_REJECTED_NODELETE, false, false },
};

/* Shortened, and in one line. */
static void add_clean(const char *said, struct str *out)
{
	size_t len = strlen(said), start = out->len;

	str_add_utf8(out, said, len > WORDS_MAX ? WORDS_MAX : len);
	for (size_t i = start; i < out->len; i++)
		if (iscntrl((unsigned char)out->data[i]))
			out->data[i] = ' ';
	if (len > WORDS_MAX)
		str_add(out, "...");
}

static void fill_text(const struct push_line *line, const char *tail,
		      struct ref_result *result)
{
	AUTO_STR struct str text = STR_INIT, words = STR_INIT;

	add_clean(*line->reason ? line->reason : line->summary, &text);
	git_message_add_words(tail, &words);
	if (words.len > 0) {
		str_add(&text, ": ");
		add_clean(words.data, &text);
	}
	result->text = str_take(&text);
}

/* A branch cannot be made where a directory of branches is, however often it is tried. */
static void push_report_refuse(const struct push_line *line, enum git_refusal refusal,
			       const char *tail, struct ref_result *result)
{
	bool may_pass = !git_message_is_in_the_way(tail, line->dst);

	result->status = effects[refusal].status;
	result->is_transient = effects[refusal].is_transient && may_pass;
	result->is_lock = effects[refusal].is_lock && may_pass;
	fill_text(line, tail, result);
}

enum push_verdict push_report_judge(const struct push_line *line, const char *tail,
				    struct ref_result *result)
{
	enum git_refusal refusal = git_message_refusal(line->reason);
	bool is_here = git_message_is_refused_here(line->summary);

	free(TAKE(result->text));
	result->is_transient = result->is_lock = result->needs_force = false;
	if (line->flag != '!') {
		result->status = line->flag == '=' ? REF_UP_TO_DATE : REF_OK;
		return PUSH_SETTLED;
	}
	if (is_here && refusal == REFUSAL_STALE)
		return PUSH_STALE;
	push_report_refuse(line, refusal, is_here ? "" : tail, result);
	result->needs_force = is_here && refusal == REFUSAL_NO_FORCE;
	return result->needs_force ? PUSH_NEEDS_FORCE : PUSH_SETTLED;
}

bool push_report_is_unpacking(const struct push_line *line)
{
	return line->flag == '!' &&
	       git_message_refusal(line->reason) == REFUSAL_UNPACKING;
}

#define SILENT                                                                           \
	"it is tried again; see what the host of the URL does all the time, or raise "   \
	"timeout of the remote"

/* What stopped it from outside is no matter of what it had to say. */
int push_report_failure(const char *tail, struct err *err)
{
	if (err->class == ERR_LOST || err->class == ERR_CANCELED)
		return -1;
	if (err->reason == REASON_SILENT)
		return err_remedy(err, SILENT);
	if (!git_message_find(SPEAKER_PUSH, tail, err) && err->class == ERR_INTERNAL)
		git_message_guess(tail, err);
	return -1;
}

int push_report_unpacking(const char *tail, struct err *err)
{
	struct err said;

	if (!git_message_find(SPEAKER_PUSH, tail, &said) || said.class != ERR_DISK)
		return 0;
	*err = said;
	return -1;
}

bool push_report_is_local(const char *tail, struct err *err)
{
	struct err known;

	if (git_message_find(SPEAKER_PUSH, tail, &known) ||
	    !git_message_find(SPEAKER_PACK, tail, err))
		return false;
	outcome_is_local(err, NULL);
	return true;
}

const char *ref_status_name(enum ref_status status)
{
	static const char *const names[] = {
		[REF_OK] = "OK",
		[REF_UP_TO_DATE] = "UP_TO_DATE",
		[REF_NON_EXISTING] = "NON_EXISTING",
		[REF_REJECTED_NONFASTFORWARD] = "REJECTED_NONFASTFORWARD",
		[REF_REJECTED_NODELETE] = "REJECTED_NODELETE",
		[REF_REJECTED_REMOTE_CHANGED] = "REJECTED_REMOTE_CHANGED",
		[REF_REJECTED_OTHER_REASON] = "REJECTED_OTHER_REASON",
		[REF_NOT_ATTEMPTED] = "NOT_ATTEMPTED",
	};

	return names[status];
}
