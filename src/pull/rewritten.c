/*
 * An old tip is kept by the reflog of its branch (git/reflog.h): that changes no ref, so
 * the copy stays equal to its upstream, and git's own commands know it.
 *
 * Whether a branch was rewritten is found out by reading commits in this process, and by
 * git where that takes too many. Both have a limit a sync; of what is left then it is not
 * known, and its old tips are kept just the same, in the log of HEAD.
 */
#include "pull/rewritten.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "git/descent.h"
#include "git/object_store.h"
#include "git/objects.h"

#define BRANCHES_MOST 200
#define COMMITS_EACH ((size_t)2000)
#define COMMITS_MOST ((size_t)20000)
#define GIT_MOST 20

struct rewritten_look {
	const struct rewritten_request *request;
	struct rewritten *rewritten;
	struct object_store *store; /* NULL: not opened, or git's alone to read */
	bool was_opened;
	size_t branches, commits, by_git; /* that are left */
};

void rewritten_clear(struct rewritten *rewritten)
{
	vec_clear(&rewritten->branches);
	vec_clear(&rewritten->others);
}

static bool rewritten_is_cut(const struct rewritten_request *request)
{
	return request->copy->is_shallow || request->copy->is_cut ||
	       request->from->cuts.count > 0 || request->to->cuts.count > 0;
}

static bool rewritten_is_moved_branch(const struct ref_change *change)
{
	return change->before && change->after && !change->before->target &&
	       !change->after->target && text_starts_with(change->name, "refs/heads/");
}

static enum descent rewritten_find_here(struct rewritten_look *look,
					const struct reflog_move *move)
{
	size_t most = look->commits < COMMITS_EACH ? look->commits : COMMITS_EACH;
	size_t left = most;
	enum descent found = DESCENT_UNKNOWN;

	if (!look->was_opened)
		object_store_open(look->request->copy, &look->store, ERR_IGNORED);
	look->was_opened = true;
	if (look->store) {
		object_store_obey(look->store, look->request->work);
		found = descent_find(look->store, &move->after, &move->before, &left);
	}
	look->commits -= most - left;
	return found;
}

/* DESCENT_UNKNOWN stays if it was asked often enough. */
static int rewritten_ask_git(struct rewritten_look *look, const struct reflog_move *move,
			     enum descent *found, struct err *err)
{
	int answer;

	if (look->by_git == 0)
		return 0;
	look->by_git--;
	answer = objects_descends(look->request->work, look->request->copy, &move->after,
				  &move->before, err);
	if (answer >= 0)
		*found = answer > 0 ? DESCENT_YES : DESCENT_NO;
	return answer < 0 ? -1 : 0;
}

/* What lacks objects is not kept: git would not clean up where a log names it. */
static int rewritten_take_failure(struct rewritten_look *look,
				  const struct reflog_move *move, const struct err *why)
{
	if (why->class == ERR_CANCELED)
		return -1;
	if (why->class == ERR_CORRUPT || why->class == ERR_MISSING) {
		log_warn("mirror.tip_not_kept", LOG_TEXT("ref", move->ref), LOG_ERR(why));
		return 0;
	}
	look->rewritten->why = *why;
	vec_add(&look->rewritten->others, *move);
	return 0;
}

static int rewritten_look_at(struct rewritten_look *look, const struct ref_change *change,
			     struct err *err)
{
	const struct reflog_move move = { .ref = change->name,
					  .before = change->before->oid,
					  .after = change->after->oid };
	enum descent found = DESCENT_UNKNOWN;

	if (look->branches > 0) {
		look->branches--;
		found = rewritten_find_here(look, &move);
		if (found == DESCENT_UNKNOWN &&
		    rewritten_ask_git(look, &move, &found, err) < 0)
			return rewritten_take_failure(look, &move, err);
	}
	if (found == DESCENT_NO)
		vec_add(&look->rewritten->branches, move);
	else if (found == DESCENT_UNKNOWN)
		vec_add(&look->rewritten->others, move);
	return 0;
}

