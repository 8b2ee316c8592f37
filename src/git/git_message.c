/*
 * The end of stderr. Git's own lines begin with "fatal: " or "error: ", those of the
 * other side with "remote: " once it speaks the protocol; what it or ssh says before
 * that stands as it is. Once a pack is on its way, a complaint without "remote: " is by
 * the process that makes it, here.
 */
#include "git/git_message.h"

#include <ctype.h>

#define GIT SPEAKER_GIT
#define PUSH SPEAKER_PUSH
#define PACK SPEAKER_PACK
#define SSH SPEAKER_SSH
#define COMMAND SPEAKER_COMMAND
#define GERRIT SPEAKER_GERRIT

#define LINE_MOST 400 /* of one line, in an error */
#define SENT_MOST 1e6 /* of a unit: git never says more, a hook may */

#define FSCK "run git fsck in that repository and restore what it names"
#define BROKEN "it is tried again; if it stays, check that the other site runs"
#define UNREACHED "check the URL, and that the other site runs"
#define STRANGE                                                                          \
	"check that the URL is that of a refrelay site, without a proxy's own pages"
#define DOWN "it is tried again; check that the destination runs and can be reached"
#define ABSENT "make the repository there, or set createMissingRepositories"

/* Any of `said`, in any case. The first that is found counts: causes stand before what
 * follows from them. */
