/*
 * Migration N leads from version N - 1 to N, the first one from nothing, and is never
 * changed once released. The table schema_version has a row for each that was applied.
 *
 * Times are wall-clock milliseconds unless said otherwise.
 */
#include "store/schema.h"

#include "base/clock.h"
#include "store/store_conn.h"

#define OLDEST ((int64_t)6)
#define LATEST (OLDEST + (int64_t)ARRAY_SIZE(migrations) - 1)

static const char *const migrations[] = {
	/* 6: what 0.1.0 had, the first release */
	"CREATE TABLE schema_version ("
	"	version BIGINT NOT NULL PRIMARY KEY,"
	"	applied_at BIGINT NOT NULL);"

	/* One row a key ever granted: the fence must outlive the holder. */
	"CREATE TABLE lease ("
	"	key TEXT NOT NULL PRIMARY KEY,"
	"	fence BIGINT NOT NULL,"
	"	nonce TEXT," /* null: not held */
	"	node TEXT,"
	"	boot_id TEXT,"
	"	pid BIGINT,"
	"	start_time BIGINT," /* written by earlier versions, read by none */
	"	alive_file TEXT,"
	"	job TEXT,"
	"	operation TEXT,"
	"	acquired_at BIGINT,"
	"	expires_at BIGINT," /* boot clock, of boot_id */
	"	ttl BIGINT,"
	"	ended TEXT);"
	"CREATE INDEX lease_alive ON lease (alive_file) WHERE nonce IS NOT NULL;"

	"CREATE TABLE lease_waiter ("
	"	ticket INTEGER PRIMARY KEY AUTOINCREMENT,"
	"	key TEXT NOT NULL,"
	"	boot_id TEXT,"
	"	pid BIGINT,"
	"	alive_file TEXT,"
	"	since BIGINT," /* likewise */
	"	seen BIGINT);" /* boot clock: when it asked last */
	"CREATE INDEX lease_waiter_key ON lease_waiter (key);"

	/* Blobs are many more than repositories. No queue of one kind leads past
	   another's rows; and rows lie in the order in which they came, not in that of
	   their ids, which are digests: those that come together are due together, and
	   share pages. No index on the states, it would cost each change. */
	"CREATE TABLE registry ("
	"	id BIGINT NOT NULL PRIMARY KEY,"
	"	kind TEXT NOT NULL,"
	"	name TEXT NOT NULL,"
	/* 0 pending, 1 started, 2 synced, 3 failed, 4 missing on primary */
	"	state BIGINT NOT NULL,"
	/* 0 pending, 1 started, 2 succeeded, 3 failed, 4 disabled */
	"	verification_state BIGINT NOT NULL,"
	"	generation_wanted BIGINT NOT NULL DEFAULT 0,"
	"	generation BIGINT NOT NULL DEFAULT 0,"
	"	timeline TEXT,"
	"	size BIGINT NOT NULL DEFAULT 0," /* bytes, of generation_wanted */
	"	checksum TEXT,"
	"	primary_checksum TEXT,"
	"	retry_count BIGINT NOT NULL DEFAULT 0,"
	"	retry_at BIGINT,"
	"	due_at BIGINT," /* null: nothing to do */
	"	verification_retry_count BIGINT NOT NULL DEFAULT 0,"
	"	verification_due_at BIGINT," /* null: nothing to do */
	"	last_attempt_at BIGINT,"
	"	last_success_at BIGINT,"
	"	verified_at BIGINT,"
	"	behind_since BIGINT," /* by the primary's clock */
	"	asked_at BIGINT,"     /* latest change, likewise */
	"	gone BIGINT NOT NULL DEFAULT 0,"
	"	wishes BIGINT NOT NULL DEFAULT 0,"
	"	held_reason TEXT,"
	"	failure_class TEXT,"
	"	failure TEXT,"
	"	remedy TEXT,"
	"	created_at BIGINT NOT NULL,"
	"	UNIQUE (kind, name));"
	/* The queues of the scheduler, each in the order it is worked off. */
	"CREATE INDEX registry_due_new ON registry (kind, due_at)"
	"	WHERE due_at IS NOT NULL AND last_attempt_at IS NULL;"
	"CREATE INDEX registry_due_changed ON registry (kind, due_at)"
	"	WHERE due_at IS NOT NULL AND last_attempt_at IS NOT NULL AND state = 0;"
	"CREATE INDEX registry_due_failed ON registry (kind, due_at)"
	"	WHERE due_at IS NOT NULL AND last_attempt_at IS NOT NULL AND state <> 0;"
	"CREATE INDEX registry_verification_due ON registry (kind, verification_due_at)"
	"	WHERE verification_due_at IS NOT NULL;"
	"CREATE INDEX registry_behind ON registry (kind, behind_since)"
	"	WHERE behind_since IS NOT NULL;"
	"CREATE INDEX registry_odd ON registry (kind, name)" /* what a person looks for */
	"	WHERE held_reason IS NOT NULL OR gone <> 0 OR state > 2;"

	/* Kept by whoever changes what is counted, in the same transaction. */
	"CREATE TABLE counters ("
	"	kind TEXT NOT NULL,"
	"	what TEXT NOT NULL,"
	"	value BIGINT NOT NULL,"
	"	PRIMARY KEY (kind, what));"

	/* What a primary has, as it was compared last. */
	"CREATE TABLE origin ("
	"	id BIGINT NOT NULL PRIMARY KEY,"
	"	kind TEXT NOT NULL,"
	"	name TEXT NOT NULL,"
	"	path TEXT NOT NULL," /* below site.repositories */
	"	timeline TEXT NOT NULL,"
	"	generation BIGINT NOT NULL,"
	"	checksum TEXT,"    /* null: it cannot be read */
	"	description TEXT," /* digest of that file */
	"	print TEXT,"       /* fingerprint of that moment */
	"	is_settled BIGINT NOT NULL DEFAULT 0,"
	"	changed_at BIGINT NOT NULL,"
	"	verification_state BIGINT NOT NULL,"
	"	verified_at BIGINT,"
	"	verification_due_at BIGINT,"
	"	verification_retry_count BIGINT NOT NULL DEFAULT 0,"
	"	failure_class TEXT,"
	"	failure TEXT,"
	"	remedy TEXT,"
	"	size BIGINT NOT NULL DEFAULT 0,"
	"	UNIQUE (kind, name));"
	"CREATE INDEX origin_verification_new ON origin (kind, verification_due_at)"
	"	WHERE verification_due_at IS NOT NULL AND verified_at IS NULL;"
	"CREATE INDEX origin_verification_due ON origin (kind, verification_due_at)"
	"	WHERE verification_due_at IS NOT NULL AND verified_at IS NOT NULL;"
	"CREATE INDEX origin_failing ON origin (kind, name)" /* what a person looks for */
	"	WHERE verification_state = 3;"

	"CREATE TABLE event ("
	"	id BIGINT NOT NULL PRIMARY KEY,"
	"	mark TEXT NOT NULL,"
	"	at BIGINT NOT NULL,"
	"	kind TEXT NOT NULL,"
	"	name TEXT NOT NULL,"
	"	what BIGINT NOT NULL," /* 0 created, 1 updated, 2 deleted, 3
					checksum_succeeded */
	"	timeline TEXT NOT NULL,"
	"	generation BIGINT NOT NULL,"
	"	checksum TEXT,"
	"	changes TEXT,"
	"	size BIGINT NOT NULL DEFAULT 0);"

	/* What a site remembers of itself: the log's timeline, the cursor, ... */
	"CREATE TABLE site_value ("
	"	key TEXT NOT NULL PRIMARY KEY,"
	"	value TEXT NOT NULL);"

	/* At a primary: how its secondaries fare, as they said themselves. */
	"CREATE TABLE secondary ("
	"	site TEXT NOT NULL PRIMARY KEY,"
	"	cursor_id BIGINT NOT NULL,"
	"	report TEXT," /* JSON, see docs/protocol.md */
	"	seen_at BIGINT NOT NULL,"
	"	peer TEXT);"

	/* Changes that are recorded, but not yet handed on to push. */
	"CREATE TABLE owed ("
	"	name TEXT NOT NULL PRIMARY KEY,"
	"	mark TEXT NOT NULL," /* another each time it is added */
	"	since BIGINT NOT NULL,"
	"	failure_class TEXT NOT NULL,"
	"	failure TEXT NOT NULL,"
	"	remedy TEXT NOT NULL);"

	/* At a secondary: names of pushes that were passed on and may not be here. */
	"CREATE TABLE passed_push ("
	"	name TEXT NOT NULL PRIMARY KEY,"
	"	since BIGINT NOT NULL);"

	/* Which objects of Git LFS belong to which repository. */
	"CREATE TABLE lfs_object ("
	"	repository BIGINT NOT NULL," /* id, as in origin and registry */
	"	oid TEXT NOT NULL,"
	"	size BIGINT NOT NULL,"
	"	source BIGINT NOT NULL," /* sum of 1 history names it, 2 uploaded */
	"	PRIMARY KEY (repository, oid));"
	/* What was looked through for them. */
	"CREATE TABLE lfs_scan ("
	"	repository BIGINT NOT NULL PRIMARY KEY,"
	"	name TEXT NOT NULL,"
	"	timeline TEXT NOT NULL,"
	"	generation BIGINT NOT NULL,"
	"	whole_at BIGINT NOT NULL,"
	"	named BIGINT NOT NULL,"
	"	absent BIGINT NOT NULL);"
	"CREATE INDEX lfs_scan_naming ON lfs_scan (name)"
	"	WHERE named > 0 OR absent > 0;"
	"CREATE INDEX lfs_scan_lacking ON lfs_scan (name) WHERE absent > 0;",

	/* 7: why something failed, where that decides; enum err_reason by its name. Until
	   now it was found in the text, so here are the texts of then. */
	"ALTER TABLE registry ADD COLUMN failure_reason TEXT;"
	"ALTER TABLE owed ADD COLUMN failure_reason TEXT;"
	"ALTER TABLE origin ADD COLUMN failure_reason TEXT;"
	"UPDATE origin SET failure_reason = 'wrong_name' WHERE failure ="
	"	'its content is not the one that its name says';"
	"UPDATE origin SET failure_reason = 'damaged' WHERE failure ="
	"	'its content is not what it was, although nobody has written to it: '"
	"	|| 'the disk has damaged it';",

	/* 8: a repository that was renamed is known again: at the primary by its
	   directory (change/origin_root.h), at a secondary by its timeline. */
	"ALTER TABLE origin ADD COLUMN identity TEXT;"
	"CREATE INDEX origin_identity ON origin (identity) WHERE identity IS NOT NULL;"
	"CREATE INDEX registry_timeline ON registry (timeline)"
	"	WHERE kind = 'repository' AND timeline IS NOT NULL;",
	/* 9: whether the copy was read and found equal since its last change; what is
	   being read again counts as proved until it is found wrong */
	"ALTER TABLE registry ADD COLUMN proved BIGINT NOT NULL DEFAULT 0;"
	"UPDATE registry SET proved = 1"
	"	WHERE state = 2 AND verification_state = 2 AND checksum IS NOT NULL;"
	"INSERT INTO counters (kind, what, value)"
	"	SELECT kind, 'proved', COUNT(*) FROM registry WHERE proved = 1"
	"	GROUP BY kind;",

	/* 10: whose work a row is. A registry row that is started is its worker's until
	   due_at, or verification_due_at. A claim of before names no node. */
	"ALTER TABLE registry ADD COLUMN claim_token TEXT;" /* null: nobody's */
	"ALTER TABLE registry ADD COLUMN claim_node TEXT;"
	"ALTER TABLE origin ADD COLUMN claim_token TEXT;" /* likewise */
	"ALTER TABLE origin ADD COLUMN claim_node TEXT;"
	"ALTER TABLE origin ADD COLUMN claim_until BIGINT;"
	"CREATE INDEX origin_claimed ON origin (claim_node)"
	"	WHERE claim_token IS NOT NULL;",

	/* 11: mirrors of upstreams, as configured at the last start, and when each was
	   last asked and had nothing new; what was asked of them (mirror/requests.h),
	   state 0 waiting, 1 running, 2 done, 3 failed; and credentials that an upstream
	   refused, until their files change */
	"CREATE TABLE mirror ("
	"	name TEXT PRIMARY KEY,"
	"	interval_ms BIGINT NOT NULL,"
	"	checked_at BIGINT NOT NULL);" /* 0: not yet */
	"CREATE TABLE mirror_request ("
	"	id TEXT PRIMARY KEY,"
	"	mirror TEXT NOT NULL,"
	"	watcher TEXT,"
	"	asked_at BIGINT NOT NULL,"
	"	wait_ms BIGINT NOT NULL,"
	"	is_once BIGINT NOT NULL," /* and the wishes, times 2 */
	"	state BIGINT NOT NULL,"
	"	attempts BIGINT NOT NULL DEFAULT 0,"
	"	next_at BIGINT NOT NULL,"
	"	started_at BIGINT, ended_at BIGINT, waited_ms BIGINT, has_changed BIGINT,"
	"	head_commit TEXT, branch TEXT,"
	"	class TEXT, reason TEXT, message TEXT, remedy TEXT);"
	"CREATE INDEX mirror_request_waiting ON mirror_request (mirror, next_at)"
	"	WHERE state = 0;"
	"CREATE TABLE mirror_watcher ("
	"	mirror TEXT NOT NULL,"
	"	watcher TEXT NOT NULL,"
	"	stamp TEXT NOT NULL," /* of the file that was refused */
	"	refused_at BIGINT NOT NULL,"
	"	message TEXT NOT NULL,"
	"	PRIMARY KEY (mirror, watcher));",

	/* 12: lists of upstreams (mirror/listed.h): how the last readings of each ended,
	   and what the whole ones had. Of sections that are not configured interval_ms is
	   0. question: which settings the last whole one was read by; missing_at: since
	   when the list lacks it, 0: it has it */
	"CREATE TABLE mirror_list ("
	"	list TEXT PRIMARY KEY,"
	"	interval_ms BIGINT NOT NULL,"
	"	question TEXT,"
	"	read_at BIGINT NOT NULL DEFAULT 0,"
	"	failed_at BIGINT NOT NULL DEFAULT 0," /* 0: the last one did not fail */
	"	class TEXT, message TEXT, remedy TEXT);"
	"CREATE TABLE mirror_listed ("
	"	list TEXT NOT NULL,"
	"	name TEXT NOT NULL,"
	"	url TEXT NOT NULL,"
	"	missing_at BIGINT NOT NULL DEFAULT 0,"
	"	PRIMARY KEY (list, name));",

	/* 13: working trees of mirrors (mirror/checkouts.h): what each shows, and why the
	   last try failed. A row goes when nothing of the working tree is left */
	"CREATE TABLE mirror_checkout ("
	"	name TEXT PRIMARY KEY,"
	"	head_commit TEXT, branch TEXT,"
	"	made_at BIGINT NOT NULL DEFAULT 0,"
	"	due_at BIGINT NOT NULL DEFAULT 0,"        /* 0: nothing is to be done */
	"	failing_since BIGINT NOT NULL DEFAULT 0," /* 0: it does not fail */
	"	class TEXT, reason TEXT, message TEXT, remedy TEXT);"
	"ALTER TABLE mirror_request ADD COLUMN checkout TEXT;",

	/* 14: mirrors that bring objects of Git LFS (mirror/lfs_lack.h): when the next
	   try is due, null: nothing is to be brought; how many tries failed in a row;
	   which objects the last one left, as a digest of their names */
	"CREATE TABLE mirror_lfs ("
	"	mirror TEXT PRIMARY KEY,"
	"	next_at BIGINT,"
	"	attempts BIGINT NOT NULL DEFAULT 0,"
	"	absent BIGINT NOT NULL DEFAULT 0,"
	"	missing BIGINT NOT NULL DEFAULT 0," /* of these, at the upstream */
	"	left_over TEXT,"
	"	class TEXT, message TEXT, remedy TEXT);",

	/* 15: what changed of one repository since a generation (change/event_log.h) */
	"CREATE INDEX event_of ON event (name, generation) WHERE changes IS NOT NULL;",

	/* 16: how far behind everybody was (report/lag_curve.h) */
	"CREATE TABLE lag_sample ("
	"	kind TEXT NOT NULL," /* site, remote */
	"	peer TEXT NOT NULL,"
	"	minute BIGINT NOT NULL," /* since the epoch */
	"	lag_ms BIGINT NOT NULL,"
	"	PRIMARY KEY (kind, peer, minute));"
	"CREATE INDEX lag_sample_age ON lag_sample (minute);",
	/* 17: alerts (alert/store.h): how sending fares, 0: it does not fail; and the
	   troubles that each has seen: since when, whether it holds (gone_at 0), whether
	   it is to be told of (is_due) and was (told_at), and whether its end is to be */
	"CREATE TABLE alert ("
	"	name TEXT PRIMARY KEY,"
	"	sent_at BIGINT NOT NULL DEFAULT 0,"
	"	failing_since BIGINT NOT NULL DEFAULT 0,"
	"	failed_at BIGINT NOT NULL DEFAULT 0,"
	"	failures BIGINT NOT NULL DEFAULT 0,"
	"	class TEXT, message TEXT, remedy TEXT,"
	"	beat_at BIGINT NOT NULL DEFAULT 0,"
	"	beat_failing_since BIGINT NOT NULL DEFAULT 0,"
	"	beat_message TEXT);"
	"CREATE TABLE alert_trouble ("
	"	alert TEXT NOT NULL,"
	"	kind TEXT NOT NULL,"
	"	subject TEXT NOT NULL,"
	"	message TEXT NOT NULL,"
	"	remedy TEXT NOT NULL,"
	"	since BIGINT NOT NULL,"
	"	seen_at BIGINT NOT NULL," /* first */
	"	gone_at BIGINT NOT NULL,"
	"	told_at BIGINT NOT NULL,"
	"	is_due BIGINT NOT NULL,"
	"	is_over BIGINT NOT NULL,"
	"	PRIMARY KEY (alert, kind, subject));",

	/* 18: after a restore all repositories had one timeline, so that each passed for
	   another one renamed. Each gets one of its own; and the log another, so that
	   secondaries compare them */
	"UPDATE site_value SET value = lower(hex(randomblob(8))) WHERE key = "
	"'log.timeline'"
	" AND EXISTS (SELECT 1 FROM origin WHERE kind = 'repository'"
	" GROUP BY timeline HAVING COUNT(*) > 1);"
	"UPDATE origin SET timeline = lower(hex(randomblob(8)))"
	" WHERE kind = 'repository' AND timeline IN (SELECT timeline FROM origin"
	" WHERE kind = 'repository' GROUP BY timeline HAVING COUNT(*) > 1);",

	/* 19: when the objects of a repository are read next also stands in rows that are
	   brought or fail, which are not looked through for what is due */
	"DROP INDEX registry_verification_due;"
	"CREATE INDEX registry_verification_due ON registry (kind, verification_due_at)"
	"	WHERE verification_due_at IS NOT NULL AND state = 2;",

	/* 20: while a verification is at work, when it was due: if it never ends, as if
	   the node is killed by it each time, its proof becomes old all the same */
	"ALTER TABLE registry ADD COLUMN verification_was_due_at BIGINT;",

	/* 21: readiness is asked often, and by anybody: how many were never copied, and
	   how many copies should be there */
	"INSERT INTO counters (kind, what, value)"
	"	SELECT kind, 'never_copied', COUNT(*) FROM registry"
	"	WHERE due_at > 0 AND last_success_at IS NULL AND gone = 0"
	"	AND state IN (0, 1, 3) AND held_reason IS NULL GROUP BY kind;"
	"INSERT INTO counters (kind, what, value)"
	"	SELECT kind, 'here', COUNT(*) FROM registry"
	"	WHERE generation > 0 AND gone = 0"
	"	AND (kind <> 'mirror' OR wishes & 132 = 0) GROUP BY kind;",

	/* 22: a person also looks for copies that are here, but cannot be verified */
	"DROP INDEX registry_odd;"
	"CREATE INDEX registry_odd ON registry (kind, name)"
	"	WHERE held_reason IS NOT NULL OR gone <> 0 OR state > 2"
	"	OR failure_class IS NOT NULL;",

	/* 23: what is being verified, by when it was due */
	"CREATE INDEX registry_at_work"
	"	ON registry (kind, verification_was_due_at)"
	"	WHERE verification_was_due_at IS NOT NULL;",
};

