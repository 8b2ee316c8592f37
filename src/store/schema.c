/*
 * Migration N leads from version N - 1 to N and is never changed once released. The
 * table schema_version has a row for each that was applied. BIGINT and $IDENTITY, the
 * driver's word for a self-numbering primary key, are all that databases differ in.
 *
 * Times are wall-clock milliseconds unless said otherwise.
 */
#include "store/schema.h"

#include "base/clock.h"
#include "base/str.h"
#include "store/store_conn.h"

static const char *const migrations[] = {
	/* 1 */
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
	"	start_time BIGINT,"
	"	alive_file TEXT,"
	"	job TEXT,"
	"	operation TEXT,"
	"	acquired_at BIGINT,"
	"	expires_at BIGINT," /* boot clock, of boot_id */
	"	ttl BIGINT,"
	"	ended TEXT);"
	"CREATE INDEX lease_alive ON lease (alive_file) WHERE nonce IS NOT NULL;"

	"CREATE TABLE lease_waiter ("
	"	ticket $IDENTITY,"
	"	key TEXT NOT NULL,"
	"	boot_id TEXT,"
	"	pid BIGINT,"
	"	alive_file TEXT,"
	"	since BIGINT,"
	"	seen BIGINT);" /* boot clock: when it asked last */
	"CREATE INDEX lease_waiter_key ON lease_waiter (key);"

	"CREATE TABLE registry ("
	"	id $IDENTITY,"
	"	kind TEXT NOT NULL,"
	"	name TEXT NOT NULL,"
	/* 0 pending, 1 started, 2 synced, 3 failed, 4 missing on primary */
	"	state BIGINT NOT NULL,"
	/* 0 pending, 1 started, 2 succeeded, 3 failed, 4 disabled */
	"	verification_state BIGINT NOT NULL,"
	"	generation_wanted BIGINT NOT NULL DEFAULT 0,"
	"	generation BIGINT NOT NULL DEFAULT 0,"
	"	timeline TEXT,"
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
	"	held_reason TEXT,"
	"	failure_class TEXT,"
	"	failure TEXT,"
	"	remedy TEXT,"
	"	created_at BIGINT NOT NULL,"
	"	UNIQUE (kind, name));"
	/* The two work queues; no index on the states, it would cost each change. */
	"CREATE INDEX registry_due ON registry (due_at) WHERE due_at IS NOT NULL;"
	"CREATE INDEX registry_verification_due ON registry (verification_due_at)"
	"	WHERE verification_due_at IS NOT NULL;"

	/* Kept by whoever changes what is counted, in the same transaction. */
	"CREATE TABLE counters ("
	"	kind TEXT NOT NULL,"
	"	what TEXT NOT NULL,"
	"	value BIGINT NOT NULL,"
	"	PRIMARY KEY (kind, what));",

	/* 2: two sites */
	"ALTER TABLE registry ADD COLUMN behind_since BIGINT;" /* by the primary's clock
								*/
	"ALTER TABLE registry ADD COLUMN asked_at BIGINT;" /* latest change, likewise */
	"ALTER TABLE registry ADD COLUMN gone BIGINT NOT NULL DEFAULT 0;"
	"ALTER TABLE registry ADD COLUMN wishes BIGINT NOT NULL DEFAULT 0;"
	/* The queues of the scheduler, each in the order it is worked off. */
	"DROP INDEX registry_due;"
	"CREATE INDEX registry_due_new ON registry (due_at)"
	"	WHERE due_at IS NOT NULL AND last_attempt_at IS NULL;"
	"CREATE INDEX registry_due_changed ON registry (due_at)"
	"	WHERE due_at IS NOT NULL AND last_attempt_at IS NOT NULL AND state = 0;"
	"CREATE INDEX registry_due_failed ON registry (due_at)"
	"	WHERE due_at IS NOT NULL AND last_attempt_at IS NOT NULL AND state <> 0;"
	"CREATE INDEX registry_behind ON registry (behind_since)"
	"	WHERE behind_since IS NOT NULL;"
	"CREATE INDEX registry_odd ON registry (kind, name)" /* what a person looks for */
	"	WHERE held_reason IS NOT NULL OR gone <> 0 OR state > 2;"

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
	"	UNIQUE (kind, name));"
	"CREATE INDEX origin_verification_due ON origin (verification_due_at)"
	"	WHERE verification_due_at IS NOT NULL;"

	"CREATE TABLE event ("
	"	id BIGINT NOT NULL PRIMARY KEY,"
	"	mark TEXT NOT NULL,"
	"	at BIGINT NOT NULL,"
	"	kind TEXT NOT NULL,"
	"	name TEXT NOT NULL,"
	"	what BIGINT NOT NULL," /* 0 created, 1 updated, 2 deleted */
	"	timeline TEXT NOT NULL,"
	"	generation BIGINT NOT NULL,"
	"	checksum TEXT,"
	"	changes TEXT);"

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
	"	peer TEXT);",

	/* 3: changes that are recorded, but not yet handed on to push */
	"CREATE TABLE owed ("
	"	name TEXT NOT NULL PRIMARY KEY,"
	"	mark TEXT NOT NULL," /* another each time it is added */
	"	since BIGINT NOT NULL,"
	"	failure_class TEXT NOT NULL,"
	"	failure TEXT NOT NULL,"
	"	remedy TEXT NOT NULL);",

	/* 4: at a secondary: names of pushes that were passed on and may not be here */
	"CREATE TABLE passed_push ("
	"	name TEXT NOT NULL PRIMARY KEY,"
	"	since BIGINT NOT NULL);",

	/* 5: blobs, many more than there are repositories. No queue of one kind leads
	   past another's rows; and rows lie in the order in which they came, not in that
	   of their ids, which are digests: those that come together are due together, and
	   share pages. */
	"CREATE TABLE registry_4 ("
	"	id BIGINT NOT NULL PRIMARY KEY,"
	"	kind TEXT NOT NULL,"
	"	name TEXT NOT NULL,"
	"	state BIGINT NOT NULL,"
	"	verification_state BIGINT NOT NULL,"
	"	generation_wanted BIGINT NOT NULL DEFAULT 0,"
	"	generation BIGINT NOT NULL DEFAULT 0,"
	"	timeline TEXT,"
	"	size BIGINT NOT NULL DEFAULT 0," /* bytes, of generation_wanted */
	"	checksum TEXT,"
	"	primary_checksum TEXT,"
	"	retry_count BIGINT NOT NULL DEFAULT 0,"
	"	retry_at BIGINT,"
	"	due_at BIGINT,"
	"	verification_retry_count BIGINT NOT NULL DEFAULT 0,"
	"	verification_due_at BIGINT,"
	"	last_attempt_at BIGINT,"
	"	last_success_at BIGINT,"
	"	verified_at BIGINT,"
	"	behind_since BIGINT,"
	"	asked_at BIGINT,"
	"	gone BIGINT NOT NULL DEFAULT 0,"
	"	wishes BIGINT NOT NULL DEFAULT 0,"
	"	held_reason TEXT,"
	"	failure_class TEXT,"
	"	failure TEXT,"
	"	remedy TEXT,"
	"	created_at BIGINT NOT NULL,"
	"	UNIQUE (kind, name));"
	"INSERT INTO registry_4 (id, kind, name, state, verification_state,"
	"	generation_wanted, generation, timeline, checksum, primary_checksum,"
	"	retry_count, retry_at, due_at, verification_retry_count,"
	"	verification_due_at, last_attempt_at, last_success_at, verified_at,"
	"	behind_since, asked_at, gone, wishes, held_reason, failure_class, "
	"failure,"
	"	remedy, created_at)"
	"	SELECT id, kind, name, state, verification_state, generation_wanted,"
	"	generation, timeline, checksum, primary_checksum, retry_count, retry_at,"
	"	due_at, verification_retry_count, verification_due_at, last_attempt_at,"
	"	last_success_at, verified_at, behind_since, asked_at, gone, wishes,"
	"	held_reason, failure_class, failure, remedy, created_at"
	"	FROM registry ORDER BY kind, name;"
	"DROP TABLE registry;" /* and its indexes */
	"ALTER TABLE registry_4 RENAME TO registry;"
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
	"CREATE INDEX registry_odd ON registry (kind, name)"
	"	WHERE held_reason IS NOT NULL OR gone <> 0 OR state > 2;"

	"ALTER TABLE origin ADD COLUMN size BIGINT NOT NULL DEFAULT 0;"
	"DROP INDEX origin_verification_due;"
	"CREATE INDEX origin_verification_new ON origin (kind, verification_due_at)"
	"	WHERE verification_due_at IS NOT NULL AND verified_at IS NULL;"
	"CREATE INDEX origin_verification_due ON origin (kind, verification_due_at)"
	"	WHERE verification_due_at IS NOT NULL AND verified_at IS NOT NULL;"
	"CREATE INDEX origin_failing ON origin (kind, name)" /* what a person looks for */
	"	WHERE verification_state = 3;"

	/* what: also 3 checksum_succeeded */
	"ALTER TABLE event ADD COLUMN size BIGINT NOT NULL DEFAULT 0;",

	/* 6: which objects of Git LFS belong to which repository */
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
	"	is_once BIGINT NOT NULL,"
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
};

