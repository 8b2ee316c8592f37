/*
 * The record of what a copy was last proved equal to: NAME.git/refrelay/copy, one JSON
 * object. It is only a short cut: if it is missing or unreadable, refs are compared.
 */
#ifndef PULL_COPY_RECORD_H
#define PULL_COPY_RECORD_H

#include "base/base.h"
#include "base/thread.h"
#include "git/checksum.h"
#include "git/fingerprint.h"
#include "git/repo.h"
#include "replicable/origin_rows.h"
#include "replicable/registry_types.h"

struct copy_record {
	bool is_there;
	bool is_unread;           /* not there, for lack of descriptors or the like */
	bool is_kept_back;        /* likewise, or by the disk or its mode; not torn */
	char end[64];             /* of its text, which tells it from all others: a
				     digest, unless an earlier version wrote it */
	char *source;             /* the source's path or URL; owned */
	struct checksum sum;      /* of both sides */
	struct checksum refs_sum; /* the same without cuts */
	char source_fingerprint[FINGERPRINT_TEXT_SIZE]; /* "" if the source has none */
	char copy_fingerprint[FINGERPRINT_TEXT_SIZE];
	int64_t copy_newest_ns; /* the latest stamp in it; 0: not known */
	char files_fingerprint[FINGERPRINT_TEXT_SIZE];   /* "" if none was taken */
	char objects_fingerprint[FINGERPRINT_TEXT_SIZE]; /* likewise */
	int64_t files_changed_ns;     /* changed_ns of the files; 0: not known */
	bool is_settled;              /* equal fingerprints prove that nothing changed */
	char timeline[TIMELINE_SIZE]; /* of a primary's repository, else "" */
	char log[TIMELINE_SIZE];      /* of that primary; "": not known */
	uint64_t generation;
	bool is_foreign; /* the source was an upstream: so are timeline and generation */
	uint64_t pushed; /* refs that pushes had deleted there (change/pushed.h) */
	uint64_t fence;  /* of its writer (git/fence.h); 0: not known */
	char *directory; /* whose record it is (change/origin_root.h); NULL: not known;
			    owned */
};

#define AUTO_RECORD __attribute__((cleanup(copy_record_clear)))

/* `dir` is the copy's directory. If it is absent or unreadable, is_there is false. */
void copy_record_read(int dir, struct copy_record *record);

/* The files of a copy, and those of its objects. `refs` is FINGERPRINT_COPY. */
struct copy_files {
	struct fingerprint all, objects, refs;
};
int copy_files_take(int dir, struct copy_files *files, struct err *err);

/* Whether there is what misleads git, as far as their stamps show something like that.
 * ERR_CORRUPT: what, as repo_check_diversions() and mend_check_refs() say it. */
int copy_files_check(int dir, const struct copy_files *files, struct err *err);

/* What was proved. Fingerprints were taken before the refs were read. */
struct copy_proof {
	const char *source;
	const struct checksum *sum;
	const struct checksum *refs_sum; /* of the refs alone; NULL: nothing is cut */
	const struct fingerprint *source_fingerprint; /* NULL: the source has none */
	const struct fingerprint *copy_fingerprint;   /* NULL: files->refs */
	const struct copy_files *files;               /* NULL: none */
	const char *timeline; /* NULL or "": the source has none */
	const char *log;      /* likewise */
	uint64_t generation;
	bool is_foreign;
	uint64_t pushed;
	uint64_t fence; /* 0: the writer has no lease */
};
int copy_record_write(int dir, const struct copy_proof *proof, struct err *err);

/* Writes the same record again, after its reader proved once more that the refs match it;
 * the fingerprint was taken before that proof. Under the lease, or if
 * copy_record_stands(). */
int copy_record_settle(int dir, const struct copy_record *record,
		       const struct fingerprint *copy_fingerprint, struct err *err);

/* Records the checksums of refs that are about to be published, wherever their history is
 * cut, so that after a crash in between they are recognized as ours: of the final ones,
 * and of what they are on the way to these. NAME.git/refrelay/intent, a line each. The
 * way has ended once the record has the first. So many fit into a sector. */
#define COPY_INTENTS_MOST 7
int copy_intent_write(int dir, const struct checksum *sums, size_t count,
		      struct err *err);
bool copy_intent_is(int dir, const struct copy_record *record,
		    const struct checksum *sum);
