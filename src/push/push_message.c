/*
 * The end of stderr. Git's own lines begin with "fatal: " or "error: ", those of the
 * other side with "remote: " once it speaks the protocol; what it or ssh says before
 * that stands as it is. Once the pack is on its way, a complaint without "remote: " is
 * by the process that makes it, here.
 */
#include <ctype.h>

#include "git/git_child.h"
#include "git/git_message.h"
#include "push/outcome.h"
#include "push/push_report.h"

#define WORDS_MAX 300
#define SENT_MOST 1e6 /* of a unit: git never says more, a hook may */

#define FULL "make room at the destination; it is tried again"
#define LOGIN                                                                            \
	"correct username and password of the remote in secure.config, or those in its " \
	"URL"
#define KEY                                                                              \
	"give the destination this user's public key, or set sshKey; the ssh agent is "  \
	"asked, too"
#define HOST_KEY "put the host's key into known_hosts (sshKnownHosts)"
#define HOST                                                                             \
	"check the URL's host name, and DNS; names that only an ssh configuration has "  \
	"need replication.sshConfig"
#define DOWN "it is tried again; check that the destination runs and can be reached"
#define SLOW                                                                             \
	"it is tried again; check that the host of the URL runs and can be reached, "    \
	"and "                                                                           \
	"that nothing on the way drops what is sent; with ssh this is after "            \
	"gerrit.sshConnectionTimeout"
#define ABSENT "make the repository there, or set createMissingRepositories"
#define SERVICE                                                                          \
	"allow pushing there: git daemon --enable=receive-pack, or http.receivepack"
#define PROGRAM "install git there, or set receivepack or gitPath of the remote"
#define FORMAT "make the destination with the same object format"
#define OWNER                                                                            \
	"let the repository there belong to the user who logs in, or have "              \
	"safe.directory there name it"
#define TURNED_AWAY "give the user the right to push there"

static const struct git_meaning meanings[] = {
	{ "no space left on device", ERR_DISK, FULL },
	{ "disk quota exceeded", ERR_DISK, FULL },
	{ "read-only file system", ERR_DISK, "mount it for writing" },
	{ "unable to create temporary object directory", ERR_DISK,
	  "see whether the destination's objects/ can be written" },
	{ "host key verification failed", ERR_CONFIG, HOST_KEY },
	{ "permission denied (", ERR_AUTH, KEY },
	{ "too many authentication failures", ERR_AUTH, KEY },
	{ "could not read username", ERR_AUTH, LOGIN },
	{ "could not read password", ERR_AUTH, LOGIN },
	{ "authentication failed", ERR_AUTH, LOGIN },
	{ "returned error: 401", ERR_AUTH, LOGIN },
	{ "returned error: 403", ERR_AUTH, TURNED_AWAY },
	{ "connection timed out", ERR_TIMEOUT, SLOW },
	{ "operation timed out", ERR_TIMEOUT, SLOW },
	{ "connection refused", ERR_NETWORK, DOWN },
	{ "no route to host", ERR_NETWORK, DOWN },
	{ "network is unreachable", ERR_NETWORK, DOWN },
	{ "could not resolve host", ERR_NETWORK, HOST },
	{ "unable to look up", ERR_NETWORK, HOST },
	{ "access denied or repository not exported", ERR_MISSING, ABSENT },
	{ "repository not found", ERR_MISSING, ABSENT },
	{ "no such repository", ERR_MISSING, ABSENT },
	{ "not a gerrit project", ERR_MISSING, ABSENT },
	{ "project you were looking for could not be found", ERR_MISSING, ABSENT },
	{ "does not appear to be a git repository", ERR_MISSING, ABSENT },
	{ "returned error: 404", ERR_MISSING, ABSENT },
	{ "/' not found", ERR_MISSING, ABSENT },
	{ "service not enabled", ERR_CONFIG, SERVICE },
	{ "dubious ownership", ERR_CONFIG, OWNER },
	{ "command not found", ERR_CONFIG, PROGRAM },
	{ "receive-pack: not found", ERR_CONFIG, PROGRAM },
	{ "receive-pack: no such file", ERR_CONFIG, PROGRAM },
	{ "hash algorithm", ERR_CONFIG, FORMAT },
	{ "unexpected capabilities^{}", ERR_CONFIG, FORMAT },
	{ "connection closed by", ERR_NETWORK, DOWN },
	{ "connection reset", ERR_NETWORK, DOWN },
	{ "kex_exchange_identification", ERR_NETWORK, DOWN },
};

