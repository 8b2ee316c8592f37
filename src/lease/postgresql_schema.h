/*
 * The leases' part of a PostgreSQL database: two tables and five functions, in the schema
 * refrelay, so that each request is one statement and one round trip. Each function takes
 * a lock for its key, so that it is atomic; all times are the server's. A changed
 * function gets another number: nodes of two versions share the tables.
 *
 * Grants and renewals are on the server's disk before it answers. A release, a place in
 * the line and a pass are not waited for: if the server crashes and loses them, the lease
 * lasts until its ttl, and its next fence is above all earlier ones.
 */
#ifndef LEASE_POSTGRESQL_SCHEMA_H
#define LEASE_POSTGRESQL_SCHEMA_H

/* Whether all of it exists. */
#define POSTGRESQL_IS_THERE                                                              \
	"SELECT count(*) = 5 FROM pg_proc p JOIN pg_namespace n ON n.oid ="              \
	" p.pronamespace WHERE n.nspname = 'refrelay' AND p.proname IN"                  \
	" ('lease_acquire_3', 'lease_release_3', 'lease_leave_1', 'lease_force_1',"      \
	" 'lease_wake_1')"

/* Several nodes may find it missing at once. */
#define POSTGRESQL_LOCK "SELECT pg_advisory_xact_lock(727311)"

#define POSTGRESQL_NOT_SYNCED "set_config('synchronous_commit', 'off', true)"

