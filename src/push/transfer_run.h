/*
 * Shared by the parts of a transfer: transfer_plan.c decides what to do, transfer_here.c
 * and transfer_http.c do what they can, transfer.c lets git do the rest, and runs the
 * phases. For one thread.
 */
#ifndef PUSH_TRANSFER_RUN_H
#define PUSH_TRANSFER_RUN_H

#include "base/base.h"
#include "base/vec.h"
#include "git/refs.h"
#include "push/transfer.h"
#include "push/view.h"

enum item_state {
	ITEM_PLAIN,   /* to be pushed without force */
	ITEM_LEASED,  /* to be pushed with the value last read at the destination */
	ITEM_DONE,    /* its result is final */
	ITEM_DROPPED, /* nothing left to do: no result */
};

struct push_item {
	struct ref_result result;
	struct ref value;   /* its name is result.dst; no oid: to be deleted */
	bool forces;        /* its spec has a "+" */
	bool is_in_the_way; /* or behind: a directory and a file of one name */
	bool is_answered;   /* by the last push */
	bool is_unreadable; /* here: see local_fault */
	bool is_held_up;    /* in the last push; perhaps by another ref */
	enum item_state state;
};

typedef VEC(struct push_item *) push_items; /* borrowed */

struct transfer {
	const struct transfer_request *request;
	struct transfer_result *result;
	const struct push_remote *remote;
	struct git_remote git;
	char *header, *ssh, *receive_pack, *upload_pack, *objects; /* owned */
	VEC(struct push_item) items;                               /* by dst, each once */
	struct ref_reading local;
	struct ref_snapshot seen; /* the destination's refs, read before `local` */
	bool is_seen;
	bool is_stale; /* `seen` is no longer true */
	bool is_all;
	bool has_bulk; /* git has pushed so much to a path here that it is not synced yet
			*/
	struct transfer_here *here; /* NULL: not usable, or git does everything */
	struct transfer_http *http; /* likewise */
	struct view view;           /* made when git is first called */
	struct err local_fault;     /* of the last ref whose objects cannot be read */
	unsigned splits;            /* of pushes that were refused as a whole */
	unsigned refused_alone;     /* refs, after that */
	bool has_taken;             /* the destination took one */
};

/* Pushes these, in this order, and settles or leaves each. -1: the push failed as a
 * whole. */
int transfer_push(struct transfer *transfer, const push_items *items, struct err *err);

/* Fills `items` from the request, the local refs and, for a full push, `seen`. */
void transfer_plan(struct transfer *transfer);

/* Updates the remaining items to the present local refs. */
void transfer_renew(struct transfer *transfer);

/* Settles items that no longer need a push, since the destination has them, and holds the
 * deletions if there are too many. */
void transfer_compare(struct transfer *transfer);

/* ERR_CANCELED, ERR_LOST: as for children, which obey by themselves. */
int transfer_check_limits(const struct transfer *transfer, struct err *err);

/* For a destination on this machine that is plain: sets `seen` to its refs. NULL: git
 * must do everything. */
struct transfer_here *transfer_here_open(struct transfer *transfer);
void transfer_here_close(struct transfer_here *here); /* NULL is allowed */

/* Settles the plain items that need no git, and leaves the others. -1: it must stop, or
 * the disk failed. */
int transfer_here_push(struct transfer *transfer, struct transfer_here *here,
		       struct err *err);

/* For a destination by HTTP whose refs can be listed here: reads those that a push may
 * change, and for a full push sets `seen` to all that it shows. NULL: git must do
 * everything. */
struct transfer_http *transfer_http_open(struct transfer *transfer);
void transfer_http_close(struct transfer_http *http); /* NULL is allowed */

/* Settles the plain items that the destination reports as accepted, and leaves the
 * others. -1: it must stop. */
int transfer_http_push(struct transfer *transfer, struct transfer_http *http,
		       struct err *err);

/* Takes `text`. */
void item_settle(struct push_item *item, enum ref_status status, char *text);

#endif
