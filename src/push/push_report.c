#include "push/push_report.h"

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

static bool read_line(char *text, struct push_line *line)
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
		if (read_line(one, line))
			return true;
	return false;
}

/* What a refusal means; the first that is found in it counts. */
static const struct {
	const char *said; /* in any case */
	enum ref_status status;
	bool is_transient, is_lock;
} refusals[] = {
	{ "failed to update ref", REF_REJECTED_OTHER_REASON, true, true },
	{ "failed to lock", REF_REJECTED_OTHER_REASON, true, true },
	{ "cannot lock ref", REF_REJECTED_OTHER_REASON, true, true },
	{ "lock failure", REF_REJECTED_OTHER_REASON, true, true },
	{ "lock_failure", REF_REJECTED_OTHER_REASON, true, true },
	{ "file exists", REF_REJECTED_OTHER_REASON, true, true },
	{ "incorrect old value", REF_REJECTED_REMOTE_CHANGED, true, false },
	{ "unpacker error", REF_REJECTED_OTHER_REASON, true, false },
	{ "failed to report status", REF_REJECTED_OTHER_REASON, true, false },
	{ "internal server error", REF_REJECTED_OTHER_REASON, true, false },
	{ "internal error", REF_REJECTED_OTHER_REASON, true, false },
	{ "no space left", REF_REJECTED_OTHER_REASON, true, false },
	{ "non-fast-forward", REF_REJECTED_NONFASTFORWARD, false, false },
	{ "fetch first", REF_REJECTED_NONFASTFORWARD, false, false },
	{ "already exists", REF_REJECTED_NONFASTFORWARD, false, false },
	{ "needs force", REF_REJECTED_NONFASTFORWARD, false, false },
	{ "not permitted: force update", REF_REJECTED_NONFASTFORWARD, false, false },
	{ "not permitted: delete", REF_REJECTED_NODELETE, false, false },
	{ "deletion prohibited", REF_REJECTED_NODELETE, false, false },
	{ "deletion of the current branch prohibited", REF_REJECTED_NODELETE, false,
	  false },
	{ "does not support deleting refs", REF_REJECTED_NODELETE, false, false },
};

/* A branch cannot be made where a directory of branches is, however often it is tried:
 * receive-pack's report only says that it failed. */
static bool is_in_the_way(const char *tail, const char *dst)
{
	AUTO_FREE char *said = xasprintf("; cannot create '%s'", dst);

	return strstr(tail, said) != NULL;
}

static void add_words(const char *reason, const char *tail, struct str *text)
{
	size_t len;

	push_report_clean(reason, text);
	len = text->len;
	str_add(text, ": ");
	push_report_words(tail, text);
	if (text->len == len + 2)
		str_truncate(text, len);
}

static void refuse(const struct push_line *line, const char *tail,
		   struct ref_result *result)
{
	AUTO_STR struct str text = STR_INIT;
	bool in_the_way = is_in_the_way(tail, line->dst);

	result->status = REF_REJECTED_OTHER_REASON;
	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		if (!strcasestr(line->reason, refusals[i].said))
			continue;
		result->status = refusals[i].status;
		result->is_transient = refusals[i].is_transient && !in_the_way;
		result->is_lock = refusals[i].is_lock && !in_the_way;
		break;
	}
	add_words(*line->reason ? line->reason : line->summary, tail, &text);
	result->text = str_take(&text);
}

static bool is_by_git_here(const struct push_line *line)
{
	return strcmp(line->summary, "[rejected]") == 0;
}

static bool is_for_want_of_force(const char *reason)
{
	static const char *const reasons[] = { "non-fast-forward", "fetch first",
					       "already exists", "needs force" };

	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
		if (strcmp(reason, reasons[i]) == 0)
			return true;
	return false;
}

enum push_verdict push_report_judge(const struct push_line *line, const char *tail,
				    struct ref_result *result)
{
	free(TAKE(result->text));
	result->is_transient = result->is_lock = false;
	if (line->flag == '!' && is_by_git_here(line) &&
	    strcmp(line->reason, "stale info") == 0)
		return PUSH_STALE;
	if (line->flag == '!') {
		refuse(line, is_by_git_here(line) ? "" : tail, result);
		return is_by_git_here(line) && is_for_want_of_force(line->reason)
			       ? PUSH_NEEDS_FORCE
			       : PUSH_SETTLED;
	}
	result->status = line->flag == '=' ? REF_UP_TO_DATE : REF_OK;
	return PUSH_SETTLED;
}

bool push_report_is_unpacking(const struct push_line *line)
{
	return line->flag == '!' && strcmp(line->reason, "unpacker error") == 0;
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
