#include "report/verdict.h"

static const char *const names[VERDICT_CODES] = {
	[VERDICT_IN_SYNC] = "in_sync",
	[VERDICT_NO_NODE] = "no_node",
	[VERDICT_NODE_SILENT] = "node_silent",
	[VERDICT_NOT_WRITTEN] = "not_written",
	[VERDICT_ROOT_LOST] = "root_lost",
	[VERDICT_PRIMARY_FAILS] = "primary_fails",
	[VERDICT_PRIMARY_UNHEARD] = "primary_unheard",
	[VERDICT_PRIMARY_SILENT] = "primary_silent",
	[VERDICT_NOT_COMPARED] = "not_compared",
	[VERDICT_COMPARISON_OLD] = "comparison_old",
	[VERDICT_NOT_CHECKED] = "not_checked",
	[VERDICT_SCAN_FAILS] = "scan_fails",
	[VERDICT_NOT_SCANNED] = "not_scanned",
	[VERDICT_SCAN_OLD] = "scan_old",
	[VERDICT_NO_SECONDARY] = "no_secondary",
	[VERDICT_SECONDARY_TWICE] = "secondary_twice",
	[VERDICT_SECONDARY_SILENT] = "secondary_silent",
	[VERDICT_SECONDARY_UNKNOWN] = "secondary_unknown",
	[VERDICT_MIRROR_OLD] = "mirror_old",
	[VERDICT_EVENTS_WAIT] = "events_wait",
	[VERDICT_LEFT_OUT] = "left_out",
	[VERDICT_NOT_SYNCED] = "not_synced",
	[VERDICT_NOT_VERIFIED] = "not_verified",
	[VERDICT_SECONDARY_BEHIND] = "secondary_behind",
	[VERDICT_SECONDARY_PARTIAL] = "secondary_partial",
	[VERDICT_MIRROR_BEHIND] = "mirror_behind",
	[VERDICT_CHECKOUT_FAILS] = "checkout_fails",
	[VERDICT_PUSH_WAITS] = "push_waits",
};

const char *verdict_code_name(enum verdict_code code)
{
	return names[code];
}

static const char *const words[VERDICT_CODES] = {
	[VERDICT_NO_NODE] = "its node is not running",
	[VERDICT_NODE_SILENT] = "its node does not answer",
	[VERDICT_NOT_WRITTEN] = "it cannot write to its disk",
	[VERDICT_ROOT_LOST] = "it cannot find its copies",
	[VERDICT_PRIMARY_FAILS] = "its last request to the primary failed",
	[VERDICT_PRIMARY_UNHEARD] = "it has not caught up with its primary's events yet",
	[VERDICT_PRIMARY_SILENT] = "it has not heard from its primary",
	[VERDICT_NOT_COMPARED] = "it has not finished a full comparison yet",
	[VERDICT_COMPARISON_OLD] = "its last full comparison is too old",
	[VERDICT_NOT_CHECKED] = "it has not checked all of its copies since it started",
	[VERDICT_EVENTS_WAIT] = "it has not processed the latest events",
	[VERDICT_LEFT_OUT] = "it left out names, or a kind of blobs",
	[VERDICT_NOT_SYNCED] = "it is still copying",
	[VERDICT_NOT_VERIFIED] = "not all of its copies are verified",
	[VERDICT_PUSH_WAITS] = "it still has changes to push",
};

const char *verdict_words(const char *name)
{
	for (size_t i = 0; i < VERDICT_CODES; i++)
		if (words[i] && strcmp(names[i], name) == 0)
			return words[i];
	return name;
}

static bool verdict_is_older(int64_t age_ms, int64_t bound_ms)
{
	return age_ms < 0 || age_ms > bound_ms;
}

static struct verdict verdict_of(enum verdict_code code, int64_t age_ms)
{
	return (struct verdict){ .code = code, .age_ms = age_ms };
}

static struct verdict well(void)
{
	return verdict_of(VERDICT_IN_SYNC, -1);
}

static struct verdict judge_node(const struct verdict_inputs *in)
{
	if (in->role == SITE_SECONDARY && in->is_root_lost)
		return verdict_of(VERDICT_ROOT_LOST, -1);
	if (in->node == NODE_NONE)
		return verdict_of(VERDICT_NO_NODE, -1);
	if (in->node == NODE_MUTE)
		return verdict_of(VERDICT_NODE_SILENT, -1);
	if (in->write_fails || verdict_is_older(in->written_age_ms, VERDICT_WRITTEN_MS))
		return verdict_of(VERDICT_NOT_WRITTEN, in->written_age_ms);
	return well();
}

