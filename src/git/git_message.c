/*
 * What git says, and what a caller is to make of it.
 */
#include "git/git_message.h"

#include "git/git_child.h"

#define FSCK "run git fsck in that repository and restore what it names"
#define NOT_THERE                                                                        \
	"a ref names an object that is not there: run git fsck in the repository at "    \
	"the source, delete or mend that ref"
#define GONE "it was renamed or deleted meanwhile; repeat"
#define REFUSED "check that both sites have the same secret, and the right clock"
#define SLOW "it is tried again; look at the network, and at the other site's load"
#define BROKEN "it is tried again; if it stays, check that the other site runs"
#define UNREACHED "check the URL, and that the other site runs"
#define UNTRUSTED "give the other site a certificate that this machine trusts"
#define STRANGE                                                                          \
	"check that the URL is that of a refrelay site, without a proxy's own pages"

static const struct git_meaning meanings[] = {
	{ .said = "no space left on device",
	  ERR_DISK,
	  "free some space on that file system" },
	{ .said = "disk quota exceeded",
	  ERR_DISK,
	  "raise the quota, or free some space" },
	{ .said = "file too large",
	  ERR_DISK,
	  "raise the limit of file sizes (ulimit -f)" },
	{ .said = "read-only file system",
	  ERR_DISK,
	  "mount that file system for writing" },
	{ .said = "input/output error",
	  ERR_DISK,
	  "look at the kernel's log: the disk fails" },
	{ .said = "could not read username", ERR_AUTH, REFUSED },
	{ .said = "returned error: 401", ERR_AUTH, REFUSED },
	{ .said = "returned error: 403", ERR_AUTH, REFUSED },
	{ .said = "authentication failed", ERR_AUTH, REFUSED },
	{ .said = "returned error: 404", ERR_MISSING, GONE },
	{ .said = "/' not found", ERR_MISSING, GONE },
	{ .said = "ssl certificate", ERR_CONFIG, UNTRUSTED },
	{ .said = "server certificate", ERR_CONFIG, UNTRUSTED },
	{ .said = "server verification failed", ERR_CONFIG, UNTRUSTED },
	{ .said = "dubious ownership",
	  ERR_CONFIG,
	  "run refrelay as the repositories' owner" },
	{ .said = "permission denied",
	  ERR_CONFIG,
	  "check owner and mode of the repository" },
	{ .said = "does not appear to be a git repository", ERR_MISSING, GONE },
	{ .said = "' not allowed",
	  ERR_CONFIG,
	  "remove url.<base>.insteadOf from the repository's config" },
	{ .said = "is corrupt", ERR_CORRUPT, FSCK },
	{ .said = "inflate:", ERR_CORRUPT, FSCK },
	{ .said = "sha1 mismatch", ERR_CORRUPT, FSCK },
	{ .said = "hash mismatch", ERR_CORRUPT, FSCK },
	{ .said = "bad object", ERR_CORRUPT, FSCK },
	{ .said = "missing blob", ERR_CORRUPT, FSCK },
	{ .said = "missing tree", ERR_CORRUPT, FSCK },
	{ .said = "unable to read", ERR_CORRUPT, FSCK },
	{ .said = "not our ref", ERR_CORRUPT, NOT_THERE, REASON_NOT_OUR_REF },
	{ .said = "request for unadvertised object",
	  ERR_CORRUPT,
	  NOT_THERE,
	  REASON_NOT_OUR_REF },
	{ .said = "bad tree", ERR_CORRUPT, FSCK },
	{ .said = "unresolved deltas", ERR_CORRUPT, FSCK },
	{ .said = "did not receive expected object", ERR_CORRUPT, FSCK },
	{ .said = "did not send all necessary objects", ERR_CORRUPT, FSCK },
	{ .said = "index file corrupt", ERR_CORRUPT, FSCK },
	{ .said = "failed to traverse parents",
	  ERR_CORRUPT,
	  "run git fsck in that repository" },
	{ .said = "does not match index",
	  ERR_CORRUPT,
	  "run git fsck in that repository" },
	{ .said = "validation error", ERR_CORRUPT, "run git fsck in that repository" },
	{ .said = "cannot open existing pack",
	  ERR_CORRUPT,
	  "run git fsck in that repository" },
	{ .said = "operation too slow", ERR_TIMEOUT, SLOW },
	{ .said = "timed out", ERR_TIMEOUT, SLOW },
	{ .said = "returned error: 408", ERR_TIMEOUT, SLOW },
	{ .said = "returned error: 504", ERR_TIMEOUT, SLOW },
	{ .said = "could not resolve host",
	  ERR_NETWORK,
	  "check the URL's host name, and DNS" },
	{ .said = "failed to connect", ERR_NETWORK, UNREACHED },
	{ .said = "connection refused", ERR_NETWORK, UNREACHED },
	{ .said = "connection reset", ERR_NETWORK, BROKEN },
	{ .said = "returned error: 429",
	  ERR_NETWORK,
	  "the other site is busy; it is tried again" },
	{ .said = "returned error: 3",
	  ERR_CONFIG,
	  "use the URL that this one redirects to" },
	{ .said = "returned error: 5", ERR_NETWORK, "look at the other site's log" },
	{ .said = "returned error: ", ERR_CONFIG, STRANGE },
	{ .said = "empty reply", ERR_NETWORK, "look at the other site's log" },
	{ .said = "rpc failed", ERR_NETWORK, BROKEN },
	{ .said = "unable to access '", ERR_NETWORK, UNREACHED },
	{ .said = "unexpected disconnect", ERR_NETWORK, BROKEN },
	{ .said = "expected flush after", ERR_NETWORK, BROKEN },
	{ .said = "expected 'packfile'", ERR_NETWORK, BROKEN },
	{ .said = "expected packfile", ERR_NETWORK, BROKEN },
	{ .said = "bad line length", ERR_NETWORK, STRANGE },
	{ .said = "invalid server response", ERR_NETWORK, STRANGE },
	{ .said = "not valid: is this a git repository", ERR_NETWORK, STRANGE },
	{ .said = "cannot obtain needed object", ERR_NETWORK, STRANGE },
	{ .said = "protocol error", ERR_NETWORK, BROKEN },
	{ .said = "invalid command '", ERR_NETWORK, BROKEN },
	{ .said = "unexpected line: '", ERR_NETWORK, BROKEN },
	{ .said = "not a git repository",
	  ERR_CORRUPT,
	  "it needs HEAD, objects/ and refs/" },
	{ .said = "early eof", ERR_NETWORK, BROKEN },
	{ .said = "hung up unexpectedly", ERR_NETWORK, BROKEN },
	{ .said = ".lock': file exists", ERR_CONFLICT, "" },
	{ .said = "git upload-pack: aborting due to possible", ERR_CORRUPT, FSCK },
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
		err_because(err, list[i].reason);
		return 0;
	}
	return -1;
}

int git_classify(const char *tail, struct err *err)
{
	git_find_meaning(meanings, ARRAY_SIZE(meanings), tail, err);
	return -1; /* if it says nothing known, what proc_run said stands */
}