#define SILENT                                                                           \
	"it is tried again; see what the host of the URL does all the time, or raise "   \
	"timeout of the remote"

static const struct git_meaning last_meanings[] = {
	{ "could not read from remote repository", ERR_NETWORK, DOWN },
};

/* What `git pack-objects` says of objects that it cannot read. */
static const struct git_meaning local_meanings[] = {
	{ "bad object", ERR_CORRUPT, "" },
	{ "bad tree object", ERR_CORRUPT, "" },
	{ "error: could not read ", ERR_CORRUPT, "" },
	{ "unable to read", ERR_CORRUPT, "" },
	{ "failed to read object", ERR_CORRUPT, "" },
	{ "unable to get size of", ERR_CORRUPT, "" },
	{ "is corrupt", ERR_CORRUPT, "" },
	{ "inflate:", ERR_CORRUPT, "" },
	{ "unable to unpack", ERR_CORRUPT, "" },
	{ "missing blob", ERR_CORRUPT, "" },
	{ "missing tree", ERR_CORRUPT, "" },
	{ "revision walk setup failed", ERR_CORRUPT, "" },
};

/* Calls `see` for each line; the end of one is LF, CR or both. */
static void each_line(const char *tail,
		      void (*see)(struct str *out, const char *line, size_t len),
		      struct str *out)
{
	size_t len;

	for (; *tail; tail += len + (tail[len] != '\0')) {
		len = strcspn(tail, "\r\n");
		size_t end = len;
		while (end > 0 && isspace((unsigned char)tail[end - 1]))
			end--;
		if (end > 0)
			see(out, tail, end);
	}
}

static bool begins(const char *line, size_t len, const char *prefix)
{
	return len >= strlen(prefix) && strncmp(line, prefix, strlen(prefix)) == 0;
}

/* The line goes on in others. */
static bool has(const char *line, size_t len, const char *text)
{
	const char *at = strstr(line, text);

	return at && at + strlen(text) <= line + len;
}

/* "Resolving deltas:  66% (2/3)", "Counting objects: 3, done." */
static bool is_progress(const char *line, size_t len)
{
	return has(line, len, "% (") || has(line, len, ", done.");
}

static void add_word_line(struct str *out, const char *line, size_t len)
{
	static const char mark[] = "remote: ";

	if (!begins(line, len, mark) || is_progress(line, len))
		return;
	line += strlen(mark);
	len -= strlen(mark);
	if (out->len > 0)
		str_add(out, " | ");
	str_add_bytes(out, line, len);
}

void push_report_clean(const char *said, struct str *out)
{
	size_t len = strlen(said), start = out->len;

	str_add_utf8(out, said, len > WORDS_MAX ? WORDS_MAX : len);
	for (size_t i = start; i < out->len; i++)
		if (iscntrl((unsigned char)out->data[i]))
			out->data[i] = ' ';
	if (len > WORDS_MAX)
		str_add(out, "...");
}

void push_report_words(const char *tail, struct str *out)
{
	AUTO_STR struct str words = STR_INIT;

	each_line(tail, add_word_line, &words);
	push_report_clean(words.data, out);
}

static void add_local_line(struct str *out, const char *line, size_t len)
{
	if (begins(line, len, "remote: ") || begins(line, len, "error: remote unpack"))
		return;
	str_add_bytes(out, line, len);
	str_add_char(out, '\n');
}

