/*
 * What is asked of a PostgreSQL database with leases, whose functions are in
 * postgresql_schema.c.
 */
#ifndef LEASE_POSTGRESQL_STATEMENTS_H
#define LEASE_POSTGRESQL_STATEMENTS_H

/* What makes them, in this order; the end is NULL. */
extern const char *const postgresql_schema[];

/* Whether all of it exists. */
#define POSTGRESQL_IS_THERE                                                              \
	"SELECT count(DISTINCT p.proname) = 7 FROM pg_proc p JOIN pg_namespace n ON "    \
	"n.oid ="                                                                        \
	" p.pronamespace WHERE n.nspname = 'refrelay' AND p.proname IN"                  \
	" ('lease_acquire_8', 'lease_release_6', 'lease_leave_2', 'lease_force_2',"      \
	" 'lease_extend_1', 'lease_wake_1', 'lease_is_older_1')"                         \
	" AND to_regclass('refrelay.lease') IS NOT NULL"                                 \
	" AND to_regclass('refrelay.lease_line') IS NOT NULL"                            \
	" AND to_regclass('refrelay.lease_start') IS NOT NULL"

/* Several nodes may find it missing at once, and wait for the first. */
#define POSTGRESQL_LOCK                                                                  \
	"SELECT set_config('lock_timeout', '0', true), pg_advisory_xact_lock(727311)"

/* For the transaction: the session may be a pooler's, with other settings. */
#define POSTGRESQL_IN_TIME "set_config('lock_timeout', '400ms', true)"
#define POSTGRESQL_SYNCED "set_config('synchronous_commit', 'on', true)"
#define POSTGRESQL_NOT_SYNCED "set_config('synchronous_commit', 'off', true)"

#define POSTGRESQL_ACQUIRE                                                               \
	"SELECT outcome, fence, owner, nonce, left_ms, ticket, waiter, ended, "          \
	"next, is_older FROM"                                                            \
	" refrelay.lease_acquire_8($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
#define POSTGRESQL_RELEASE                                                               \
	"SELECT done, neighbour FROM refrelay.lease_release_6($1, $2, $3, $4)"
/* Whether nobody has the lock of this key. */
#define POSTGRESQL_QUEUE                                                                 \
	"SELECT pg_try_advisory_xact_lock(hashtextextended($1, 7273))::int"
#define POSTGRESQL_WAKE "SELECT refrelay.lease_wake_1($1)"
#define POSTGRESQL_FORCE "SELECT refrelay.lease_force_2($1, $2, $3)"
#define POSTGRESQL_LEAVE "SELECT refrelay.lease_leave_2($1, $2)"

/* One in the line that has asked a moment ago; not before the clock was set back. */
#define POSTGRESQL_PRESENT                                                               \
	"w.seen BETWEEN clock_timestamp() - interval '3 s' AND"                          \
	" clock_timestamp() + interval '2 s'"

#define POSTGRESQL_WANTED                                                                \
	"SELECT EXISTS (SELECT FROM refrelay.lease_line w WHERE w.key = $1 AND"          \
	" w.waiter <> $2 AND " POSTGRESQL_PRESENT ")"

/* Only forward: a later report may arrive first. From the nonce $2 to $5, which is the
 * same if it was handed on within a process; else $6 has left the line with it. The text
 * of the first there, or NULL. */
#define POSTGRESQL_PASS                                                                  \
	"WITH ours AS (SELECT key, " POSTGRESQL_IN_TIME                                  \
	" FROM refrelay.lease WHERE key = $1 AND nonce IN ($2, $5)"                      \
	" AND fence <= $3::bigint FOR UPDATE), gone AS (DELETE FROM"                     \
	" refrelay.lease_line w USING ours WHERE w.key = ours.key AND w.waiter = $6)"    \
	" UPDATE refrelay.lease l SET nonce = $5, fence = $3::bigint, owner = $4"        \
	" FROM ours WHERE l.key = ours.key RETURNING (SELECT w.owner FROM"               \
	" refrelay.lease_line w WHERE w.key = $1 AND w.waiter <> $6 AND"                 \
	" " POSTGRESQL_PRESENT " ORDER BY w.ticket LIMIT 1), " POSTGRESQL_NOT_SYNCED

/* Never a lapsed or missing one. Keys and nonces: arrays. */
#define POSTGRESQL_EXTEND "SELECT key FROM refrelay.lease_extend_1($1, $2, $3) AS key"

#define POSTGRESQL_COLUMNS                                                               \
	"SELECT key, fence, owner, nonce, (extract(epoch FROM expires_at -"              \
	" clock_timestamp()) * 1000)::bigint, ended FROM refrelay.lease"
#define POSTGRESQL_INSPECT POSTGRESQL_COLUMNS " WHERE key = $1"
#define POSTGRESQL_LIST                                                                  \
	POSTGRESQL_COLUMNS                                                               \
	" WHERE starts_with(key, $1) OR key LIKE $2 ORDER BY key COLLATE \"C\""

#endif
