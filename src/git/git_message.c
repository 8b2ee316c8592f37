/*
 * What git says, and what a caller is to make of it.
 */
#include "git/git_message.h"

#include "git/git_child.h"

#define FSCK "run git fsck in that repository and restore what it names"
#define GONE "it was renamed or deleted meanwhile; repeat"
#define REFUSED "check that both sites have the same secret, and the right clock"
#define SLOW "it is tried again; look at the network, and at the other site's load"
#define BROKEN "it is tried again; if it stays, check that the other site runs"
#define UNREACHED "check the URL, and that the other site runs"
#define UNTRUSTED "give the other site a certificate that this machine trusts"
#define STRANGE                                                                          \
	"check that the URL is that of a refrelay site, without a proxy's own pages"

#define NOT_THERE                                                                        \
	"a ref names an object that is not there: run git fsck in the repository at "    \
	"the source, delete or mend that ref"
#define NOT_OUR_REF "not our ref"
#define NOT_OFFERED "request for unadvertised object"

static const struct git_meaning meanings[] = {
	{ "no space left on device", ERR_DISK, "free some space on that file system" },
	{ "disk quota exceeded", ERR_DISK, "raise the quota, or free some space" },
	{ "file too large", ERR_DISK, "raise the limit of file sizes (ulimit -f)" },
	{ "read-only file system", ERR_DISK, "mount that file system for writing" },
	{ "input/output error", ERR_DISK, "look at the kernel's log: the disk fails" },
	{ "could not read username", ERR_AUTH, REFUSED },
	{ "returned error: 401", ERR_AUTH, REFUSED },
	{ "returned error: 403", ERR_AUTH, REFUSED },
	{ "authentication failed", ERR_AUTH, REFUSED },
	{ "returned error: 404", ERR_MISSING, GONE },
	{ "/' not found", ERR_MISSING, GONE },
	{ "ssl certificate", ERR_CONFIG, UNTRUSTED },
	{ "server certificate", ERR_CONFIG, UNTRUSTED },
	{ "server verification failed", ERR_CONFIG, UNTRUSTED },
	{ "dubious ownership", ERR_CONFIG, "run refrelay as the repositories' owner" },
	{ "permission denied", ERR_CONFIG, "check owner and mode of the repository" },
	{ "does not appear to be a git repository", ERR_MISSING, GONE },
	{ "' not allowed", ERR_CONFIG,
	  "remove url.<base>.insteadOf from the repository's config" },
	{ "is corrupt", ERR_CORRUPT, FSCK },
	{ "inflate:", ERR_CORRUPT, FSCK },
	{ "sha1 mismatch", ERR_CORRUPT, FSCK },
	{ "hash mismatch", ERR_CORRUPT, FSCK },
	{ "bad object", ERR_CORRUPT, FSCK },
	{ "missing blob", ERR_CORRUPT, FSCK },
	{ "missing tree", ERR_CORRUPT, FSCK },
	{ "unable to read", ERR_CORRUPT, FSCK },
	{ NOT_OUR_REF, ERR_CORRUPT, NOT_THERE },
	{ NOT_OFFERED, ERR_CORRUPT, NOT_THERE },
	{ "bad tree", ERR_CORRUPT, FSCK },
	{ "unresolved deltas", ERR_CORRUPT, FSCK },
	{ "multi-pack-index", ERR_CORRUPT,
	  "run git multi-pack-index write in that repository, or remove the file" },
	{ "did not receive expected object", ERR_CORRUPT, FSCK },
	{ "did not send all necessary objects", ERR_CORRUPT, FSCK },
	{ "index file corrupt", ERR_CORRUPT, FSCK },
	{ "failed to traverse parents", ERR_CORRUPT, "run git fsck in that repository" },
	{ "does not match index", ERR_CORRUPT, "run git fsck in that repository" },
	{ "validation error", ERR_CORRUPT, "run git fsck in that repository" },
	{ "cannot open existing pack", ERR_CORRUPT, "run git fsck in that repository" },
	{ "operation too slow", ERR_TIMEOUT, SLOW },
	{ "timed out", ERR_TIMEOUT, SLOW },
	{ "returned error: 408", ERR_TIMEOUT, SLOW },
	{ "returned error: 504", ERR_TIMEOUT, SLOW },
	{ "could not resolve host", ERR_NETWORK, "check the URL's host name, and DNS" },
	{ "failed to connect", ERR_NETWORK, UNREACHED },
	{ "connection refused", ERR_NETWORK, UNREACHED },
	{ "connection reset", ERR_NETWORK, BROKEN },
	{ "returned error: 429", ERR_NETWORK,
	  "the other site is busy; it is tried again" },
	{ "returned error: 3", ERR_CONFIG, "use the URL that this one redirects to" },
	{ "returned error: 5", ERR_NETWORK, "look at the other site's log" },
	{ "returned error: ", ERR_CONFIG, STRANGE },
	{ "empty reply", ERR_NETWORK, "look at the other site's log" },
	{ "rpc failed", ERR_NETWORK, BROKEN },
	{ "unable to access '", ERR_NETWORK, UNREACHED },
	{ "unexpected disconnect", ERR_NETWORK, BROKEN },
	{ "expected flush after", ERR_NETWORK, BROKEN },
	{ "expected 'packfile'", ERR_NETWORK, BROKEN },
	{ "expected packfile", ERR_NETWORK, BROKEN },
	{ "bad line length", ERR_NETWORK, STRANGE },
	{ "invalid server response", ERR_NETWORK, STRANGE },
	{ "not valid: is this a git repository", ERR_NETWORK, STRANGE },
	{ "cannot obtain needed object", ERR_NETWORK, STRANGE },
	{ "protocol error", ERR_NETWORK, BROKEN },
	{ "invalid command '", ERR_NETWORK, BROKEN },
	{ "unexpected line: '", ERR_NETWORK, BROKEN },
	{ "not a git repository", ERR_CORRUPT, "it needs HEAD, objects/ and refs/" },
	{ "early eof", ERR_NETWORK, BROKEN },
	{ "hung up unexpectedly", ERR_NETWORK, BROKEN },
	{ ".lock': file exists", ERR_CONFLICT, "" },
	{ "git upload-pack: aborting due to possible", ERR_CORRUPT, FSCK },
};

