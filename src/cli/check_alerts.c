/*
 * [alert] sections: what they name, and whether the last message got through. Nothing is
 * sent: `refrelay alert test` does that.
 */
#include "alert/store.h"
#include "cli/check.h"

static void check_alerts_one(struct checking *checking, const struct alert *alert)
{
	AUTO_STR struct str target = STR_INIT;
	struct err err;

	if (alert_check(alert, &err) != 0) {
		check_report(checking, CHECK_WRONG, "alert", &err);
		return;
	}
	alert_target(alert, &target);
	check_say(checking, CHECK_GOOD, "alert", "", "%s: %s%s%s", alert->name,
		  alert_way(alert), target.len > 0 ? " " : "", target.data);
}

static void check_alerts_sending(struct checking *checking, struct store *store,
				 const struct alert *alert)
{
	struct alert_state state = { 0 };
	struct alert_sending sending = { 0 };

	if (alert_store_read(store, alert->name, &state, &sending, ERR_IGNORED) == 0) {
		if (sending.failing_since > 0)
			check_say(checking, CHECK_WRONG, "alert", sending.why.remedy,
				  "%s cannot be sent: %s", alert->name, sending.why.text);
		if (sending.beat_failing_since > 0)
			check_say(checking, CHECK_WRONG, "alert",
				  "see refrelay alert test",
				  "the heartbeat of %s fails: %s", alert->name,
				  sending.beat_why);
	}
	alert_state_clear(&state);
}

void check_alerts(struct checking *checking)
{
	AUTO_ALERTS struct alerts alerts = { 0 };
	struct site_data data = { 0 };

	/* What is wrong with them was said with the configuration. */
	if (alerts_read(checking->conf, &alerts, ERR_IGNORED) != 0 ||
	    alerts.list.count == 0)
		return;
	for (size_t i = 0; i < alerts.list.count; i++)
		check_alerts_one(checking, alerts.list.items[i]);
	if (site_data_open_to_read(checking->site.data, &data, ERR_IGNORED) == 0)
		for (size_t i = 0; i < alerts.list.count; i++)
			check_alerts_sending(checking, data.store, alerts.list.items[i]);
	site_data_close(&data);
}
