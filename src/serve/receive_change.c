#include "serve/receive_change.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "git/state.h"

int receive_change_ready(struct receive_change *change, struct err *err)
{
	return state_ready(change->dir, &change->writer, err);
}

void receive_change_clear(struct receive_change *change)
{
	receive_sync_clear(&change->names);
}

int receive_change_announce(struct receive_change *change, struct err *err)
{
	if (change->beat_at > 0 || change->is_settled)
		return 0;
	if (state_announce(&change->writer, err) != 0)
		return -1;
	change->beat_at = clock_boot_ms() + STATE_BEAT_MS;
	failpoint("receive_pack.begun");
	return 0;
}

static void receive_change_report_lost(const struct receive_change *change,
				       const struct err *err)
{
	log_warn("receive.lost", LOG_ERR(err), LOG_TEXT("path", change->path));
}

int64_t receive_change_beat_at(const struct receive_change *change)
{
	return change->is_settled ? 0 : change->beat_at;
}

void receive_change_beat(struct receive_change *change)
{
	int64_t at = receive_change_beat_at(change);
	struct err err;

	if (at == 0 || clock_boot_ms() < at)
		return;
	if (state_beat(&change->writer, &err) != 0)
		receive_change_report_lost(change, &err);
	change->beat_at = clock_boot_ms() + STATE_BEAT_MS;
}

/* Where it fails, the writer's file stays without an owner, and readers see to it that
 * there is a new key. */
static void end_change(struct receive_change *change)
{
	struct err err;
	int result;

	if (change->beat_at > 0) {
		if (state_check(&change->writer, &err) != 0)
			receive_change_report_lost(change, &err);
		result = state_end(&change->writer, &err);
	} else {
		result = state_renew(change->dir, &err);
		state_abandon(&change->writer);
	}
	if (result != 0)
		log_error("receive.not_ended", LOG_ERR(&err),
			  LOG_TEXT("path", change->path));
}

static int receive_change_make_durable(struct receive_change *change, struct err *err)
{
	if (receive_sync_run(&change->names, change->dir, err) == 0)
		return 0;
	return err_prefix(err, "what was pushed to %s", change->path);
}

/* What cannot be made durable is there all the same, and is recorded. */
static int receive_change_record_push(struct receive_change *change, struct err *err)
{
	struct err late;

	if (receive_change_make_durable(change, err) == 0)
		return change->recorded(change->arg, err);
	change->recorded(change->arg, &late);
	return -1;
}

int receive_change_settle(struct receive_change *change, struct err *err)
{
	if (change->is_settled)
		return 0;
	change->is_settled = true;
	failpoint("receive_pack.reported");
	if (!change->is_possible) {
		state_abandon(&change->writer);
		return 0;
	}
	end_change(change);
	if (receive_change_record_push(change, err) != 0)
		return -1;
	change->is_recorded = true;
	failpoint("receive_pack.recorded");
	return 0;
}