static int has_version(struct store_tx *tx, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;

	if (query_ask(tx, &query, err, tx->conn->driver->has_table,
		      QUERY_TEXT("schema_version")) != 0)
		return -1;
	return query_step(query, err);
}

/* arg: int64_t *, 0 for a new database. */
static int read_version(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	int64_t *version = arg;
	int found = has_version(tx, err);

	*version = 0;
	if (found <= 0)
		return found;
	if (query_open(tx, "SELECT MAX(version) FROM schema_version", &query, err) != 0 ||
	    query_step(query, err) < 0)
		return -1;
	*version = query_int(query, 0);
	return 0;
}

static int apply(struct store_tx *tx, const char *text, struct err *err)
{
	static const char word[] = "$IDENTITY";
	AUTO_STR struct str sql = STR_INIT;
	const char *at;

	while ((at = strstr(text, word)) != NULL) {
		str_add_bytes(&sql, text, (size_t)(at - text));
		str_add(&sql, tx->conn->driver->identity);
		text = at + sizeof(word) - 1;
	}
	str_add(&sql, text);
	return store_exec(tx, sql.data, err);
}

/* Looks again first: by now this process alone may write, but another may have been
 * here before it. */
static int migrate_one(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	int64_t version;

	(void)arg;
	if (read_version(tx, &version, err) != 0)
		return -1;
	if (version >= (int64_t)ARRAY_SIZE(migrations))
		return 0;
	if (apply(tx, migrations[version], err) != 0 ||
	    query_open(tx, "INSERT INTO schema_version VALUES (?1, ?2)", &query, err) !=
		    0)
		return -1;
	query_bind_int(query, 1, version + 1);
	query_bind_int(query, 2, clock_wall_ms());
	return query_run(query, NULL, err);
}