static const char *const postgresql_schema[] = {
	"CREATE SCHEMA IF NOT EXISTS refrelay",

	/* The row stays: its fence is above all that were granted. nonce NULL: it is not
	 * held, and `ended` says how the last grant ended. */
	"CREATE TABLE IF NOT EXISTS refrelay.lease (key text PRIMARY KEY,"
	" fence bigint NOT NULL, nonce text, owner text NOT NULL,"
	" expires_at timestamptz NOT NULL, ended text)",

	/* The waiters, in the order of tickets, and when each last asked. */
	"CREATE TABLE IF NOT EXISTS refrelay.lease_line ("
	" ticket bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key text NOT NULL,"
	" waiter text NOT NULL, owner text NOT NULL, seen timestamptz NOT NULL,"
	" UNIQUE (key, waiter))",

	/* Notifies the first in the line. */
	"CREATE OR REPLACE FUNCTION refrelay.lease_wake_1(p_key text) RETURNS void"
	" LANGUAGE sql AS $$"
	" SELECT pg_notify('refrelay_' || waiter, p_key) FROM (SELECT waiter FROM"
	" refrelay.lease_line WHERE key = p_key AND seen > clock_timestamp() - interval"
	" '3 s' ORDER BY ticket LIMIT 1) first"
	" $$",

	"CREATE OR REPLACE FUNCTION refrelay.lease_acquire_3("
	" p_key text, p_nonce text, p_owner text, p_ttl_ms bigint, p_floor bigint,"
	" p_give_up text, p_dead_waiter text, p_me text, p_waiting text,"
	" OUT outcome int, OUT fence bigint, OUT owner text, OUT nonce text,"
	" OUT left_ms bigint, OUT ticket bigint, OUT waiter text, OUT ended text,"
	" OUT has_others boolean)"
	" LANGUAGE plpgsql AS $$\n"
	"#variable_conflict use_column\n"
	"DECLARE row refrelay.lease%ROWTYPE; first refrelay.lease_line%ROWTYPE;"
	" now timestamptz; was_held boolean; is_untold boolean;\n"
	"BEGIN\n"
	" PERFORM pg_advisory_xact_lock(hashtextextended(p_key, 7273));\n"
	" SELECT l.* INTO row FROM refrelay.lease l WHERE l.key = p_key FOR UPDATE;\n"
	" now := clock_timestamp();\n"
	" ticket := 0;\n"
	/* A releasing holder notifies the first. Each notice wakes all listeners. */
	" is_untold := row.nonce IS NOT NULL;\n"
	/* Given up by its holder in favour of this attempt, or its holder is dead. */
	" IF row.nonce IS NOT NULL AND row.nonce = p_give_up THEN\n"
	"  UPDATE refrelay.lease l SET nonce = NULL, ended = 'released'"
	"   WHERE l.key = p_key;\n"
	"  row.nonce := NULL; row.ended := 'released';\n"
	" END IF;\n"
	" was_held := row.nonce IS NOT NULL;\n"
	" IF was_held AND row.expires_at > now THEN\n"
	"  outcome := 0; owner := row.owner; nonce := row.nonce; fence := row.fence;\n"
	"  left_ms := extract(epoch FROM row.expires_at - now) * 1000;\n"
	" ELSE\n"
	"  DELETE FROM refrelay.lease_line l WHERE l.key = p_key AND (l.waiter ="
	"   p_dead_waiter OR l.seen <= now - interval '3 s' AND l.waiter <> p_me);\n"
	"  is_untold := is_untold OR FOUND;\n"
	"  SELECT l.* INTO first FROM refrelay.lease_line l WHERE l.key = p_key"
	"   ORDER BY l.ticket LIMIT 1;\n"
	"  IF FOUND AND first.waiter <> p_me THEN\n"
	"   outcome := -1; owner := first.owner; waiter := first.waiter;\n"
	"   IF is_untold THEN PERFORM refrelay.lease_wake_1(p_key); END IF;\n"
	"  END IF;\n"
	" END IF;\n"
	" IF outcome IS NOT NULL THEN\n"
	"  PERFORM " POSTGRESQL_NOT_SYNCED ";\n"
	"  IF p_waiting IS NOT NULL THEN\n"
	"   INSERT INTO refrelay.lease_line AS l (key, waiter, owner, seen)"
	"    VALUES (p_key, p_me, p_waiting, now) ON CONFLICT (key, waiter) DO UPDATE"
	"    SET seen = excluded.seen RETURNING l.ticket INTO ticket;\n"
	"  END IF;\n"
	"  RETURN;\n"
	" END IF;\n"
	" outcome := 1; nonce := p_nonce; owner := row.owner;\n"
	" ended := CASE WHEN was_held THEN 'held' ELSE row.ended END;\n"
	" fence := greatest(coalesce(row.fence, 0) + 32, p_floor + 1,"
	"  floor(extract(epoch FROM now) * 1000000)::bigint);\n"
	" left_ms := p_ttl_ms;\n"
	" INSERT INTO refrelay.lease AS l (key, fence, nonce, owner, expires_at)"
	"  VALUES (p_key, fence, p_nonce, p_owner, now + p_ttl_ms * interval '1 ms')"
	"  ON CONFLICT (key) DO UPDATE SET fence = excluded.fence, nonce ="
	"  excluded.nonce, owner = excluded.owner, expires_at = excluded.expires_at,"
	"  ended = NULL;\n"
	" DELETE FROM refrelay.lease_line l WHERE l.key = p_key AND l.waiter = p_me;\n"
	" has_others := EXISTS (SELECT FROM refrelay.lease_line l WHERE l.key = p_key);\n"
	"END $$",

	/* Notifies the first; but if that one is of the given boot, the caller notifies
	 * it, without a notice, which would wake all listeners. */
	"CREATE OR REPLACE FUNCTION refrelay.lease_release_3(p_key text, p_nonce text,"
	" p_boot text, OUT done int, OUT neighbour text) LANGUAGE plpgsql AS $$\n"
	"BEGIN\n"
	" UPDATE refrelay.lease l SET nonce = NULL, ended = 'released'"
	"  WHERE l.key = p_key AND l.nonce = p_nonce;\n"
	" done := FOUND::int;\n"
	" IF done = 0 THEN RETURN; END IF;\n"
	" SELECT l.owner INTO neighbour FROM refrelay.lease_line l WHERE l.key = p_key"
	"  AND l.seen > clock_timestamp() - interval '3 s' ORDER BY l.ticket LIMIT 1;\n"
	" IF neighbour IS NOT NULL AND (p_boot IS NULL OR"
	"  strpos(neighbour, ' boot=' || p_boot || ' ') = 0) THEN\n"
	"  neighbour := NULL;\n"
	"  PERFORM refrelay.lease_wake_1(p_key);\n"
	" END IF;\n"
	" PERFORM " POSTGRESQL_NOT_SYNCED ";\n"
	"END $$",

	/* The leaving waiter may have been notified that it is its turn. */
	"CREATE OR REPLACE FUNCTION refrelay.lease_leave_1(p_key text, p_me text)"
	" RETURNS void LANGUAGE plpgsql AS $$\n"
	"BEGIN\n"
	" DELETE FROM refrelay.lease_line l WHERE l.key = p_key AND l.waiter = p_me;\n"
	" IF FOUND AND NOT EXISTS (SELECT FROM refrelay.lease l WHERE l.key = p_key"
	"  AND l.nonce IS NOT NULL AND l.expires_at > clock_timestamp()) THEN\n"
	"  PERFORM refrelay.lease_wake_1(p_key);\n"
	" END IF;\n"
	" PERFORM " POSTGRESQL_NOT_SYNCED ";\n"
	"END $$",

	"CREATE OR REPLACE FUNCTION refrelay.lease_force_1(p_key text, p_nonce text,"
	" p_fence bigint) RETURNS int LANGUAGE plpgsql AS $$\n"
	"BEGIN\n"
	" UPDATE refrelay.lease l SET nonce = NULL, ended = 'forced', fence = fence + 1"
	"  WHERE l.key = p_key AND l.nonce = p_nonce AND l.fence = p_fence;\n"
	" IF NOT FOUND THEN RETURN 0; END IF;\n"
	" PERFORM refrelay.lease_wake_1(p_key);\n"
	" RETURN 1;\n"
	"END $$",
};

