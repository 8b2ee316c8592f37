/*
 * Grants that are handed on as they are: the next one has the same grant, with the next
 * of its fences, and for no longer than the one before had it. The backend is told
 * afterwards: of what was handed on within the process by whoever released it; of what
 * another process gave by the keeper. It answers whether others wait by now: so these are
 * passed over once at most. What is told too late changes nothing; should it never be
 * told, the fences of the next grant are above these all the same (LEASE_FENCES): so many
 * may the backend not know of.
 */
#include "lease/manager.h"

#include "base/clock.h"

/* A third of the ttl may pass until the next renewal, and its children are killed a
 * quarter before its end. */
bool pass_lasts(const struct lease_manager *manager, int64_t valid_until)
{
	return valid_until - clock_boot_ms() >= manager->backend->ttl_ms * 6 / 10;
}

bool pass_may_locked(const struct lease *lease)
{
	const struct lease_manager *manager = lease->manager;
	const struct waiter_queue *queue = lease->queue;

	return manager->backend->ops->pass && !manager->backend->is_never_passed &&
	       !manager->ways.is_fixed && !queue->is_pass_untold && !lease->is_untold &&
	       queue->passes + 1 < LEASE_FENCES &&
	       pass_lasts(manager, lease->valid_until);
}

void pass_to_locked(struct lease *lease, const struct lease_request *request,
		    struct pass_note *note)
{
	struct waiter_queue *queue = lease->queue;

	lease->grant.fence++;
	queue->passes++;
	queue->is_pass_untold = true;
	queue->passed_until = lease->valid_until;
	note->grant = lease->grant;
	lease_describe_self(lease->manager, request, &note->holder);
}

int pass_tell(struct lease_manager *manager, const struct pass_note *note)
{
	bool has_others = false;
	int result = manager->backend->ops->pass(manager->backend, &note->grant,
						 &note->holder, &has_others, ERR_IGNORED);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&manager->mutex);
	struct waiter_queue *queue = map_get(&manager->queues, note->grant.key);

	if (!queue)
		return result;
	const struct lease *holder = queue->holder;
	if (holder && strcmp(holder->nonce, note->grant.nonce) != 0)
		return result; /* it is another grant by now */
	queue->has_others |= has_others;
	if (result == 0) {
		queue->is_pass_untold = false;
		queue->passes = manager->backend->may_forget ? queue->passes : 0;
	}
	return result;
}

void pass_add_untold_locked(struct lease *lease)
{
	struct lease_manager *manager = lease->manager;
	const struct pass_note note = { .grant = lease->grant, .holder = lease->self };

	vec_add(&manager->untold, note);
	manager->tell_at = 0;
	pthread_cond_signal(&manager->keeper_wake);
}

static struct lease *pass_find_held_locked(const struct lease_manager *manager,
					   const struct pass_note *note)
{
	struct lease *lease;

	TAILQ_FOREACH(lease, &manager->held, link)
	{
		if (!lease->lost && strcmp(lease->nonce, note->grant.nonce) == 0)
			return lease;
	}
	return NULL;
}

/* It is renewed from here on: at once, if that was to be by now, or if the renewal is to
 * find that it is another's. */
static void pass_told_locked(struct lease *lease, bool is_known)
{
	struct lease_manager *manager = lease->manager;
	int64_t due = clock_boot_ms();

	if (is_known && pass_lasts(manager, lease->valid_until))
		due += manager->backend->ttl_ms / 4;
	lease->is_untold = false;
	if (due < manager->renew_at)
		manager->renew_at = due;
}

/* Gives the mutex away while it asks. */
static void pass_tell_one_locked(struct lease_manager *manager,
				 const struct pass_note *note)
{
	int64_t again;

	if (!pass_find_held_locked(manager, note))
		return;
	unlock(&manager->mutex);
	int result = pass_tell(manager, note);
	lock(&manager->mutex);
	struct lease *lease = pass_find_held_locked(manager, note);
	if (lease && result >= 0)
		pass_told_locked(lease, result == 0);
	if (!lease || result >= 0)
		return;
	vec_add(&manager->untold, *note);
	again = clock_boot_ms() + manager->backend->ttl_ms / 12;
	if (again < manager->tell_at)
		manager->tell_at = again;
}

/* Renewals do not wait for it. */
void pass_tell_untold_locked(struct lease_manager *manager)
{
	pass_notes all = manager->untold;

	manager->untold = (pass_notes){ 0 };
	manager->tell_at = INT64_MAX;
	for (size_t i = 0; i < all.count; i++) {
		if (!manager->closing && clock_boot_ms() < manager->renew_at) {
			pass_tell_one_locked(manager, &all.items[i]);
			continue;
		}
		vec_add(&manager->untold, all.items[i]);
		manager->tell_at = 0;
	}
	vec_clear(&all);
}
