#include "alert/store.h"

#include "base/hash.h"
#include "base/str.h"
#include "store/site_value.h"

struct alert_keeping {
	const char *name;
	struct alert_state *state;
	struct alert_sending *sending;
};

static void alert_store_take_sending(struct query *query, void *arg)
{
	struct alert_sending *sending = arg;

	sending->sent_at = query_int(query, 0);
	sending->failing_since = query_int(query, 1);
	sending->failed_at = query_int(query, 2);
	sending->failures = query_int(query, 3);
	if (!query_is_null(query, 4)) {
		err_set(&sending->why, err_class_of_name(query_text(query, 4)), "%s",
			query_text(query, 5));
		err_remedy(&sending->why, "%s", query_text(query, 6));
	}
	sending->beat_at = query_int(query, 7);
	sending->beat_failing_since = query_int(query, 8);
	if (!query_is_null(query, 9))
		snprintf(sending->beat_why, sizeof(sending->beat_why), "%s",
			 query_text(query, 9));
}

static void alert_store_add_entry(struct query *query, void *arg)
{
	struct alert_state *state = arg;
	const int kind = alert_kind_of_name(query_text(query, 0));

	if (kind < 0) /* of a later version */
		return;
	const struct alert_entry entry = {
		.kind = (enum alert_kind)kind,
		.subject = query_copy_text(query, 1),
		.text = query_copy_text(query, 2),
		.remedy = query_copy_text(query, 3),
		.since = query_int(query, 4),
		.seen_at = query_int(query, 5),
		.gone_at = query_int(query, 6),
		.told_at = query_int(query, 7),
		.is_due = query_int(query, 8) != 0,
		.is_over = query_int(query, 9) != 0,
	};
	vec_add(&state->entries, entry);
}

static int alert_store_read_all(struct store_tx *tx, void *arg, struct err *err)
{
	const struct alert_keeping *keeping = arg;

	alert_state_clear(keeping->state);
	*keeping->sending = (struct alert_sending){ 0 };
	if (query_one(tx, alert_store_take_sending, keeping->sending, err,
		      "SELECT sent_at, failing_since, failed_at, failures, class,"
		      " message, remedy, beat_at, beat_failing_since, beat_message"
		      " FROM alert WHERE name = ?1",
		      QUERY_TEXT(keeping->name)) < 0)
		return -1;
	return query_each(
		tx, alert_store_add_entry, keeping->state, err,
		"SELECT kind, subject, message, remedy, since, seen_at, gone_at,"
		" told_at, is_due, is_over FROM alert_trouble WHERE alert = ?1"
		" ORDER BY seen_at, kind, subject",
		QUERY_TEXT(keeping->name));
}

int alert_store_read(struct store *store, const char *name, struct alert_state *state,
		     struct alert_sending *sending, struct err *err)
{
	struct alert_keeping keeping = { name, state, sending };

	*state = (struct alert_state){ 0 };
	return store_read(store, alert_store_read_all, &keeping, err);
}

static int alert_store_write_entry(struct store_tx *tx, const char *name,
				   const struct alert_entry *entry, struct err *err)
{
	return query_write(
		tx, err,
		"INSERT INTO alert_trouble (alert, kind, subject, message, remedy,"
		" since, seen_at, gone_at, told_at, is_due, is_over)"
		" VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
		QUERY_TEXT(name), QUERY_TEXT(alert_kind_name(entry->kind)),
		QUERY_TEXT(entry->subject), QUERY_TEXT(entry->text),
		QUERY_TEXT(entry->remedy), QUERY_INT(entry->since),
		QUERY_INT(entry->seen_at), QUERY_INT(entry->gone_at),
		QUERY_INT(entry->told_at), QUERY_INT(entry->is_due),
		QUERY_INT(entry->is_over));
}

static int alert_store_write_sending(struct store_tx *tx,
				     const struct alert_keeping *keeping, struct err *err)
{
	const struct alert_sending *sending = keeping->sending;
	const bool fails = sending->failing_since > 0;

	return query_write(
		tx, err,
		"INSERT INTO alert (name, sent_at, failing_since, failed_at, failures,"
		" class, message, remedy, beat_at, beat_failing_since, beat_message)"
		" VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
		QUERY_TEXT(keeping->name), QUERY_INT(sending->sent_at),
		QUERY_INT(sending->failing_since), QUERY_INT(sending->failed_at),
		QUERY_INT(sending->failures),
		QUERY_TEXT(fails ? err_class_name(sending->why.class) : NULL),
		QUERY_TEXT(fails ? sending->why.text : NULL),
		QUERY_TEXT(fails ? sending->why.remedy : NULL),
		QUERY_INT(sending->beat_at), QUERY_INT(sending->beat_failing_since),
		QUERY_TEXT(sending->beat_failing_since > 0 ? sending->beat_why : NULL));
}

