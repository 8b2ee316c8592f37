/*
 * lfs_object.source is a sum: 1, the history names it; 2, it was uploaded. A row goes
 * with its last source. lfs_scan has a row for each repository of which there are others.
 */
#include "replicable/lfs_rows.h"

#include "replicable/name.h"

#define NAMED "1"
#define UPLOADED "2"
#define COLUMNS "repository, name, timeline, generation, whole_at, named, absent"

void lfs_scan_clear(struct lfs_scan *scan)
{
	free(scan->name);
	*scan = (struct lfs_scan){ 0 };
}

void lfs_scans_clear(lfs_scans *scans)
{
	vec_clear_each(scans, lfs_scan_clear);
}

static void lfs_rows_fill_scan(struct query *query, void *arg)
{
	struct lfs_scan *scan = arg;

	*scan = (struct lfs_scan){ .repository = (uint64_t)query_int(query, 0),
				   .name = query_copy_text(query, 1),
				   .generation = (uint64_t)query_int(query, 3),
				   .whole_at = query_int(query, 4),
				   .named = query_int(query, 5),
				   .absent = query_int(query, 6) };
	snprintf(scan->timeline, sizeof(scan->timeline), "%s", query_text(query, 2));
}

static void lfs_rows_add_scan(struct query *query, void *arg)
{
	lfs_scans *scans = arg;
	struct lfs_scan scan;

	lfs_rows_fill_scan(query, &scan);
	vec_add(scans, scan);
}

int lfs_scan_get(struct store_tx *tx, uint64_t repository, struct lfs_scan *scan,
		 struct err *err)
{
	*scan = (struct lfs_scan){ 0 };
	return query_one(tx, lfs_rows_fill_scan, scan, err,
			 "SELECT " COLUMNS " FROM lfs_scan WHERE repository = ?1",
			 QUERY_INT((int64_t)repository));
}

int lfs_scan_now(struct store_tx *tx, enum lfs_side side, const char *name,
		 struct lfs_scan *scan, struct err *err)
{
	static const char *const sql[] = {
		[LFS_ORIGIN] = "SELECT id, name, timeline, generation, 0, 0, 0"
			       " FROM origin WHERE id = ?1",
		[LFS_REGISTRY] = "SELECT id, name, timeline, generation, 0, 0, 0"
				 " FROM registry WHERE id = ?1 AND generation > 0"
				 " AND timeline IS NOT NULL",
	};

	*scan = (struct lfs_scan){ 0 };
	return query_one(tx, lfs_rows_fill_scan, scan, err, sql[side],
			 QUERY_INT((int64_t)replicable_id(KIND_REPOSITORY, name)));
}

static int run_for(struct store_tx *tx, const char *sql, uint64_t repository,
		   struct err *err)
{
	return query_write(tx, err, sql, QUERY_INT((int64_t)repository));
}

static int count_named(struct store_tx *tx, struct lfs_scan *scan, struct err *err)
{
	return query_number(tx, &scan->named, err,
			    "SELECT COUNT(*) FROM lfs_object WHERE repository = ?1"
			    " AND source <> " UPLOADED,
			    QUERY_INT((int64_t)scan->repository));
}

/* What is absent is counted by and by; of what was not looked for nothing is known. */
static int put_scan(struct store_tx *tx, const struct lfs_scan *scan, struct err *err)
{
	return query_write(tx, err,
			   "INSERT INTO lfs_scan (" COLUMNS ")"
			   " VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0)"
			   " ON CONFLICT (repository) DO UPDATE SET"
			   " name = excluded.name, timeline = excluded.timeline,"
			   " generation = excluded.generation,"
			   " whole_at = excluded.whole_at, named = excluded.named",
			   QUERY_INT((int64_t)scan->repository), QUERY_TEXT(scan->name),
			   QUERY_TEXT(scan->timeline),
			   QUERY_INT((int64_t)scan->generation),
			   QUERY_INT(scan->whole_at), QUERY_INT(scan->named));
}

static int put_row(struct store_tx *tx, const char *sql, uint64_t repository,
		   const struct lfs_row *row, struct err *err)
{
	return query_write(tx, err, sql, QUERY_INT((int64_t)repository),
			   QUERY_TEXT(row->oid), QUERY_INT((int64_t)row->size));
}

#define PUT_NAMED                                                                        \
	"INSERT INTO lfs_object (repository, oid, size, source)"                         \
	" VALUES (?1, ?2, ?3, " NAMED ") ON CONFLICT (repository, oid)"                  \
	" DO UPDATE SET source = lfs_object.source | " NAMED

/* Of two pointers to one object the first was taken; with all of history, the present. */
static int put_named(struct store_tx *tx, const struct lfs_found *found, struct err *err)
{
	static const char part[] = PUT_NAMED,
			  whole[] = PUT_NAMED ", size = excluded.size";

	for (size_t i = 0; i < found->rows->count; i++)
		if (put_row(tx, found->is_whole ? whole : part, found->scan->repository,
			    &found->rows->items[i], err) != 0)
			return -1;
	return 0;
}

