/*
 * The only judgement whether a site is in sync and verified. Command, API, readiness,
 * metrics, and a secondary's reports to its primary all use it. It is pure: without
 * clock, files or database; ages are by the boot clock, in milliseconds.
 *
 * A site is good only by fresh proof. The first line that applies, from the top, is the
 * verdict (p: primary, s: secondary, a: standalone):
 *
 *	input			not good when			   verdict
 *	is_root_lost		true: it is also why no node runs  ROOT_LOST	      s
 *	node			no node holds the data directory   NO_NODE	     psa
 *	node			it does not answer in time	   NODE_SILENT	     psa
 *	write_fails		the last write failed		   NOT_WRITTEN	     psa
 *	written_age_ms		none, or above VERDICT_WRITTEN_MS  NOT_WRITTEN	     psa
 *	is_failing		the last request failed		   PRIMARY_FAILS      s
 *	heard_age_ms		none since the start		   PRIMARY_UNHEARD    s
 *	heard_age_ms		above VERDICT_HEARD_MS		   PRIMARY_SILENT     s
 *	compared_age_ms		none, or of rows since removed	   NOT_COMPARED	      s
 *	compared_left_ms	below 0: older than its bound	   COMPARISON_OLD     s
 *	cursor			before primary_last_event	   EVENTS_WAIT	      s
 *	is_scan_failing		true				   SCAN_FAILS	     p a
 *	scan_age_ms		none since the start		   NOT_SCANNED	     p a
 *	scan_left_ms		below 0: older than its bound	   SCAN_OLD	     p a
 *	left_out		above 0				   LEFT_OUT	     ps
 *	synced			not all				   NOT_SYNCED	      s
 *	proved			not all				   NOT_VERIFIED	     ps
 *	has_unchecked		copies not seen since the start	   NOT_CHECKED	      s
 *	failing			above 0				   NOT_VERIFIED	       a
 *	follower_count		0				   NO_SECONDARY	     p
 *	followers.is_twice	true				   SECONDARY_TWICE   p
 *	followers.age_ms	none, or above VERDICT_HEARD_MS	   SECONDARY_SILENT  p
 *	followers.says		nothing				   SECONDARY_UNKNOWN p
 *	followers.says		not in sync, or an older event	   SECONDARY_BEHIND  p
 *	followers.lacks_kind	true				   SECONDARY_PARTIAL p
 *	mirrors_stale		above 0				   MIRROR_OLD	     p a
 *	mirrors_behind		above 0				   MIRROR_BEHIND     p a
 *	checkouts_failing	above 0				   CHECKOUT_FAILS    p a
 *	pushes_are_done		false				   PUSH_WAITS	     psa
 */
#ifndef REPORT_VERDICT_H
#define REPORT_VERDICT_H

#include "base/base.h"

/* A healthy site shows a sign of life every 10 s; with this bound its last verdict
 * becomes void at most 30 s after it was stopped, cut off, or its disk was full. */
#define VERDICT_WRITTEN_MS 25000
#define VERDICT_HEARD_MS 25000

enum site_role { SITE_PRIMARY, SITE_SECONDARY, SITE_STANDALONE };

enum verdict_node { NODE_NONE, NODE_MUTE, NODE_ANSWERS };

/* A secondary's verdict on itself: SAYS_NOTHING from a version without one. */
enum verdict_word { SAYS_NOTHING, SAYS_NOT_IN_SYNC, SAYS_IN_SYNC };

struct verdict_follower {
	int64_t age_ms; /* since its last request; -1: never since the node's start */
	bool is_twice;  /* two nodes ask under its name */
	enum verdict_word says;
	bool lacks_events; /* the primary has later events */
	bool lacks_kind;   /* the primary has blobs of a kind that it does not copy */
};

/* Ages are -1 if the event never happened. */
struct verdict_inputs {
	enum site_role role;
	enum verdict_node node;
	bool write_fails;
	int64_t written_age_ms;
	/* secondary */
	bool is_root_lost, is_failing;
	int64_t heard_age_ms, compared_age_ms, compared_left_ms;
	bool has_unchecked; /* copies that were not looked at since the start */
	uint64_t cursor, primary_last_event;
	/* primary and standalone */
	bool is_scan_failing;
	int64_t scan_age_ms, scan_left_ms;
	int64_t left_out; /* primary and secondary */
	/* primary */
	const struct verdict_follower *followers;
	size_t follower_count;
	/* rows of all kinds */
	int64_t all, synced, proved, failing;
	/* primary and standalone: mirrors of upstreams that were not found equal in time;
	 * those not brought and proved */
	int64_t mirrors_stale, mirrors_behind;
	int64_t checkouts_failing; /* working trees of mirrors */
	bool pushes_are_done;
};

enum verdict_code {
	VERDICT_IN_SYNC,
	/* The state is unknown. */
	VERDICT_NO_NODE,
	VERDICT_NODE_SILENT,
	VERDICT_NOT_WRITTEN,
	VERDICT_ROOT_LOST,
	VERDICT_PRIMARY_FAILS,
	VERDICT_PRIMARY_UNHEARD,
	VERDICT_PRIMARY_SILENT,
	VERDICT_NOT_COMPARED,
	VERDICT_COMPARISON_OLD,
	VERDICT_NOT_CHECKED,
	VERDICT_SCAN_FAILS,
	VERDICT_NOT_SCANNED,
	VERDICT_SCAN_OLD,
	VERDICT_NO_SECONDARY,
	VERDICT_SECONDARY_TWICE,
	VERDICT_SECONDARY_SILENT,
	VERDICT_SECONDARY_UNKNOWN,
	VERDICT_MIRROR_OLD,
	/* The state is known, and not good. */
	VERDICT_EVENTS_WAIT,
	VERDICT_LEFT_OUT,
	VERDICT_NOT_SYNCED,
	VERDICT_NOT_VERIFIED,
	VERDICT_SECONDARY_BEHIND,
	VERDICT_SECONDARY_PARTIAL,
	VERDICT_MIRROR_BEHIND,
	VERDICT_CHECKOUT_FAILS,
	VERDICT_PUSH_WAITS,
	VERDICT_CODES,
};

struct verdict {
	enum verdict_code code;
	int64_t age_ms; /* of the last proof, if it is too old; -1: never proved, or not a
			   matter of age */
	size_t follower; /* index, for SECONDARY_... */
};

void verdict_decide(const struct verdict_inputs *inputs, struct verdict *verdict);

/* Of a single follower: VERDICT_IN_SYNC, or VERDICT_SECONDARY_... */
enum verdict_code verdict_of_follower(const struct verdict_follower *one);

/* The name in JSON, metrics and reports ("primary_silent"); "in_sync". Static. */
const char *verdict_code_name(enum verdict_code code);

/* The meaning of a verdict's name, as a clause for people; an unknown name itself, e.g.
 * of a later version. Borrowed or static. */
const char *verdict_words(const char *name);

#endif