static const struct meaning {
	unsigned speakers;
	enum err_class class;
	const char *remedy;
	const char *said[11]; /* up to the first NULL */
	enum err_reason reason;
	int sys_errno; /* as of the call that failed in git, where that counts; else 0 */
} meanings[] = {
	{ PUSH, ERR_DISK, "make room at the destination; it is tried again",
	  .said = { "no space left on device", "disk quota exceeded" } },
	{ GIT | COMMAND, ERR_DISK, "free some space on that file system",
	  .said = { "no space left on device" } },
	{ GIT | COMMAND, ERR_DISK, "raise the quota, or free some space",
	  .said = { "disk quota exceeded" } },
	{ GIT, ERR_DISK, "raise the limit of file sizes (ulimit -f)",
	  .said = { "file too large" }, .reason = REASON_TOO_LARGE },
	{ GIT, ERR_INTERNAL, "give this machine more memory",
	  .said = { "out of memory, malloc failed", "out of memory, calloc failed",
		    "out of memory, realloc failed", "mmap failed: cannot allocate" },
	  .reason = REASON_TOO_LARGE, .sys_errno = ENOMEM },
	{ GIT, ERR_INTERNAL, "look in the kernel's log whether memory ran out",
	  .said = { "index-pack died of signal 9",
		    "pack-objects died of signal 9",   /* unpack-objects, too */
		    "--shallow-file died of signal 9", /* it, of a cut history */
		    "rev-list died of signal 9", "cannot allocate memory" },
	  .sys_errno = ENOMEM },
	{ GIT, ERR_INTERNAL,
	  "raise the limits of processes and open files (TasksMax= and LimitNOFILE= in "
	  "the unit)",
	  .said = { "unable to create thread", "cannot fork", "cannot create async",
		    "too many open files" },
	  .sys_errno = EAGAIN },
	{ GIT | PUSH | COMMAND, ERR_DISK, "mount that file system for writing",
	  .said = { "read-only file system" } },
	{ GIT | COMMAND, ERR_DISK, "look at that machine's kernel log: the disk fails",
	  .said = { "input/output error" }, .sys_errno = EIO },
	{ GIT | PACK | COMMAND, ERR_DISK,
	  "see whether the server of that file system runs, and mount it anew",
	  .said = { "stale file handle", "transport endpoint is not connected",
		    "no locks available" },
	  .sys_errno = ESTALE },
	{ PUSH, ERR_DISK, "see whether the destination's objects/ can be written",
	  .said = { "unable to create temporary object directory" } },

	{ PUSH | SSH, ERR_CONFIG,
	  "put its key, compared with what the host's administrator says, into "
	  "known_hosts (ssh-keyscan HOST), or the file of sshKnownHosts",
	  .said = { "host key verification failed" } },
	{ SSH, ERR_CONFIG, "correct ssh's configuration file",
	  .said = { "bad configuration option" } },
	{ SSH, ERR_CONFIG, "correct replication.sshConfig",
	  .said = { "can't open user config file" } },
	{ SSH, ERR_CONFIG, "correct owner and mode of that file",
	  .said = { "bad owner or permissions" } },
	{ SSH, ERR_CONFIG,
	  "allow an algorithm that both sides have, by replication.sshConfig",
	  .said = { "unable to negotiate" } },
	{ PUSH | SSH, ERR_AUTH,
	  "check the user in the URL; give the destination this user's public key "
	  "(authorized_keys there), or set sshKey; the ssh agent is asked, too",
	  .said = { "permission denied (", "too many authentication failures" } },

	{ GIT, ERR_CONFIG,
	  "put its key, compared with what the host's administrator says, into the file "
	  "of "
	  "knownHostsFile (ssh-keyscan HOST)",
	  .said = { "host key verification failed" } },
	{ GIT, ERR_AUTH,
	  "give the upstream the public key that belongs to sshKeyFile, and check the "
	  "user "
	  "in the URL",
	  .said = { "permission denied (", "too many authentication failures" } },
	{ GIT, ERR_AUTH,
	  "check that both sites have the same secret, and the right clock",
	  .said = { "could not read username", "returned error: 401",
		    "returned error: 403", "authentication failed" } },
	{ PUSH, ERR_AUTH,
	  "correct username and password of the remote in secure.config, or those in "
	  "its URL",
	  .said = { "could not read username", "could not read password",
		    "authentication failed", "returned error: 401" } },
	{ PUSH, ERR_AUTH, "give the user the right to push there",
	  .said = { "returned error: 403" } },

	/* git-shell, GitHub, Gitea, GitLab, Gitolite: what stands for a shell there runs
	 * git's transfers only. Gitolite ends with 255, too, as ssh does. */
	{ SSH | COMMAND, ERR_CONFIG,
	  "that account may only fetch and push: give adminUrl of the remote one with a "
	  "shell, or do it there yourself",
	  .said = { "unrecognized command", "invalid command", "unknown command",
		    "unknown git", "disallowed command", "suspicious characters" },
	  .reason = REASON_NO_WAY },

	{ PUSH | SSH, ERR_NETWORK,
	  "check the URL's host name, and DNS; names that only an ssh configuration has "
	  "need replication.sshConfig",
	  .said = { "could not resolve host", "unable to look up" } },
	{ SSH, ERR_TIMEOUT,
	  "check that the host of the URL can be reached, and that sshd runs there; if "
	  "it is only slow, raise gerrit.sshConnectionTimeout",
	  .said = { "timed out", "not responding" } },
	{ SSH, ERR_NETWORK, "check the URL's host and port, and that sshd runs there",
	  .said = { "" } },
	{ PUSH, ERR_TIMEOUT,
	  "it is tried again; check that the host of the URL runs and can be reached, "
	  "and that nothing on the way drops what is sent; with ssh this is after "
	  "gerrit.sshConnectionTimeout",
	  .said = { "connection timed out", "operation timed out" } },
	{ PUSH, ERR_NETWORK, DOWN,
	  .said = { "connection refused", "no route to host",
		    "network is unreachable" } },

	{ GERRIT, ERR_CONFLICT, "", .said = { "already exists" } },
	{ GERRIT, ERR_CONFIG, "", .said = { "deleteproject: not found" } },
	{ GERRIT, ERR_MISSING, ABSENT,
	  .said = { "not found", "not a gerrit project", "no such project" } },
	{ PUSH, ERR_MISSING, ABSENT,
	  .said = { "access denied or repository not exported", "repository not found",
		    "no such repository", "not a gerrit project",
		    "project you were looking for could not be found",
		    "does not appear to be a git repository", "returned error: 404",
		    "/' not found" } },

	{ PUSH, ERR_CONFIG,
	  "allow pushing there: git daemon --enable=receive-pack, or http.receivepack",
	  .said = { "service not enabled" } },
	{ PUSH, ERR_CONFIG,
	  "let the repository there belong to the user who logs in, or have "
	  "safe.directory there name it",
	  .said = { "dubious ownership" } },
	{ PUSH, ERR_CONFIG,
	  "install git there, or set receivepack or gitPath of the remote",
	  .said = { "command not found", "receive-pack: not found",
		    "receive-pack: no such file" } },
	{ PUSH, ERR_CONFIG, "make the destination with the same object format",
	  .said = { "hash algorithm", "unexpected capabilities^{}" } },
	{ PUSH, ERR_NETWORK, DOWN,
	  .said = { "connection closed by", "connection reset",
		    "kex_exchange_identification" } },

	{ GIT, ERR_CONFIG,
	  "give the other site a certificate that this machine trusts; that of an "
	  "authority of your own goes into /usr/local/share/ca-certificates "
	  "(NAME.crt), then run update-ca-certificates",
	  .said = { "ssl certificate", "server certificate",
		    "server verification failed" },
	  .reason = REASON_AT_PEER },
	{ GIT, ERR_CONFIG, "run refrelay as the repositories' owner",
	  .said = { "dubious ownership" } },
	/* Ours, below data: that says nothing of the repository. */
	{ GIT, ERR_DISK, "check owner and mode of that file; it is tried again",
	  .said = { "/gitconfig': permission denied" } },
	{ GIT | COMMAND, ERR_CONFIG, "check owner and mode of that path",
	  .said = { "permission denied" } },
	{ GIT, ERR_MISSING, "it was renamed or deleted meanwhile; repeat",
	  .said = { "returned error: 404", "/' not found",
		    "does not appear to be a git repository",
		    "access denied or repository not exported", "repository not found",
		    "no such repository",
		    "project you were looking for could not be found" },
	  .reason = REASON_AT_PEER },
	{ GIT, ERR_CONFIG,
	  "the upstream knows no shallow clones: take depth out of its mirror",
	  .said = { "does not support shallow" }, .reason = REASON_AT_PEER },
	{ GIT, ERR_CONFIG, "remove url.<base>.insteadOf from the repository's config",
	  .said = { "' not allowed" } },

	{ GIT, ERR_CORRUPT,
	  "no git writes such a path into a working tree: have it taken out at the "
	  "upstream, or set mirror.checkout = false",
	  .said = { "invalid path '" } },
	{ GIT | PACK, ERR_CORRUPT, FSCK,
	  .said = { "is corrupt", "inflate:", "sha1 mismatch", "hash mismatch",
		    "bad object", "missing blob", "missing tree", "unable to read" } },
	{ GIT, ERR_CORRUPT,
	  "a ref names an object that is not there: run git fsck in the repository at "
	  "the source, delete or mend that ref",
	  .said = { "not our ref", "request for unadvertised object" },
	  .reason = REASON_NOT_OUR_REF },
	{ GIT, ERR_CORRUPT,
	  "run git multi-pack-index write in that repository, or remove the file",
	  .said = { "multi-pack-index" } },
	{ GIT, ERR_CORRUPT,
	  "run git commit-graph write --reachable in that repository, or remove "
	  "objects/info/commit-graph and objects/info/commit-graphs",
	  .said = { "invalid parent position", "commit-graph is likely corrupt",
		    "commit-graph requires overflow generation data" } },
	{ GIT, ERR_CORRUPT, FSCK,
	  .said = { "bad tree", "unresolved deltas", "did not receive expected object",
		    "did not send all necessary objects", "index file corrupt",
		    "failed to traverse parents", "does not match index",
		    "validation error", "cannot open existing pack" } },
	{ PACK, ERR_CORRUPT, FSCK,
	  .said = { "bad tree object", "error: could not read ", "failed to read object",
		    "unable to get size of", "unable to unpack",
		    "revision walk setup failed" } },

	{ GIT, ERR_TIMEOUT,
	  "it is tried again; look at the network, and at the other site's load",
	  .said = { "operation too slow", "timed out", "returned error: 408",
		    "returned error: 504" } },
	{ GIT, ERR_NETWORK, "check the URL's host name, and DNS",
	  .said = { "could not resolve host" } },
	{ GIT, ERR_NETWORK, UNREACHED,
	  .said = { "failed to connect", "connection refused" } },
	{ GIT, ERR_NETWORK, "the other site is busy; it is tried again",
	  .said = { "returned error: 429" } },
	{ GIT, ERR_CONFIG, "use the URL that this one redirects to",
	  .said = { "returned error: 3" }, .reason = REASON_AT_PEER },
	{ GIT, ERR_NETWORK, "look at the other site's log",
	  .said = { "returned error: 5", "empty reply" } },
	{ GIT, ERR_CONFIG, STRANGE, .said = { "returned error: " },
	  .reason = REASON_AT_PEER },
	{ GIT, ERR_NETWORK, BROKEN,
	  .said = { "connection reset", "rpc failed", "unexpected disconnect",
		    "expected flush after", "expected 'packfile'",
		    "expected packfile" } },
	{ GIT, ERR_NETWORK, UNREACHED, .said = { "unable to access '" } },
	{ GIT, ERR_NETWORK, STRANGE,
	  .said = { "bad line length", "invalid server response",
		    "not valid: is this a git repository",
		    "cannot obtain needed object" } },
	{ GIT, ERR_CORRUPT, "it needs HEAD, objects/ and refs/",
	  .said = { "not a git repository" } },
	{ GIT, ERR_NETWORK, BROKEN,
	  .said = { "protocol error", "invalid command '", "unexpected line: '",
		    "early eof", "hung up unexpectedly" } },
	{ GIT | COMMAND, ERR_CONFLICT, "", .said = { ".lock': file exists" } },
	{ GIT, ERR_CORRUPT, FSCK,
	  .said = { "git upload-pack: aborting due to possible" } },
	{ GIT, ERR_DISK,
	  "see whether that file system is full, or a quota is used up (git does not say "
	  "what was wrong with the file)",
	  .said = { "unable to write file", "unable to write new index file" } },

	{ COMMAND, ERR_CONFIG, "install git there, or set gitPath of the remote",
	  .said = { "not found" } },
	{ COMMAND, ERR_CONFIG, "correct the path in url or adminUrl, or gitPath",
	  .said = { "no such file" } },
};