static int begin_whole(struct store_tx *tx, const struct lfs_found *found,
		       struct err *err)
{
	if (found->is_other)
		return run_for(tx, "DELETE FROM lfs_object WHERE repository = ?1",
			       found->scan->repository, err);
	if (!found->is_whole)
		return 0;
	return run_for(tx,
		       "UPDATE lfs_object SET source = source & " UPLOADED
		       " WHERE repository = ?1",
		       found->scan->repository, err);
}

static int end_whole(struct store_tx *tx, const struct lfs_found *found, struct err *err)
{
	if (!found->is_whole)
		return 0;
	return run_for(tx, "DELETE FROM lfs_object WHERE repository = ?1 AND source = 0",
		       found->scan->repository, err);
}

int lfs_rows_put(struct store_tx *tx, const struct lfs_found *found, struct err *err)
{
	if (begin_whole(tx, found, err) != 0 || put_named(tx, found, err) != 0 ||
	    end_whole(tx, found, err) != 0 || count_named(tx, found->scan, err) != 0)
		return -1;
	return put_scan(tx, found->scan, err);
}

/* So that it goes with the repository. */
static int put_unscanned(struct store_tx *tx, const struct lfs_scan *scan,
			 struct err *err)
{
	return query_write(tx, err,
			   "INSERT INTO lfs_scan (" COLUMNS ")"
			   " VALUES (?1, ?2, '', 0, 0, 0, 0)"
			   " ON CONFLICT (repository) DO NOTHING",
			   QUERY_INT((int64_t)scan->repository), QUERY_TEXT(scan->name));
}

int lfs_rows_add_uploaded(struct store_tx *tx, const struct lfs_scan *scan,
			  const struct lfs_row *row, struct err *err)
{
	static const char sql[] =
		"INSERT INTO lfs_object (repository, oid, size, source)"
		" VALUES (?1, ?2, ?3, " UPLOADED ") ON CONFLICT (repository, oid)"
		" DO UPDATE SET source = lfs_object.source | " UPLOADED
		", size = excluded.size";

	if (put_unscanned(tx, scan, err) != 0)
		return -1;
	return put_row(tx, sql, scan->repository, row, err);
}

int lfs_row_get(struct store_tx *tx, uint64_t repository, const char *oid, uint64_t *size,
		struct err *err)
{
	int64_t number = -1;

	if (query_number(tx, &number, err,
			 "SELECT size FROM lfs_object WHERE repository = ?1 AND oid = ?2",
			 QUERY_INT((int64_t)repository), QUERY_TEXT(oid)) != 0)
		return -1;
	if (number < 0)
		return 0;
	*size = (uint64_t)number;
	return 1;
}

int lfs_scans_due(struct store_tx *tx, enum lfs_side side, const char *after,
		  size_t limit, lfs_scans *scans, struct err *err)
{
	static const char *const sql[] = {
		[LFS_ORIGIN] = "SELECT r.id, r.name, r.timeline, r.generation, 0, 0, 0"
			       " FROM origin r LEFT JOIN lfs_scan s"
			       " ON s.repository = r.id WHERE r.kind = ?1"
			       " AND r.name > ?2 AND r.checksum IS NOT NULL"
			       " AND (s.repository IS NULL OR"
			       " s.timeline <> r.timeline OR"
			       " s.generation <> r.generation)"
			       " ORDER BY r.name LIMIT ?3",
		[LFS_REGISTRY] = "SELECT r.id, r.name, r.timeline, r.generation, 0, 0, 0"
				 " FROM registry r LEFT JOIN lfs_scan s"
				 " ON s.repository = r.id WHERE r.kind = ?1"
				 " AND r.name > ?2 AND r.generation > 0"
				 " AND r.timeline IS NOT NULL"
				 " AND (s.repository IS NULL OR"
				 " s.timeline <> r.timeline OR"
				 " s.generation <> r.generation)"
				 " ORDER BY r.name LIMIT ?3",
	};

	return query_each(tx, lfs_rows_add_scan, scans, err, sql[side],
			  QUERY_TEXT(KIND_REPOSITORY), QUERY_TEXT(after),
			  QUERY_INT((int64_t)limit));
}

int lfs_scans_naming(struct store_tx *tx, const char *after, size_t limit,
		     lfs_scans *scans, struct err *err)
{
	return query_each(tx, lfs_rows_add_scan, scans, err,
			  "SELECT " COLUMNS
			  " FROM lfs_scan WHERE (named > 0 OR absent > 0)"
			  " AND name > ?1 ORDER BY name LIMIT ?2",
			  QUERY_TEXT(after), QUERY_INT((int64_t)limit));
}

int lfs_scans_lacking(struct store_tx *tx, lfs_scans *scans, struct err *err)
{
	return query_each(tx, lfs_rows_add_scan, scans, err,
			  "SELECT " COLUMNS
			  " FROM lfs_scan WHERE absent > 0 ORDER BY name");
}