void copy_record_clear(struct copy_record *record);

/* What a person is asked to decide (SYNC_HELD): these refs of the copy, that so many
 * would be deleted, and whether commits would be lost. That is what they permit then, and
 * not what came since. NAME.git/refrelay/held, until the copy is equal. */
struct copy_held {
	struct checksum refs_sum;
	uint64_t deletions;
	bool has_commits;
};
int copy_held_write(int dir, const struct copy_held *held, struct err *err);
/* 1; 0: there is none; -1. One that makes no sense is of no refs. */
int copy_held_read(int dir, struct copy_held *held, struct err *err);
void copy_held_remove(int dir);

/* Counts more copies that somebody else had changed; also 0, at the start. */
void copy_record_count_changes(size_t count);

/* Whether it was written for this very directory, as the copy of that source, and the
 * refs are unchanged: everything here is ours. False also when that cannot be
 * determined. */
bool copy_record_is_of(const struct copy_record *record, int dir, const char *source);

/* Whether the copy's refs, read now, are those of the record. ERR_CORRUPT: they are
 * others; other errors: they cannot be read. */
bool copy_record_has_refs(const struct copy_record *record, const struct repo *copy,
			  struct err *err);

/* Whether the copy's disk looks as it did when the record was written. */
bool copy_record_has_copy(const struct copy_record *record,
			  const struct fingerprint *copy_fingerprint);

/* Whether nothing but directories below refs/ looks different since then, as after a
 * change that a hook refused. The caller must read the refs again to be sure. */
bool copy_record_has_files(const struct copy_record *record, int dir);

/* Whether HEAD, config and the like, including packed-refs, are older than it. */
bool copy_record_has_settings(const struct copy_record *record, int dir);

/* Compares what stat() says of its files with the record: whether somebody else may have
 * touched them. */
enum copy_stamps {
	COPY_STAMPS_SAME,  /* or there is nothing to compare with */
	COPY_STAMPS_LATER, /* only their ctimes differ: written with the times put back,
			      or cloned over the path. copy_content_is_sound() decides */
	COPY_STAMPS_OTHER,
	COPY_STAMPS_UNKNOWN, /* this machine cannot look now: that says nothing of them */
};
enum copy_stamps copy_record_look(const struct copy_record *record, int dir);
enum copy_stamps copy_record_compare_objects(const struct copy_record *record,
					     const struct copy_files *now);

/* Records these stamps, which were taken before refs and objects were found to be as
 * recorded: needed after a change that a hook refused, a clone over the path, or an older
 * version, which recorded less. Without the lease, too: it does nothing if the record
 * does not stand any more. */
void copy_record_restamp(int dir, const struct copy_record *record,
			 const struct copy_files *files);

/* Updates the record after we have changed the copy's packs, and nothing else. Leaves it
 * as it is where something misleads git. */
void copy_record_renew(int dir, struct copy_record *record);

/* Whether the record proves that both sides are as they were when it was written. */
bool copy_record_proves(const struct copy_record *record, const char *source,
			const struct fingerprint *source_fingerprint,
			const struct fingerprint *copy_fingerprint);

/* Whether no later lease holder has begun to work there: if its fence differs from the
 * repository's, it was written by a former holder, or a later one is at work or has
 * died. */
bool copy_record_is_latest(const struct copy_record *record, int dir);

/* Whether that is still the copy's record, and no later lease holder has begun to work
 * there: so one that has no lease may write it again. */
bool copy_record_stands(const struct copy_record *record, int dir);

/* Whether its source is the URL of that repository, at any primary. */
bool copy_record_is_of_name(const struct copy_record *record, const char *name);

/* Whether it was written when the copy became what the row says: it stays with the
 * directory if somebody moves that to another name. */
bool copy_record_is_of_row(const struct copy_record *record,
			   const struct registry_row *row);

/*
 * Whether files of a copy whose ctimes alone have changed still have the same content.
 * For callers that may read some gigabytes.
 */

/* Reads each object file that was stamped after `since_ns`: whether it ends with the
 * digest of the rest, as all files that git writes there do. 1: yes; 0: no; -1: after a
 * stop, or if that cannot be found out now. */
int copy_content_is_sound(const struct repo *copy, int64_t since_ns,
			  const struct stop *stop, struct err *err);

#endif