static int alert_store_delete(struct store_tx *tx, const char *name, struct err *err)
{
	if (query_write(tx, err, "DELETE FROM alert WHERE name = ?1", QUERY_TEXT(name)) !=
	    0)
		return -1;
	return query_write(tx, err, "DELETE FROM alert_trouble WHERE alert = ?1",
			   QUERY_TEXT(name));
}

static int alert_store_write_all(struct store_tx *tx, void *arg, struct err *err)
{
	const struct alert_keeping *keeping = arg;

	if (alert_store_delete(tx, keeping->name, err) != 0 ||
	    alert_store_write_sending(tx, keeping, err) != 0)
		return -1;
	for (size_t i = 0; i < keeping->state->entries.count; i++)
		if (alert_store_write_entry(tx, keeping->name,
					    &keeping->state->entries.items[i], err) != 0)
			return -1;
	return 0;
}

int alert_store_write(struct store *store, const char *name,
		      const struct alert_state *state,
		      const struct alert_sending *sending, struct err *err)
{
	/* Both are only read. */
	struct alert_keeping keeping = { name, (struct alert_state *)(uintptr_t)state,
					 (struct alert_sending *)(uintptr_t)sending };

	return store_write(store, alert_store_write_all, &keeping, err);
}

static void alert_store_target_key(const char *name, struct str *key)
{
	str_addf(key, "alert.target.%s", name);
}

/* Of where it sends to, with its secrets. */
static void alert_store_digest(const struct alert *alert, struct str *digest)
{
	AUTO_STR struct str text = STR_INIT;

	str_addf(&text, "%s\n%s\n", alert->url ? alert->url : "",
		 alert->command ? alert->command : "");
	for (size_t i = 0; i < alert->mail.count; i++)
		str_addf(&text, "%s\n", alert->mail.items[i]);
	hash_add_hex(HASH_SHA256, text.data, text.len, 32, digest);
}

struct alert_opening {
	struct alert_keeping keeping;
	struct str key, target;
	bool has_forgotten; /* kinds */
};

static int alert_store_take_target(struct store_tx *tx, void *arg, struct err *err)
{
	struct alert_opening *opening = arg;
	AUTO_STR struct str before = STR_INIT;
	int found = site_value_get(tx, opening->key.data, &before, err);
	bool is_same = strcmp(before.data, opening->target.data) == 0;

	if (found < 0)
		return -1;
	if (found && !is_same)
		alert_state_untell(opening->keeping.state);
	if (((found && !is_same) || opening->has_forgotten) &&
	    alert_store_write_all(tx, &opening->keeping, err) != 0)
		return -1;
	return is_same ? 0
		       : site_value_set(tx, opening->key.data, opening->target.data, err);
}

int alert_store_open(struct store *store, const struct alert *alert,
		     struct alert_state *state, struct alert_sending *sending,
		     struct err *err)
{
	struct alert_opening opening = { .keeping = { alert->name, state, sending },
					 .key = STR_INIT,
					 .target = STR_INIT };
	int result = alert_store_read(store, alert->name, state, sending, err);

	opening.has_forgotten = alert_state_keep_kinds(state, alert->kinds);
	alert_store_target_key(alert->name, &opening.key);
	alert_store_digest(alert, &opening.target);
	if (result == 0)
		result = store_write(store, alert_store_take_target, &opening, err);
	str_clear(&opening.key);
	str_clear(&opening.target);
	return result;
}

static int alert_store_forget(struct store_tx *tx, void *arg, struct err *err)
{
	const struct alerts *alerts = arg;
	AUTO_TEXT_LIST text_list names = { 0 };

	if (query_each(tx, query_add_text, &names, err, "SELECT name FROM alert") != 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		if (alerts_find(alerts, names.items[i]))
			continue;
		AUTO_STR struct str target = STR_INIT;
		alert_store_target_key(names.items[i], &target);
		if (alert_store_delete(tx, names.items[i], err) != 0 ||
		    site_value_remove(tx, target.data, err) != 0)
			return -1;
	}
	return 0;
}

int alert_store_forget_others(struct store *store, const struct alerts *alerts,
			      struct err *err)
{
	return store_write(store, alert_store_forget, (struct alerts *)(uintptr_t)alerts,
			   err);
}