/* arg: int64_t *, 0 for a new database. */
static int read_version(struct store_tx *tx, void *arg, struct err *err)
{
	int64_t *version = arg;
	int found = query_one(
		tx, NULL, NULL, err,
		"SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1",
		QUERY_TEXT("schema_version"));

	*version = 0;
	if (found <= 0)
		return found;
	return query_number(tx, version, err, "SELECT MAX(version) FROM schema_version");
}

static int64_t next_version(int64_t version)
{
	return version < OLDEST ? OLDEST : version + 1;
}

/* Looks again first: by now this process alone may write, but another may have been
 * here before it. */
static int migrate_one(struct store_tx *tx, void *arg, struct err *err)
{
	int64_t version, next;

	(void)arg;
	if (read_version(tx, &version, err) != 0)
		return -1;
	if (version >= LATEST)
		return 0;
	next = next_version(version);
	if (store_exec(tx, migrations[next - OLDEST], err) != 0)
		return -1;
	return query_write(tx, err, "INSERT INTO schema_version VALUES (?1, ?2)",
			   QUERY_INT(next), QUERY_INT(clock_wall_ms()));
}

/* *version: 0 for a new database, else one of ours. */
static int read_known_version(struct store_conn *conn, int64_t *version, struct err *err)
{
	if (store_conn_transaction(conn, STORE_READER, read_version, version, err) != 0)
		return -1;
	if (*version > LATEST) {
		err_set(err, ERR_CONFIG,
			"database %s was made by a newer refrelay (schema %" PRId64
			", this one knows %" PRId64 ")",
			conn->place, *version, LATEST);
		return err_remedy(err,
				  "run the newer refrelay, or use another site.data");
	}
	if (*version > 0 && *version < OLDEST) {
		err_set(err, ERR_CONFIG,
			"database %s was made by a refrelay before 0.1.0 (schema %" PRId64
			", this one knows %" PRId64 " and later)",
			conn->place, *version, OLDEST);
		return err_remedy(err, "use another site.data");
	}
	return 0;
}

int schema_check(struct store_conn *conn, struct err *err)
{
	int64_t version;

	if (read_known_version(conn, &version, err) != 0)
		return -1;
	if (version == LATEST)
		return 0;
	err_set(err, ERR_CONFIG,
		"database %s was last used by an older refrelay (schema %" PRId64
		", this one knows %" PRId64 ")",
		conn->place, version, LATEST);
	return err_remedy(
		err, "if the node is just starting, wait until it is ready; else "
		     "restart it with this version: it brings the database up to date");
}

int schema_migrate(struct store_conn *conn, struct err *err)
{
	for (;;) {
		int64_t version;
		if (read_known_version(conn, &version, err) != 0)
			return -1;
		if (version == LATEST)
			return 0;
		if (store_conn_transaction(conn, STORE_WRITER, migrate_one, NULL, err) !=
		    0)
			return err_prefix(err, "schema %" PRId64, next_version(version));
	}
}

int store_schema_version(void)
{
	return (int)LATEST;
}
