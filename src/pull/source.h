/*
 * Where copies come from: directories on this machine, or a primary. The code that brings
 * copies knows only this interface. Safe from several threads.
 */
#ifndef PULL_SOURCE_H
#define PULL_SOURCE_H

#include "base/base.h"
#include "blob/file.h"
#include "git/checksum.h"
#include "git/fingerprint.h"
#include "git/objects.h"
#include "git/refs.h"
#include "pull/primary.h"
#include "replicable/discover.h"

/* One repository of the source at one moment. */
struct source_view {
	struct ref_snapshot refs;
	size_t oid_len;
	struct fingerprint fingerprint; /* from when the refs were read; local only */
	char *url;                      /* what git fetches from; owned */
	char *header;                   /* sent with it; owned, may be NULL; secret */
	char *ssh_command;   /* what git runs instead of ssh; owned, may be NULL */
	const char *ca_file; /* authorities; borrowed; NULL: the system's */
	bool is_local;       /* url is a path on this machine */
	bool has_packs;      /* ... and its packs are complete, without alternates */
	char *description;   /* the file of that name; owned, NULL: none */
	char *settings;      /* for readers; owned; NULL: not reported, leave them */
	uint64_t depth;      /* of an upstream: commits from each ref; 0: all */
	bool hides_cuts;     /* of an upstream: refs.cuts are known with the objects */
	bool is_foreign;     /* an upstream, */
	uint64_t pack_most;  /* ... that may send at most this; 0: as much as fits */
	char timeline[TIMELINE_SIZE], log[TIMELINE_SIZE]; /* of a primary's, else "" */
	uint64_t generation;                              /* likewise, else 0 */
	int64_t changed_at;                               /* likewise */
	/* Of a primary: refs that pushes have deleted (change/pushed.h). */
	uint64_t pushed_settled, pushed_announced;
	bool is_delta;   /* by source_read_since(): of the copy's own timeline and hash */
	struct str pack; /* owned; the new objects; empty: fetch them, or nothing */
	uint64_t pack_bytes; /* of its packs, as it reports; 0: not reported */
	text_list lenders;   /* whose objects it borrows (pull/share.h); owned */
	int64_t lent_ns;     /* wall clock: the new copy has their packs; 0: it has not */
};
#define AUTO_VIEW __attribute__((cleanup(source_view_clear)))

/* A copy's state, as its record and its disk prove. No copy: all 0, the sum of no
 * refs. */
struct source_have {
	struct ref_snapshot refs; /* owned */
	struct checksum sum;
	size_t oid_len;
	char timeline[TIMELINE_SIZE];
	uint64_t generation;
};

/* Objects that are to come into a copy. */
struct source_want {
	const struct git_work *work;
	const char *name; /* of the repository */
	const struct repo *copy;
	const struct source_view *view; /* what was read of the source */
	const oid_list *oids;           /* of the view's refs */
	const oid_list *known;          /* complete in the copy; NULL: unknown */
	bool *is_by_pack;  /* set if the view's pack had all of them; may be NULL */
	uint64_t *arrived; /* grows by the bytes of packs; may be NULL */
	struct ref_snapshot *refs; /* of the view, to learn peels; may be NULL */
	bool is_new;               /* the copy is still empty */
	bool is_anew;              /* it lost objects: bring all, even if here */
};

/* The same for a history that is, or was, cut short. */
struct source_cut_want {
	const struct source_want *want;
	const struct ref_snapshot *have; /* as in struct cut_fetch, as these */
	unsigned depth;
	const char *scratch;
};

/* Many small blobs, as they come. refuse, with the frames' arg: a directory has no bytes
 * of this one; why NULL: it is large and must be read alone. A primary tells both by the
 * frame's code. */
struct source_blobs_sink {
	struct wire_frame_sink frames;
	int (*refuse)(void *arg, const char *id, const struct err *why, struct err *err);
};

/* Blobs up to this size are brought in batches. */
#define BLOB_SMALL_MOST ((uint64_t)1 << 20)

struct source;