/* The same of single refs. */
static const struct {
	enum git_refusal refusal;
	const char *said[7];
} refusals[] = {
	{ REFUSAL_LOCKED,
	  { "failed to update ref", "failed to lock", "cannot lock ref", "lock failure",
	    "lock_failure", "file exists" } },
	{ REFUSAL_CHANGED, { "incorrect old value" } },
	{ REFUSAL_UNPACKING, { "unpacker error" } },
	{ REFUSAL_TOGETHER, { "pre-receive hook declined" } },
	{ REFUSAL_PASSING,
	  { "failed to report status", "internal server error", "internal error",
	    "no space left" } },
	{ REFUSAL_NO_FORCE,
	  { "non-fast-forward", "fetch first", "already exists", "needs force",
	    "not permitted: force update" } },
	{ REFUSAL_DELETES_HEAD, { "deletion of the current branch prohibited" } },
	{ REFUSAL_NO_DELETION,
	  { "not permitted: delete", "deletion prohibited",
	    "does not support deleting refs" } },
	{ REFUSAL_STALE, { "stale info" } },
};

/* Where one of `said` stands first. */
static const char *find_any(const char *text, const char *const *said)
{
	const char *at = NULL;

	for (; *said && !at; said++)
		at = strcasestr(text, *said);
	return at;
}