/* The whole line around `at`, without git's "fatal: " and the like. */
static void copy_line(const char *tail, const char *at, char *out, size_t size)
{
	static const char *const marks[] = { "remote: ", "fatal: ", "error: " };
	const char *start = at;

	while (start > tail && start[-1] != '\n' && start[-1] != '\r')
		start--;
	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		if (text_starts_with(start, marks[i]) && start + strlen(marks[i]) <= at)
			start += strlen(marks[i]);
	size_t len = strcspn(start, "\r\n");
	while (len > 0 && start[len - 1] == ' ')
		len--; /* the other side's line was padded over a progress bar */
	snprintf(out, size, "%.*s", (int)len, start);
}

/* Of the few that something is decided by. */
static enum err_reason reason_of(const char *said)
{
	return strcmp(said, NOT_OUR_REF) == 0 || strcmp(said, NOT_OFFERED) == 0
		       ? REASON_NOT_OUR_REF
		       : REASON_NONE;
}

int git_find_meaning(const struct git_meaning *list, size_t count, const char *tail,
		     struct err *err)
{
	char line[400];

	for (size_t i = 0; i < count; i++) {
		const char *at = strcasestr(tail, list[i].said);
		if (!at)
			continue;
		copy_line(tail, at, line, sizeof(line));
		err_set(err, list[i].class, "git: %s", line);
		err_remedy(err, "%s", list[i].remedy);
		err_because(err, reason_of(list[i].said));
		return 0;
	}
	return -1;
}

#define TOLD "refrelay says "
#define REMEDY " -- "

void git_told_render(const struct err *err, struct str *out)
{
	str_addf(out, TOLD "%s: ", err_class_name(err->class));
	str_add_printable(out, err->text);
	if (err->remedy[0]) {
		str_add(out, REMEDY);
		str_add_printable(out, err->remedy);
	}
}

static bool find_told(const char *tail, struct err *err)
{
	const char *at = strstr(tail, "remote error: " TOLD);
	char line[sizeof(err->text) + sizeof(err->remedy)];

	if (!at)
		return false;
	at += strlen("remote error: " TOLD);
	snprintf(line, sizeof(line), "%.*s", (int)strcspn(at, "\r\n"), at);
	char *text = strstr(line, ": "), *remedy = strstr(line, REMEDY);
	if (!text)
		return false;
	*text = '\0';
	if (remedy)
		*remedy = '\0';
	err_set(err, err_class_of_name(line), "the other site says: %s", text + 2);
	err_because(err, REASON_AT_PEER);
	err_remedy(err, "there: %s",
		   remedy ? remedy + strlen(REMEDY) : "look into that site's log");
	return true;
}

int git_classify(const char *tail, struct err *err)
{
	if (find_told(tail, err))
		return -1;
	git_find_meaning(meanings, ARRAY_SIZE(meanings), tail, err);
	return -1; /* if it says nothing known, what proc_run said stands */
}