/* The operations of a source, called by the functions of the same names below. */
struct source_ops {
	char *(*url)(struct source *source, const char *name, struct err *err);
	/* NULL: it tells no fingerprints. */
	int (*look)(struct source *source, const char *name,
		    struct fingerprint *fingerprint, struct err *err);
	int (*read)(struct source *source, const char *name, struct source_view *view,
		    struct err *err);
	/* NULL: it cannot report differences. */
	int (*read_since)(struct source *source, const char *name,
			  struct source_have *have, struct source_view *view,
			  struct err *err);
	int (*bring)(struct source *source, const struct source_want *want,
		     struct err *err);
	int (*read_blob)(struct source *source, const struct blob_part *part,
			 int64_t most_ms, const struct blob_part_sink *sink,
			 struct err *err);
	int (*read_blobs)(struct source *source, const struct blob_many *many,
			  int64_t most_ms, const struct source_blobs_sink *sink,
			  struct err *err);
	int (*doubt)(struct source *source, const char *type, const char *name,
		     int64_t most_ms, struct err *err);
	bool (*take_refusal)(struct source *source, const char *name,
			     const struct err *why); /* see sync_repository.c */
	void (*free)(struct source *source);
	bool tells_checksums; /* of blobs; else the content read is the truth */
};

struct source {
	const struct source_ops *ops;
};

/* A source of the bare repositories below `root`, as discovered before; both borrowed. */
struct source *source_new_directory(const char *root, const struct discovery *discovery);

/* A source of the blobs below a directory, which is open; borrowed. A blob's timeline
 * stands for its size, time of change and inode; its generation is 1. */
#define SOURCE_FILE_GENERATION 1
struct source *source_new_files(int root);
void source_file_timeline(const struct blob_fingerprint *fingerprint,
			  char timeline[TIMELINE_SIZE]);

/* A source of a primary's repositories and blobs; borrowed. valid_ms: how long a git
 * child may take; any thread may change it (other sources ignore it). */
struct source *source_new_primary(struct primary *primary, int64_t valid_ms,
				  const struct stop *stop);
void source_set_valid(struct source *source, int64_t valid_ms);
void source_free(struct source *source);

/* Its path or URL, for records; owned. NULL, ERR_MISSING: a directory lacks it. */
char *source_url(struct source *source, const char *name, struct err *err);

/* The fingerprint alone: cheap, to see whether anything changed. ERR_MISSING: the source
 * does not have this repository; ERR_CONFLICT: a source without fingerprints. */
int source_look(struct source *source, const char *name, struct fingerprint *fingerprint,
		struct err *err);

/* Refs, HEAD and description at one moment: never a mix of older and newer refs.
 * ERR_CONFLICT: it changed faster than it could be read; ERR_CONFIG: a repository that
 * cannot be copied whole (partial, or shallow by another's hand), by name. */
int source_read(struct source *source, const char *name, struct source_view *view,
		struct err *err);
void source_view_clear(struct source_view *view);

/* The same for a copy that was equal once, or does not exist yet: only changes travel,
 * with their objects if those are few. Takes over have->refs. 1: no answer. */
int source_read_since(struct source *source, const char *name, struct source_have *have,
		      struct source_view *view, struct err *err);

/* Brings objects, with all they reach that the copy lacks: complete and durable when it
 * returns 0. The copy's refs do not change. work->bytes grows by what arrives. */
int source_bring(struct source *source, const struct source_want *want, struct err *err);

/* Whether that untrusted pack has brought everything, given `known`. If not, git finds
 * out what is wrong. Larger packs are not requested: */
bool source_take_pack(const struct source_want *want, const struct str *pack);
#define SOURCE_DELTA_BYTES ((uint64_t)1 << 20)

/* The same by a git child, for sources that use one. `have` as in objects_fetch(). */
int source_fetch(const struct source_want *want, const oid_list *have, struct err *err);

/* Likewise, when copied packs lack something, e.g. loose objects. */
int source_fetch_rest(const struct source_want *want, struct err *err);

/* The same by git, from any source, but up to a depth; adds the cuts. */
int source_fetch_cut(const struct source_cut_want *cut, oid_list *cuts, struct err *err);

int source_refuse_shallow(struct err *err); /* an upstream: -1, ERR_CONFIG */

/* Whether it failed because the source dropped objects of the view: get a new one. Or
 * because the copy lacks what it seemed to have. */
bool source_was_outrun(const struct source_view *view, const struct err *err);
bool source_lacked_objects(const struct source_view *view, const struct err *err);

/* As primary_blob_read() and primary_blob_read_many(), each within most_ms. From a
 * directory, all bytes are of one state of the file (ERR_CONFLICT: it changed). */
int source_read_blob(struct source *source, const struct blob_part *part, int64_t most_ms,
		     const struct blob_part_sink *sink, struct err *err);
int source_read_blobs(struct source *source, const struct blob_many *many,
		      int64_t most_ms, const struct source_blobs_sink *sink,
		      struct err *err);

/* Its content does not match what the source says of it: asks it to read that again. */
int source_doubt(struct source *source, const char *type, const char *name,
		 int64_t most_ms, struct err *err);

#endif