static struct verdict judge_copies(const struct verdict_inputs *in)
{
	if (in->is_failing)
		return verdict_of(VERDICT_PRIMARY_FAILS, in->heard_age_ms);
	if (in->heard_age_ms < 0)
		return verdict_of(VERDICT_PRIMARY_UNHEARD, -1);
	if (in->heard_age_ms > VERDICT_HEARD_MS)
		return verdict_of(VERDICT_PRIMARY_SILENT, in->heard_age_ms);
	if (in->compared_age_ms < 0)
		return verdict_of(VERDICT_NOT_COMPARED, -1);
	if (in->compared_left_ms < 0)
		return verdict_of(VERDICT_COMPARISON_OLD, in->compared_age_ms);
	if (in->cursor < in->primary_last_event)
		return verdict_of(VERDICT_EVENTS_WAIT, -1);
	if (in->left_out > 0)
		return verdict_of(VERDICT_LEFT_OUT, -1);
	if (in->synced != in->all)
		return verdict_of(VERDICT_NOT_SYNCED, -1);
	if (in->proved != in->all)
		return verdict_of(VERDICT_NOT_VERIFIED, -1);
	return in->has_unchecked ? verdict_of(VERDICT_NOT_CHECKED, -1) : well();
}

enum verdict_code verdict_of_follower(const struct verdict_follower *one)
{
	if (one->is_twice)
		return VERDICT_SECONDARY_TWICE;
	if (verdict_is_older(one->age_ms, VERDICT_HEARD_MS))
		return VERDICT_SECONDARY_SILENT;
	if (one->says == SAYS_NOTHING)
		return VERDICT_SECONDARY_UNKNOWN;
	if (one->says != SAYS_IN_SYNC || one->lacks_events)
		return VERDICT_SECONDARY_BEHIND;
	return one->lacks_kind ? VERDICT_SECONDARY_PARTIAL : VERDICT_IN_SYNC;
}

/* What is not known of any goes before what is known of another. */
static struct verdict judge_followers(const struct verdict_inputs *in)
{
	struct verdict worst = well();

	if (in->follower_count == 0)
		return verdict_of(VERDICT_NO_SECONDARY, -1);
	for (size_t i = 0; i < in->follower_count; i++) {
		enum verdict_code code = verdict_of_follower(&in->followers[i]);
		if (code == VERDICT_IN_SYNC ||
		    (worst.code != VERDICT_IN_SYNC && worst.code <= code))
			continue;
		worst = verdict_of(code, in->followers[i].age_ms);
		worst.follower = i;
	}
	return worst;
}

/* Without a scan, nobody knows what there is to follow or to push. */
static struct verdict judge_scan(const struct verdict_inputs *in)
{
	if (in->is_scan_failing)
		return verdict_of(VERDICT_SCAN_FAILS, in->scan_age_ms);
	if (in->scan_age_ms < 0)
		return verdict_of(VERDICT_NOT_SCANNED, -1);
	return in->scan_left_ms < 0 ? verdict_of(VERDICT_SCAN_OLD, in->scan_age_ms)
				    : well();
}

static struct verdict judge_originals(const struct verdict_inputs *in)
{
	const struct verdict scan = judge_scan(in);

	if (scan.code != VERDICT_IN_SYNC)
		return scan;
	if (in->left_out > 0)
		return verdict_of(VERDICT_LEFT_OUT, -1);
	if (in->proved != in->all)
		return verdict_of(VERDICT_NOT_VERIFIED, -1);
	return judge_followers(in);
}

static struct verdict judge_mirrors(const struct verdict_inputs *in)
{
	if (in->mirrors_stale > 0)
		return verdict_of(VERDICT_MIRROR_OLD, -1);
	if (in->mirrors_behind > 0)
		return verdict_of(VERDICT_MIRROR_BEHIND, -1);
	return in->checkouts_failing > 0 ? verdict_of(VERDICT_CHECKOUT_FAILS, -1)
					 : well();
}

static struct verdict judge_standalone(const struct verdict_inputs *in)
{
	const struct verdict scan = judge_scan(in);

	if (scan.code != VERDICT_IN_SYNC)
		return scan;
	return in->failing > 0 ? verdict_of(VERDICT_NOT_VERIFIED, -1) : well();
}

static struct verdict judge_role(const struct verdict_inputs *in)
{
	switch (in->role) {
	case SITE_PRIMARY:
		return judge_originals(in);
	case SITE_SECONDARY:
		return judge_copies(in);
	case SITE_STANDALONE:
		break;
	}
	return judge_standalone(in);
}

void verdict_decide(const struct verdict_inputs *inputs, struct verdict *verdict)
{
	*verdict = judge_node(inputs);
	if (verdict->code == VERDICT_IN_SYNC)
		*verdict = judge_role(inputs);
	if (verdict->code == VERDICT_IN_SYNC)
		*verdict = judge_mirrors(inputs);
	if (verdict->code == VERDICT_IN_SYNC && !inputs->pushes_are_done)
		*verdict = verdict_of(VERDICT_PUSH_WAITS, -1);
}
