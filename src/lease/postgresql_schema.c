/*
 * The leases' part of a PostgreSQL database: three tables and seven functions, in the
 * schema refrelay, so that each request is one statement and one round trip. Each
 * function takes a lock for its key, so that it is atomic; all times are the server's. A
 * changed function gets another number: nodes of two versions share the tables.
 *
 * Grants and renewals are on the server's disk before it answers. A release, a place in
 * the line and a pass are not waited for: if the server crashes and loses them, the lease
 * lasts until its ttl, and its next fence is above all earlier ones.
 *
 * Nor is a grant that its holder gave up in favour of the first in the line: that one has
 * it for no longer than the holder would have had, until it has renewed it. Should the
 * server lose it in a crash, the row says that the former holder has the lease, and so
 * nobody else gets it before. Hence a row that is from before the latest crash or
 * failover proves nothing about whom it names: if that one is dead, others still wait
 * until it lapses; and what its holder gave up for the next one, it does not release.
 */
#include "lease/postgresql_statements.h"

#include <stddef.h>

const char *const postgresql_schema[] = {
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

	/* When it was first asked for after a crash or a failover, which empty it. */
	"CREATE UNLOGGED TABLE IF NOT EXISTS refrelay.lease_start (one int PRIMARY KEY,"
	" since timestamptz NOT NULL)",

	"INSERT INTO refrelay.lease_start VALUES (1, clock_timestamp()) ON CONFLICT DO"
	" NOTHING",

	/* Whether a row with that end and owner may lack what a crash took. */
	"CREATE OR REPLACE FUNCTION refrelay.lease_is_older_1(p_expires_at timestamptz,"
	" p_owner text) RETURNS bool LANGUAGE plpgsql AS $$\n"
	"DECLARE began timestamptz;\n"
	"BEGIN\n"
	" SELECT since INTO began FROM refrelay.lease_start;\n"
	" IF NOT FOUND THEN\n"
	/* Nobody waits for the commit of the first one that does it. */
	"  IF pg_try_advisory_xact_lock(727312) THEN\n"
	"   INSERT INTO refrelay.lease_start VALUES (1, clock_timestamp())"
	"    ON CONFLICT DO NOTHING;\n"
	"  END IF;\n"
	"  RETURN true;\n"
	" END IF;\n"
	" RETURN p_expires_at - coalesce(substring(p_owner FROM '^ttl=([0-9]+) "
	"')::bigint,"
	"  0) * interval '1 ms' < began;\n"
	"END $$",

	/* Notifies the first in the line. */
	"CREATE OR REPLACE FUNCTION refrelay.lease_wake_1(p_key text) RETURNS void"
	" LANGUAGE sql AS $$"
	" SELECT pg_notify('refrelay_' || waiter, p_key) FROM (SELECT waiter FROM"
	" refrelay.lease_line WHERE key = p_key AND seen > clock_timestamp() - interval"
	" '3 s' ORDER BY ticket LIMIT 1) first"
	" $$",

	"CREATE OR REPLACE FUNCTION refrelay.lease_acquire_8("
	" p_key text, p_nonce text, p_owner text, p_ttl_ms bigint, p_floor bigint,"
	" p_give_up text, p_is_dead bool, p_dead_waiter text, p_me text, p_waiting text,"
	" OUT outcome int, OUT fence bigint, OUT owner text, OUT nonce text,"
	" OUT left_ms bigint, OUT ticket bigint, OUT waiter text, OUT ended text,"
	" OUT next text, OUT is_older bool)"
	" LANGUAGE plpgsql AS $$\n"
	"#variable_conflict use_column\n"
	"DECLARE row refrelay.lease%ROWTYPE; first record; now timestamptz; longest"
	" interval; was_held bool; is_untold bool; is_given_up bool; granted bigint;"
	" ignored text;\n"
	"BEGIN\n"
	" ignored := " POSTGRESQL_SYNCED " || " POSTGRESQL_IN_TIME ";\n"
	" PERFORM pg_advisory_xact_lock(hashtextextended(p_key, 7273));\n"
	" ticket := 0;\n"
	/* Handed to the first in the line: the usual case, with less to do. */
	" IF p_give_up IS NOT NULL AND NOT p_is_dead THEN\n"
	"  SELECT l.ticket, l.waiter, lead(l.owner) OVER (ORDER BY l.ticket) AS next"
	"   INTO first FROM refrelay.lease_line l WHERE l.key = p_key"
	"   ORDER BY l.ticket LIMIT 1;\n"
	"  IF first.waiter = p_me THEN\n"
	"   now := clock_timestamp();\n"
	"   UPDATE refrelay.lease l SET fence = greatest(l.fence + 32, p_floor + 1,"
	"    floor(extract(epoch FROM now) * 1000000)::bigint),"
	"    nonce = p_nonce, owner = p_owner, ended = NULL"
	"    WHERE l.key = p_key AND l.nonce = p_give_up AND l.expires_at BETWEEN"
	"    now + p_ttl_ms * interval '0.7 ms' AND now + p_ttl_ms * interval '1 ms'"
	"    RETURNING l.fence, floor(extract(epoch FROM l.expires_at - now) * 1000)"
	"    INTO fence, left_ms;\n"
	"   IF FOUND THEN\n"
	"    DELETE FROM refrelay.lease_line l WHERE l.ticket = first.ticket;\n"
	"    outcome := 1; nonce := p_nonce; owner := '';"
	"    ended := 'released'; next := first.next;\n"
	"    PERFORM " POSTGRESQL_NOT_SYNCED ";\n"
	"    RETURN;\n"
	"   END IF;\n  END IF;\n END IF;\n"
	" SELECT l.* INTO row FROM refrelay.lease l WHERE l.key = p_key FOR UPDATE;\n"
	" now := clock_timestamp();\n"
	/* A releasing holder notifies the first. Each notice wakes all listeners. */
	" is_untold := row.nonce IS NOT NULL;\n"
	/* Given up by its holder in favour of this attempt, or its holder is dead. */
	" is_given_up := row.nonce = p_give_up AND NOT (p_is_dead AND"
	"  refrelay.lease_is_older_1(row.expires_at, row.owner));\n"
	" IF is_given_up THEN row.nonce := NULL;"
	"  row.ended := CASE WHEN p_is_dead THEN 'held' ELSE 'released' END; END IF;\n"
	" was_held := row.nonce IS NOT NULL;\n"
	" IF was_held AND row.expires_at > now THEN\n"
	/* The clock was set back since. */
	"  longest := substring(row.owner FROM '^ttl=([0-9]+) ')::bigint *"
	"   interval '1 ms';\n"
	"  IF row.expires_at > now + longest + interval '2 s' THEN\n"
	"   UPDATE refrelay.lease l SET expires_at = now + longest WHERE l.key = p_key"
	"    RETURNING l.expires_at INTO row.expires_at; END IF;\n"
	"  outcome := 0; owner := row.owner; nonce := row.nonce; fence := row.fence;\n"
	"  left_ms := extract(epoch FROM row.expires_at - now) * 1000;\n"
	"  is_older := refrelay.lease_is_older_1(row.expires_at, row.owner);\n"
	" ELSE\n"
	"  LOOP\n"
	"   SELECT l.ticket, l.waiter, l.owner, l.seen, lead(l.owner) OVER (ORDER BY"
	"    l.ticket) AS next INTO first FROM refrelay.lease_line l WHERE l.key = p_key"
	"    ORDER BY l.ticket LIMIT 1;\n"
	"   EXIT WHEN NOT FOUND OR first.waiter = p_me OR first.waiter IS DISTINCT FROM"
	"    p_dead_waiter AND first.seen BETWEEN now - interval '3 s' AND now +"
	"    interval '2 s';\n"
	"   DELETE FROM refrelay.lease_line l WHERE l.ticket = first.ticket;\n"
	"   is_untold := true;\n"
	"  END LOOP;\n"
	"  IF first.waiter <> p_me THEN\n"
	"   outcome := -1; owner := first.owner; waiter := first.waiter;\n"
	"   IF is_untold THEN PERFORM refrelay.lease_wake_1(p_key); END IF;\n"
	"  END IF;\n END IF;\n"
	" IF outcome IS NOT NULL THEN\n"
	"  PERFORM " POSTGRESQL_NOT_SYNCED ";\n"
	"  IF is_given_up THEN UPDATE refrelay.lease l SET nonce = NULL,"
	"   ended = row.ended WHERE l.key = p_key; END IF;\n"
	"  IF p_waiting IS NOT NULL THEN\n"
	"   INSERT INTO refrelay.lease_line AS l (key, waiter, owner, seen)"
	"    VALUES (p_key, p_me, p_waiting, now) ON CONFLICT (key, waiter) DO UPDATE"
	"    SET seen = excluded.seen, owner = excluded.owner RETURNING l.ticket INTO "
	"ticket;\n"
	"  END IF;\n"
	"  RETURN;\n"
	" END IF;\n"
	" IF NOT EXISTS (SELECT FROM refrelay.lease_start) THEN\n"
	"  IF pg_try_advisory_xact_lock(727312) THEN\n"
	"   INSERT INTO refrelay.lease_start VALUES (1, now) ON CONFLICT DO NOTHING;\n"
	"  END IF;\n"
	" END IF;\n"
	" outcome := 1; nonce := p_nonce; owner := row.owner;\n"
	" ended := CASE WHEN was_held THEN 'held' ELSE row.ended END;\n"
	" granted := floor(extract(epoch FROM now) * 1000000)::bigint;\n"
	/* A crash may have taken grants that followed this one. They are below the clock,
	 * unless that was set back: only then is the fence to be ahead of it. */
	" granted := greatest(granted, p_floor + 1, coalesce(row.fence, 0) +"
	"  CASE WHEN row.fence >= granted AND (was_held OR row.ended = 'forced')"
	"  THEN 1000000 ELSE 32 END);\n"
	" fence := granted; left_ms := p_ttl_ms;\n"
	" IF row.key IS NULL THEN\n"
	"  INSERT INTO refrelay.lease (key, fence, nonce, owner, expires_at)"
	"   VALUES (p_key, granted, p_nonce, p_owner, now + p_ttl_ms * interval '1 "
	"ms');\n"
	" ELSE\n"
	"  UPDATE refrelay.lease l SET fence = granted, nonce = p_nonce, owner = p_owner,"
	"   expires_at = now + p_ttl_ms * interval '1 ms', ended = NULL"
	"   WHERE l.key = p_key;\n"
	" END IF;\n"
	" IF first.ticket IS NOT NULL THEN\n"
	"  DELETE FROM refrelay.lease_line l WHERE l.ticket = first.ticket;\n"
	"  next := first.next;\n"
	" END IF;\n"
	"END $$",

	/* If the grant was offered to the next one, or may have been, a crash may have
	 * taken that one's. Notifies the first; but if that one is of the given boot, the
	 * caller notifies it, without a notice, which would wake all listeners. */
	"CREATE OR REPLACE FUNCTION refrelay.lease_release_6(p_key text, p_nonce text,"
	" p_boot text, p_is_offered bool, OUT done int, OUT neighbour text)"
	" LANGUAGE plpgsql AS $$\n"
	"DECLARE ignored text;\n"
	"BEGIN\n"
	" ignored := " POSTGRESQL_IN_TIME ";\n"
	" UPDATE refrelay.lease l SET nonce = NULL, ended = 'released'"
	"  WHERE l.key = p_key AND l.nonce = p_nonce AND NOT (p_is_offered AND"
	"  refrelay.lease_is_older_1(l.expires_at, l.owner));\n"
	" done := FOUND::int;\n"
	" IF done = 0 THEN RETURN; END IF;\n"
	" SELECT l.owner INTO neighbour FROM refrelay.lease_line l WHERE l.key = p_key"
	"  AND l.seen BETWEEN clock_timestamp() - interval '3 s' AND"
	"  clock_timestamp() + interval '2 s' ORDER BY l.ticket LIMIT 1;\n"
	" IF neighbour IS NOT NULL AND (p_boot IS NULL OR"
	"  strpos(neighbour, ' boot=' || p_boot || ' ') = 0) THEN\n"
	"  neighbour := NULL;\n"
	"  PERFORM refrelay.lease_wake_1(p_key);\n"
	" END IF;\n"
	" ignored := " POSTGRESQL_NOT_SYNCED ";\n"
	"END $$",

	/* The leaving waiter may have been notified that it is its turn. */
	"CREATE OR REPLACE FUNCTION refrelay.lease_leave_2(p_key text, p_me text)"
	" RETURNS void LANGUAGE plpgsql AS $$\n"
	"BEGIN\n"
	" PERFORM " POSTGRESQL_IN_TIME ";\n"
	" DELETE FROM refrelay.lease_line l WHERE l.key = p_key AND l.waiter = p_me;\n"
	" IF FOUND AND NOT EXISTS (SELECT FROM refrelay.lease l WHERE l.key = p_key"
	"  AND l.nonce IS NOT NULL AND l.expires_at > clock_timestamp()) THEN\n"
	"  PERFORM refrelay.lease_wake_1(p_key);\n"
	" END IF;\n"
	" PERFORM " POSTGRESQL_NOT_SYNCED ";\n"
	"END $$",

	"CREATE OR REPLACE FUNCTION refrelay.lease_force_2(p_key text, p_nonce text,"
	" p_fence bigint) RETURNS int LANGUAGE plpgsql AS $$\n"
	"BEGIN\n"
	" PERFORM " POSTGRESQL_SYNCED ", " POSTGRESQL_IN_TIME ";\n"
	" UPDATE refrelay.lease l SET nonce = NULL, ended = 'forced', fence = fence + 1"
	"  WHERE l.key = p_key AND l.nonce = p_nonce AND l.fence = p_fence;\n"
	" IF NOT FOUND THEN RETURN 0; END IF;\n"
	" PERFORM refrelay.lease_wake_1(p_key);\n"
	" RETURN 1;\n"
	"END $$",

	/* The keys of those that are in force; never a lapsed or missing one. */
	"CREATE OR REPLACE FUNCTION refrelay.lease_extend_1(p_keys text[], p_nonces"
	" text[], p_ttl_ms bigint) RETURNS SETOF text LANGUAGE plpgsql AS $$\n"
	"BEGIN\n"
	" PERFORM " POSTGRESQL_SYNCED ", " POSTGRESQL_IN_TIME ";\n"
	" RETURN QUERY UPDATE refrelay.lease l SET expires_at = clock_timestamp() +"
	"  p_ttl_ms * interval '1 ms' FROM unnest(p_keys, p_nonces) AS e (key, nonce)"
	"  WHERE l.key = e.key AND l.nonce = e.nonce AND l.expires_at >"
	"  clock_timestamp() RETURNING l.key;\n"
	"END $$",
	NULL,
};