static const struct meaning *meaning_of(enum git_speaker speaker, const char *tail,
					const char **at)
{
	for (size_t i = 0; i < ARRAY_SIZE(meanings); i++)
		if ((meanings[i].speakers & speaker) &&
		    (*at = find_any(tail, meanings[i].said)) != NULL)
			return &meanings[i];
	return NULL;
}

static void take_meaning(const struct meaning *meaning, struct err *err)
{
	err->class = meaning->class;
	err->sys_errno = meaning->sys_errno;
	err_remedy(err, "%s", meaning->remedy);
	err_because(err, meaning->reason);
}

bool git_message_judge(enum git_speaker speaker, const char *tail, struct err *err)
{
	const char *at;
	const struct meaning *meaning = meaning_of(speaker, tail, &at);

	if (meaning)
		take_meaning(meaning, err);
	return meaning != NULL;
}

/* The whole line around `at`, without git's "fatal: " and the like. */
static void report_line(const char *tail, const char *at, struct err *err)
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
	err_set(err, err->class, "git: %.*s", (int)(len < LINE_MOST ? len : LINE_MOST),
		start);
}

#define REPORTED "refrelay says "
#define REMEDY " -- "

void git_reported_render(const struct err *err, struct str *out)
{
	str_addf(out, REPORTED "%s: ", err_class_name(err->class));
	str_add_printable(out, err->text);
	if (err->remedy[0]) {
		str_add(out, REMEDY);
		str_add_printable(out, err->remedy);
	}
}