/* Under either of the two ids that an object may have (blob/kinds.h). */
#define IDS                                                                              \
	"(substr(l.oid, 1, 2) || '/' || substr(l.oid, 3, 2) || '/' || substr(l.oid, 5)," \
	" substr(l.oid, 1, 2) || '/' || substr(l.oid, 3, 2) || '/' || l.oid)"

/* Objects that the history names and that are not here, or damaged: no clone gets them.
 */
#define ABSENT_AT_ORIGIN                                                                 \
	" FROM lfs_object l WHERE l.repository = ?1"                                     \
	" AND l.source <> " UPLOADED " AND NOT EXISTS (SELECT 1"                         \
	" FROM origin b WHERE b.kind = ?2 AND b.verification_state <> 3 AND b.name"      \
	" IN " IDS ")"
#define ABSENT_IN_REGISTRY                                                               \
	" FROM lfs_object l WHERE l.repository = ?1"                                     \
	" AND l.source <> " UPLOADED " AND NOT EXISTS (SELECT 1"                         \
	" FROM registry b WHERE b.kind = ?2 AND b.state = 2 AND b.name IN " IDS ")"

static void lfs_rows_add_row(struct query *query, void *arg)
{
	lfs_rows *rows = arg;
	struct lfs_row row = { .size = (uint64_t)query_int(query, 1) };

	snprintf(row.oid, sizeof(row.oid), "%s", query_text(query, 0));
	vec_add(rows, row);
}

int lfs_rows_absent(struct store_tx *tx, enum lfs_side side, const char *kind,
		    uint64_t repository, lfs_rows *rows, struct err *err)
{
	static const char *const sql[] = {
		[LFS_ORIGIN] = "SELECT l.oid, l.size" ABSENT_AT_ORIGIN " ORDER BY l.oid",
		[LFS_REGISTRY] =
			"SELECT l.oid, l.size" ABSENT_IN_REGISTRY " ORDER BY l.oid",
	};

	return query_each(tx, lfs_rows_add_row, rows, err, sql[side],
			  QUERY_INT((int64_t)repository), QUERY_TEXT(kind));
}

int lfs_scan_count(struct store *store, enum lfs_side side, const char *kind,
		   struct lfs_scan *scan, struct err *err)
{
	static const char *const sql[] = {
		[LFS_ORIGIN] = "SELECT COUNT(*)" ABSENT_AT_ORIGIN,
		[LFS_REGISTRY] = "SELECT COUNT(*)" ABSENT_IN_REGISTRY,
	};

	return store_one(store, query_take_number, &scan->absent, err, sql[side],
			 QUERY_INT((int64_t)scan->repository), QUERY_TEXT(kind)) < 0
		       ? -1
		       : 0;
}

int lfs_scan_set_absent(struct store_tx *tx, const struct lfs_scan *scan, struct err *err)
{
	return query_write(tx, err,
			   "UPDATE lfs_scan SET absent = ?2 WHERE repository = ?1",
			   QUERY_INT((int64_t)scan->repository), QUERY_INT(scan->absent));
}

int lfs_rows_forget(struct store_tx *tx, uint64_t repository, struct err *err)
{
	if (run_for(tx, "DELETE FROM lfs_object WHERE repository = ?1", repository,
		    err) != 0)
		return -1;
	return run_for(tx, "DELETE FROM lfs_scan WHERE repository = ?1", repository, err);
}

int lfs_rows_have_orphans(struct store *store, enum lfs_side side, struct err *err)
{
	static const char *const sql[] = {
		[LFS_ORIGIN] = "SELECT 1 FROM lfs_scan s LEFT JOIN origin r"
			       " ON r.id = s.repository WHERE r.id IS NULL LIMIT 1",
		[LFS_REGISTRY] = "SELECT 1 FROM lfs_scan s LEFT JOIN registry r"
				 " ON r.id = s.repository WHERE r.id IS NULL LIMIT 1",
	};

	return store_one(store, NULL, NULL, err, sql[side]);
}

int lfs_rows_prune(struct store_tx *tx, enum lfs_side side, struct err *err)
{
	static const char *const sql[] = {
		[LFS_ORIGIN] =
			"DELETE FROM lfs_object WHERE repository IN (SELECT s.repository"
			" FROM lfs_scan s LEFT JOIN origin r ON r.id = s.repository"
			" WHERE r.id IS NULL);"
			"DELETE FROM lfs_scan WHERE repository NOT IN"
			" (SELECT id FROM origin)",
		[LFS_REGISTRY] =
			"DELETE FROM lfs_object WHERE repository IN (SELECT s.repository"
			" FROM lfs_scan s LEFT JOIN registry r ON r.id = s.repository"
			" WHERE r.id IS NULL);"
			"DELETE FROM lfs_scan WHERE repository NOT IN"
			" (SELECT id FROM registry)",
	};

	return store_exec(tx, sql[side], err);
}