static int schema_refuse_newer(const struct store_conn *conn, int64_t version,
			       struct err *err)
{
	err_set(err, ERR_CONFIG,
		"database %s was made by a newer refrelay (schema %" PRId64
		", this one knows %zu)",
		conn->place, version, ARRAY_SIZE(migrations));
	return err_remedy(err, "run the newer refrelay, or use another site.data");
}

int schema_check(struct store_conn *conn, struct err *err)
{
	const int64_t latest = (int64_t)ARRAY_SIZE(migrations);
	int64_t version;

	if (store_conn_transaction(conn, STORE_READER, read_version, &version, err) != 0)
		return -1;
	if (version > latest)
		return schema_refuse_newer(conn, version, err);
	if (version == latest)
		return 0;
	err_set(err, ERR_CONFIG,
		"database %s was last used by an older refrelay (schema %" PRId64
		", this one knows %zu)",
		conn->place, version, ARRAY_SIZE(migrations));
	return err_remedy(err, "start the node of this version, which brings it up to "
			       "date");
}

int schema_migrate(struct store_conn *conn, struct err *err)
{
	const int64_t latest = (int64_t)ARRAY_SIZE(migrations);

	for (;;) {
		int64_t version;
		if (store_conn_transaction(conn, STORE_READER, read_version, &version,
					   err) != 0)
			return -1;
		if (version > latest)
			return schema_refuse_newer(conn, version, err);
		if (version == latest)
			return 0;
		if (store_conn_transaction(conn, STORE_WRITER, migrate_one, NULL, err) !=
		    0)
			return err_prefix(err, "schema %" PRId64, version + 1);
	}
}

int store_schema_version(void)
{
	return (int)ARRAY_SIZE(migrations);
}