bool git_reported_may_be(enum err_class class)
{
	return class == ERR_CORRUPT || class == ERR_CONFIG || class == ERR_DISK ||
	       class == ERR_INTERNAL;
}

/* Behind the mark, where a line begins with it: git puts names of files and refs, which
 * strangers choose, into others. NULL: nothing is reported. */
static const char *find_mark(const char *tail)
{
	static const char mark[] = "fatal: remote error: " REPORTED;

	for (const char *at = tail; (at = strstr(at, mark)) != NULL; at++)
		if (at == tail || at[-1] == '\n' || at[-1] == '\r')
			return at + strlen(mark);
	return NULL;
}

static bool find_reported(const char *tail, struct err *err)
{
	const char *at = find_mark(tail);
	char line[sizeof(err->text) + sizeof(err->remedy)];

	if (!at)
		return false;
	snprintf(line, sizeof(line), "%.*s", (int)strcspn(at, "\r\n"), at);
	char *text = strstr(line, ": "), *remedy = strstr(line, REMEDY);
	if (!text)
		return false;
	*text = '\0';
	if (remedy)
		*remedy = '\0';
	if (!git_reported_may_be(err_class_of_name(line)))
		return false;
	err_set(err, err_class_of_name(line), "the other site says: %s", text + 2);
	err_because(err, REASON_AT_PEER);
	err_remedy(err, "there: %s",
		   remedy ? remedy + strlen(REMEDY) : "look into that site's log");
	return true;
}

/* "fatal: project new/two not found": Gerrit, by ssh. */
static bool find_absence(const char *tail, struct err *err)
{
	static const char begin[] = "fatal: project ";

	for (const char *at = tail; (at = strstr(at, begin)) != NULL; at++) {
		AUTO_FREE char *line = xstrndup(at, strcspn(at, "\r\n"));
		if ((at > tail && at[-1] != '\n' && at[-1] != '\r') ||
		    !text_ends_with(line + strlen(begin), " not found"))
			continue;
		err_set(err, ERR_MISSING, "git: %.*s", LINE_MOST, line);
		err_remedy(err, ABSENT);
		return true;
	}
	return false;
}

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

static bool git_message_begins_with(const char *line, size_t len, const char *prefix)
{
	return len >= strlen(prefix) && strncmp(line, prefix, strlen(prefix)) == 0;
}

static void add_local_line(struct str *out, const char *line, size_t len)
{
	if (git_message_begins_with(line, len, "remote: ") ||
	    git_message_begins_with(line, len, "error: remote unpack"))
		return;
	str_add_bytes(out, line, len);
	str_add_char(out, '\n');
}

bool git_message_find(enum git_speaker speaker, const char *tail, struct err *err)
{
	AUTO_STR struct str local = STR_INIT;
	const struct meaning *meaning;
	const char *at;

	if (speaker == SPEAKER_SITE) {
		if (find_reported(tail, err))
			return true;
		speaker = SPEAKER_GIT;
	}
	if (speaker == SPEAKER_PACK) {
		each_line(tail, add_local_line, &local);
		tail = local.data;
	}
	meaning = meaning_of(speaker, tail, &at);
	if (!meaning)
		return speaker == SPEAKER_PUSH && find_absence(tail, err);
	err->class = meaning->class;
	report_line(tail, at, err);
	take_meaning(meaning, err);
	return true;
}

/* "fatal: " is git's there: then the host itself is well. */
bool git_message_guess(const char *tail, struct err *err)
{
	const char *last = strcasestr(tail, "could not read from remote repository");
	bool is_well;

	if (!last)
		return false;
	tail += strspn(tail, " \t\r\n");
	is_well =
		text_starts_with(tail, "fatal: ") && last > tail + strcspn(tail, "\r\n");
	err->class = is_well ? ERR_CONFIG : ERR_NETWORK;
	report_line(tail, tail + strcspn(tail, "\r\n"), err);
	err_remedy(err, "%s", is_well ? "mend that at the destination" : DOWN);
	return true;
}

enum git_refusal git_message_refusal(const char *reason)
{
	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++)
		if (find_any(reason, refusals[i].said))
			return refusals[i].refusal;
	return REFUSAL_OTHER;
}

