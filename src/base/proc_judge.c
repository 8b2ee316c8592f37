#include "base/proc_run.h"

#include "base/log.h"

/* Masks secrets before the text is cut to size, and begins with a whole line: half a
 * secret has no mark to be known by. */
static void fill_tail(struct run *run, char tail[], size_t size)
{
	AUTO_STR struct str clean = STR_INIT;
	struct str *raw = &run->tail;
	const char *from = raw->data;

	for (size_t i = 0; i < raw->len; i++)
		if (raw->data[i] == '\0')
			raw->data[i] = ' ';
	if (run->tail_is_cut) {
		from = strpbrk(raw->data, "\r\n");
		from = from ? from + 1 : "";
	}
	log_redact(from, &clean);
	snprintf(tail, size, "%s",
		 clean.len < size ? clean.data : clean.data + clean.len - (size - 1));
}

/* The line that explains the end: the last that git marks so, else the last one. */
static void find_line(const char *tail, char line[], size_t size)
{
	bool marked = false;
	size_t len;

	line[0] = '\0';
	for (; *tail; tail += len + (tail[len] != '\0')) {
		len = strcspn(tail, "\r\n");
		bool marks = text_starts_with(tail, "fatal:") ||
			     text_starts_with(tail, "error:");
		if (strspn(tail, " \t") >= len || (marked && !marks))
			continue;
		marked = marks;
		snprintf(line, size, ": %.*s", (int)len, tail);
	}
}

static int cannot_run(const char *name, int error, struct err *err)
{
	errno = error;
	err_errno(err, "cannot run %s", name);
	if (err->class != ERR_MISSING && err->class != ERR_CONFIG && error != ENOEXEC)
		return -1;
	err->class = ERR_CONFIG;
	return err_remedy(err, "install %s, or correct PATH", name);
}

static int cannot_watch(const char *name, int error, struct err *err)
{
	errno = error;
	err_errno(err, "refrelay-run cannot supervise %s", name);
	if (error != ENOENT)
		return -1;
	err->class = ERR_CONFIG;
	return err_remedy(err, "mount /proc; the kernel needs CONFIG_PROC_CHILDREN");
}

static int no_report(const char *name, struct err *err)
{
	err_set(err, ERR_INTERNAL, "the supervisor of %s was killed, and %s with it",
		name, name);
	return err_remedy(err, "look in the kernel's log whether memory ran out");
}

static int was_silent(const struct run *run, const char *name, const char *line,
		      struct err *err)
{
	err_set(err, ERR_TIMEOUT, "%s: nothing was heard of it for %g s%s", name,
		(double)run->request->silence_ms / 1000, line);
	return err_because(err, REASON_SILENT);
}

static int judge_exit(const struct run *run, const char *name, const char *line,
		      struct err *err)
{
	const struct stop *stop = run->request->stop;

	if (run->report.exit_code == 0)
		return 0;
	if (run->is_silent)
		return was_silent(run, name, line, err);
	if (run->told || (stop && stop_is_requested(stop)))
		return err_set(err, ERR_CANCELED, "%s was stopped%s", name, line);
	if (run->report.signal != 0)
		return err_set(err, ERR_INTERNAL, "%s was killed by signal %d%s", name,
			       run->report.signal, line);
	return err_set(err, ERR_INTERNAL, "%s exited with code %d%s", name,
		       run->report.exit_code, line);
}

static int proc_classify_outcome(const struct run *run, const char *line, struct err *err)
{
	const char *name = run->request->argv[0];

	if (!run->reported)
		return no_report(name, err);
	if (run->over_limit)
		return err_set(err, ERR_CORRUPT, "%s wrote more than %zu bytes", name,
			       run->request->output_limit);
	switch ((enum proc_cause)run->report.cause) {
	case PROC_BY_ITSELF:
		return judge_exit(run, name, line, err);
	case PROC_TIMEOUT:
		return err_set(err, ERR_TIMEOUT, "%s took longer than %" PRId64 " ms%s",
			       name, run->request->timeout_ms, line);
	case PROC_DEADLINE:
		return err_set(err, ERR_LOST, "%s had to end at its deadline%s", name,
			       line);
	case PROC_TOLD:
		if (run->is_silent)
			return was_silent(run, name, line, err);
		return err_set(err, ERR_CANCELED, "%s was stopped%s", name, line);
	case PROC_NO_PROGRAM:
		return cannot_run(name, run->report.error, err);
	case PROC_NO_WATCH:
		return cannot_watch(name, run->report.error, err);
	}
	return err_set(err, ERR_INTERNAL, "%s is of another version than this program",
		       proc_supervisor_path());
}

int run_judge(struct run *run, struct proc_result *result, struct err *err)
{
	char line[400];

	result->exit_code = run->report.exit_code;
	result->signal = run->report.signal;
	fill_tail(run, result->tail, sizeof(result->tail));
	find_line(result->tail, line, sizeof(line));
	return proc_classify_outcome(run, line, err);
}