bool push_report_is_local(const char *tail, struct err *err)
{
	AUTO_STR struct str local = STR_INIT;
	struct err known;

	if (git_find_meaning(meanings, ARRAY_SIZE(meanings), tail, &known) == 0)
		return false;
	each_line(tail, add_local_line, &local);
	if (git_find_meaning(local_meanings, ARRAY_SIZE(local_meanings), local.data,
			     err) != 0)
		return false;
	outcome_is_local(err, NULL);
	err_remedy(err, "run git fsck in it, and restore what it names");
	return true;
}

int push_report_unpacking(const char *tail, struct err *err)
{
	struct err said;

	if (git_find_meaning(meanings, ARRAY_SIZE(meanings), tail, &said) != 0 ||
	    said.class != ERR_DISK)
		return 0;
	*err = said;
	return -1;
}

/* "Writing objects: 100% (3/3), 12.34 MiB | 1.00 MiB/s, done." */
uint64_t push_report_sent(const char *tail)
{
	static const struct {
		const char *unit;
		double bytes;
	} units[] = { { " bytes", 1 },
		      { " KiB", 1024 },
		      { " MiB", 1024.0 * 1024 },
		      { " GiB", 1024.0 * 1024 * 1024 } };
	const char *at = tail, *last = NULL;
	char *end;
	double number;

	while ((at = strstr(at, "Writing objects: 100% (")) != NULL)
		last = at++;
	last = last ? strstr(last, "), ") : NULL;
	if (!last)
		return 0;
	number = strtod(last + 3, &end);
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (text_starts_with(end, units[i].unit) && number >= 0 &&
		    number < SENT_MOST)
			return (uint64_t)(number * units[i].bytes);
	return 0;
}

/* "fatal: project new/two not found": Gerrit, by ssh. */
static void add_absence(struct str *out, const char *line, size_t len)
{
	static const char begin[] = "fatal: project ", end[] = " not found";
	size_t end_len = strlen(end);

	if (out->len == 0 && begins(line, len, begin) && len > strlen(begin) + end_len &&
	    strncmp(line + len - end_len, end, end_len) == 0)
		str_add_bytes(out, line, len > WORDS_MAX ? WORDS_MAX : len);
}

static bool is_absent(const char *tail, struct err *err)
{
	AUTO_STR struct str said = STR_INIT;

	each_line(tail, add_absence, &said);
	if (said.len == 0)
		return false;
	err_set(err, ERR_MISSING, "git: %s", said.data);
	err_remedy(err, ABSENT);
	return true;
}

static void add_reason(struct str *out, const char *line, size_t len)
{
	if (out->len == 0 && !has(line, len, "ould not read from remote repository"))
		str_add_bytes(out, line, len > WORDS_MAX ? WORDS_MAX : len);
}

/* What git says last is always the same; what stands before it may be a reason that is in
 * no list. "fatal: " is git's there: then the host itself is well. */
static void find_reason(const char *tail, struct err *err)
{
	static const char mark[] = "fatal: ";
	AUTO_STR struct str reason = STR_INIT;

	if (git_find_meaning(last_meanings, ARRAY_SIZE(last_meanings), tail, err) != 0)
		return;
	each_line(tail, add_reason, &reason);
	if (reason.len == 0 || text_starts_with(reason.data, "Please make sure"))
		return;
	if (text_starts_with(reason.data, mark)) {
		err_set(err, ERR_CONFIG, "git: %s", reason.data + strlen(mark));
		err_remedy(err, "mend that at the destination");
	} else {
		err_set(err, ERR_NETWORK, "git: %s", reason.data);
		err_remedy(err, DOWN);
	}
}

/* What stopped it from outside is no matter of what it had to say. */
int push_report_failure(const char *tail, struct err *err)
{
	if (err->class == ERR_LOST || err->class == ERR_CANCELED)
		return -1;
	if (err->reason == REASON_SILENT)
		return err_remedy(err, SILENT);
	if (git_find_meaning(meanings, ARRAY_SIZE(meanings), tail, err) == 0 ||
	    is_absent(tail, err))
		return -1;
	if (err->class == ERR_INTERNAL)
		git_classify(tail, err);
	if (err->class == ERR_INTERNAL)
		find_reason(tail, err);
	return -1;
}