bool git_message_is_refused_here(const char *summary)
{
	return strcmp(summary, "[rejected]") == 0;
}

bool git_message_is_in_the_way(const char *tail, const char *ref)
{
	AUTO_FREE char *said = xasprintf("; cannot create '%s'", ref);

	return strstr(tail, said) != NULL;
}

bool git_message_is_unwanted(const char *tail)
{
	static const char *const said[] = { "fsck error in packed object",
					    "pack exceeds maximum allowed size", NULL };

	return find_any(tail, said) != NULL;
}

bool git_message_is_gerrit(const char *tail)
{
	return strstr(tail, "Gerrit Code Review: ") != NULL;
}

bool git_message_refused_object(const char *said, size_t oid_len, struct oid *oid)
{
	static const char mark[] = "ERR upload-pack: not our ref ";
	enum { LENGTH = 4 }; /* digits of a packet's length */

	return strlen(said) > LENGTH && text_starts_with(said + LENGTH, mark) &&
	       oid_parse(said + LENGTH + strlen(mark), oid_len, oid);
}

/* The beginnings, behind "fatal: ". What follows may be the client's own words, even with
 * line breaks, and mean anything. "remote error" is an error that the client sent. */
static const char *const clients_faults[] = {
	"unknown capability '",
	"no command requested",
	"command '",
	"invalid command '",
	"mismatched object format",
	"unknown object format",
	"object-format capability requires",
	"remote error: ",
	"unexpected line: '",
	"expected flush after",
	"protocol error: bad line length",
	"the remote end hung up",
	"unknown ref ",
	"invalid shallow ",
	"Invalid deepen",
	"no commits selected for shallow requests",
	"invalid filter-spec",
	"multiple filter-specs cannot be combined",
	"git upload-pack: protocol error",
	"git upload-pack: expected SHA1 ",
	"git upload-pack: ambiguous deepen-not",
	"git upload-pack: deepen and",
	"git upload-pack: filtering capability",
	"'", /* a word of a filter; what git says of damage begins otherwise */
};

bool git_message_blames_client(const char *tail, struct err *err)
{
	static const char mark[] = "fatal: ";

	for (const char *at = tail; (at = strstr(at, mark)) != NULL; at++)
		for (size_t i = 0; i < ARRAY_SIZE(clients_faults); i++) {
			if ((at > tail && at[-1] != '\n') ||
			    !text_starts_with(at + strlen(mark), clients_faults[i]))
				continue;
			err->class = ERR_CONFIG;
			report_line(tail, at + strlen(mark), err);
			return true;
		}
	return false;
}

bool git_message_may_be_version(const struct err *err)
{
	static const char *const words[] = { "git: unknown capability '",
					     "git: invalid command '",
					     "git: unexpected line: '",
					     "git: unknown object format",
					     "git: invalid filter-spec" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (err->class == ERR_CONFIG && strstr(err->text, words[i]))
			return true;
	return false;
}

/* The line goes on in others. */
static bool git_message_has_text(const char *line, size_t len, const char *text)
{
	const char *at = strstr(line, text);

	return at && at + strlen(text) <= line + len;
}

/* "Resolving deltas:  66% (2/3)", "Counting objects: 3, done." */
static bool is_progress(const char *line, size_t len)
{
	return git_message_has_text(line, len, "% (") ||
	       git_message_has_text(line, len, ", done.");
}

static void add_word_line(struct str *out, const char *line, size_t len)
{
	static const char mark[] = "remote: ";

	if (!git_message_begins_with(line, len, mark) || is_progress(line, len))
		return;
	if (out->len > 0)
		str_add(out, " | ");
	str_add_bytes(out, line + strlen(mark), len - strlen(mark));
}

void git_message_add_words(const char *tail, struct str *out)
{
	each_line(tail, add_word_line, out);
}

static void keep_line(struct str *out, const char *line, size_t len)
{
	str_reset(out);
	str_add_bytes(out, line, len);
}

void git_message_add_last(const char *tail, struct str *out)
{
	each_line(tail, keep_line, out);
}

/* "Writing objects: 100% (3/3), 12.34 MiB | 1.00 MiB/s, done." */
uint64_t git_message_sent(const char *tail)
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