static int rewritten_find(struct rewritten_look *look, struct err *err)
{
	const struct ref_diff *diff = look->request->diff;
	int done = 0;

	for (size_t i = 0; done == 0 && i < diff->changes.count; i++)
		if (rewritten_is_moved_branch(&diff->changes.items[i]))
			done = rewritten_look_at(look, &diff->changes.items[i], err);
	object_store_close(look->store);
	return done;
}

/* The first error is told. One log that is full keeps no other from what it has room for;
 * a disk does. */
static bool rewritten_may_go_on(const struct err *why, int *result, struct err *err)
{
	if (*result == 0)
		*err = *why;
	*result = -1;
	return why->class != ERR_DISK;
}

static int rewritten_write(const struct rewritten_request *request,
			   struct rewritten *rewritten, struct err *err)
{
	const int dir = request->copy->fd;
	const int64_t now = clock_wall_ms() / 1000;
	size_t found = 0;
	int result = 0;
	struct err why;

	/* first, since a log may stand where another one must go; else HEAD has that */
	reflog_tidy(dir, request->to, now, REFLOG_REMOVE, &found, ERR_IGNORED);
	for (size_t i = 0; i < rewritten->branches.count; i++) {
		struct reflog_move *move = &rewritten->branches.items[i];
		move->is_kept = reflog_keep(dir, move, now, &why) == 0;
		if (!move->is_kept && !rewritten_may_go_on(&why, &result, err))
			return -1;
	}
	rewritten->are_others_kept =
		reflog_keep_many(dir, &rewritten->others, now, &why) == 0;
	if (!rewritten->are_others_kept)
		rewritten_may_go_on(&why, &result, err);
	return result;
}

int rewritten_keep(const struct rewritten_request *request, struct rewritten *rewritten,
		   struct err *err)
{
	struct rewritten_look look = { .request = request,
				       .rewritten = rewritten,
				       .branches = BRANCHES_MOST,
				       .commits = COMMITS_MOST,
				       .by_git = GIT_MOST };
	struct err why;

	if (!rewritten_is_cut(request) && rewritten_find(&look, err) != 0)
		return -1;
	if (rewritten->branches.count == 0 && rewritten->others.count == 0 &&
	    request->diff->deletions == 0)
		return 0;
	if (rewritten_write(request, rewritten, &why) != 0)
		log_warn("mirror.tip_not_kept", LOG_ERR(&why),
			 LOG_TEXT("remedy", why.remedy));
	failpoint("mirror.kept");
	return 0;
}

static void rewritten_say(const struct reflog_move *move)
{
	char before[OID_MAX_TEXT], after[OID_MAX_TEXT];
	struct err why;

	oid_text(&move->before, before);
	oid_text(&move->after, after);
	err_set(&why, ERR_CONFLICT,
		"the upstream rewrote %s: %s does not descend from %s", move->ref, after,
		before);
	err_because(&why, REASON_REWRITTEN);
	if (move->is_kept)
		err_remedy(&why,
			   "the old commits stay for %d days; git push ELSEWHERE "
			   "%s:refs/heads/NAME in the mirror's directory saves them",
			   REFLOG_DAYS, before);
	log_warn("mirror.rewritten", LOG_TEXT("ref", move->ref), LOG_ERR(&why),
		 LOG_TEXT("reason", err_reason_name(why.reason)), LOG_TEXT("old", before),
		 LOG_TEXT("new", after), LOG_TEXT("remedy", why.remedy));
}

static void rewritten_say_others(const struct rewritten *rewritten)
{
	struct err why = rewritten->why;

	if (why.class == ERR_NONE)
		err_set(&why, ERR_CONFLICT,
			"the upstream changed more branches than are compared at once");
	log_warn("mirror.not_compared", LOG_TEXT("ref", rewritten->others.items[0].ref),
		 LOG_ERR(&why), LOG_NUMBER("count", rewritten->others.count),
		 LOG_TEXT("kept", rewritten->are_others_kept ? "yes" : "no"));
}

void rewritten_report(const struct rewritten *rewritten)
{
	for (size_t i = 0; i < rewritten->branches.count; i++)
		rewritten_say(&rewritten->branches.items[i]);
	if (rewritten->others.count > 0)
		rewritten_say_others(rewritten);
}