#define POSTGRESQL_ACQUIRE                                                               \
	"SELECT outcome, fence, owner, nonce, left_ms, ticket, waiter, ended, "          \
	"has_others FROM"                                                                \
	" refrelay.lease_acquire_3($1, $2, $3, $4, $5, $6, $7, $8, $9)"
#define POSTGRESQL_RELEASE                                                               \
	"SELECT done, neighbour FROM refrelay.lease_release_3($1, $2, $3)"
#define POSTGRESQL_WAKE "SELECT refrelay.lease_wake_1($1)"
#define POSTGRESQL_FORCE "SELECT refrelay.lease_force_1($1, $2, $3)"
#define POSTGRESQL_LEAVE "SELECT refrelay.lease_leave_1($1, $2)"

/* Only forward: a later report may arrive first. */
#define POSTGRESQL_PASS                                                                  \
	"UPDATE refrelay.lease l SET fence = $3, owner = $4 WHERE l.key = $1 AND "       \
	"l.nonce = $2"                                                                   \
	" AND l.fence < $3::bigint RETURNING EXISTS (SELECT FROM refrelay.lease_line w " \
	"WHERE w.key = $1"                                                               \
	" AND w.seen > clock_timestamp() - interval '3 s'), " POSTGRESQL_NOT_SYNCED

/* Never a lapsed or missing one. Keys and nonces: arrays. */
#define POSTGRESQL_EXTEND                                                                \
	"UPDATE refrelay.lease l SET expires_at = clock_timestamp() + $3::bigint *"      \
	" interval '1 ms' FROM unnest($1::text[], $2::text[]) AS e (key, nonce)"         \
	" WHERE l.key = e.key AND l.nonce = e.nonce AND l.expires_at >"                  \
	" clock_timestamp() RETURNING l.key"

#define POSTGRESQL_COLUMNS                                                               \
	"SELECT key, fence, owner, nonce, (extract(epoch FROM expires_at -"              \
	" clock_timestamp()) * 1000)::bigint, ended FROM refrelay.lease"
#define POSTGRESQL_INSPECT POSTGRESQL_COLUMNS " WHERE key = $1"
#define POSTGRESQL_LIST                                                                  \
	POSTGRESQL_COLUMNS                                                               \
	" WHERE starts_with(key, $1) OR key LIKE $2 ORDER BY key COLLATE \"C\""

#endif
