#include "alert/message.h"

#include "base/clock.h"
#include "base/json.h"
#include "report/report.h"

static const char *const telling_names[] = {
	[ALERT_BEGINS] = "begins",
	[ALERT_REPEATS] = "continues",
	[ALERT_IS_OVER] = "over",
};

typedef void (*message_visit)(const struct alert_message *message,
			      const struct alert_entry *entry, enum alert_telling telling,
			      void *arg);

/* Returns how many there are; of those above the limit `visit` is not told. What is wrong
 * goes first: alert_state_told() counts in the same order. */
static size_t message_each(const struct alert_message *message, message_visit visit,
			   void *arg)
{
	size_t count = 0;

	for (enum alert_telling telling = ALERT_BEGINS;
	     message->state && telling <= ALERT_IS_OVER; telling++)
		for (size_t i = 0; i < message->state->entries.count; i++) {
			const struct alert_entry *entry =
				&message->state->entries.items[i];
			if (alert_entry_due(entry, message->settings, message->at) !=
			    telling)
				continue;
			if (count++ < ALERT_MESSAGE_MOST)
				visit(message, entry, telling, arg);
		}
	return count;
}

struct message_title {
	struct str *out;
	unsigned kinds[ARRAY_SIZE(telling_names)];
};

static void message_note_kind(const struct alert_message *message,
			      const struct alert_entry *entry, enum alert_telling telling,
			      void *arg)
{
	struct message_title *title = arg;

	(void)message;
	title->kinds[telling] |= 1u << entry->kind;
}

static void message_add_kinds(unsigned kinds, const char *before, struct str *out)
{
	for (int kind = 0; kind < ALERT_KINDS; kind++)
		if (kinds & 1u << kind) {
			str_addf(out, "%s%s", before,
				 alert_kind_name((enum alert_kind)kind));
			before = ", ";
		}
}

void alert_message_title(const struct alert_message *message, struct str *out)
{
	struct message_title title = { .out = out };
	const char *before = "";

	str_addf(out, "refrelay %s: ", message->site);
	if (message->is_test) {
		str_add(out, "test message");
		return;
	}
	message_each(message, message_note_kind, &title);
	message_add_kinds(title.kinds[ALERT_BEGINS] | title.kinds[ALERT_REPEATS], "",
			  out);
	if (title.kinds[ALERT_BEGINS] | title.kinds[ALERT_REPEATS])
		before = "; ";
	if (!title.kinds[ALERT_IS_OVER])
		return;
	str_addf(out, "%sover: ", before);
	message_add_kinds(title.kinds[ALERT_IS_OVER], "", out);
}

static void message_add_span(const struct alert_entry *entry, int64_t until,
			     struct str *out)
{
	char since[CLOCK_TEXT_SIZE];

	clock_format(entry->since, since);
	str_addf(out, " (since %s", since);
	if (until > entry->since) {
		str_add(out, ", for ");
		report_duration(until - entry->since, out);
	}
	str_add(out, ")");
}

static void message_add_line(const struct alert_message *message,
			     const struct alert_entry *entry, enum alert_telling telling,
			     void *arg)
{
	struct str *out = arg;
	const bool is_over = telling == ALERT_IS_OVER;

	str_addf(out, "%s%s: %s", is_over ? "over: " : "", alert_kind_name(entry->kind),
		 entry->text);
	message_add_span(entry, is_over ? entry->gone_at : message->at, out);
	str_add_char(out, '\n');
	if (!is_over && entry->remedy[0])
		str_addf(out, "  hint: %s\n", entry->remedy);
}

void alert_message_text(const struct alert_message *message, struct str *out)
{
	size_t count;

	alert_message_title(message, out);
	str_add_char(out, '\n');
	if (message->is_test) {
		str_addf(out, "This is a test of the alert %s. Nothing is wrong.\n",
			 message->alert);
		return;
	}
	count = message_each(message, message_add_line, out);
	if (count > ALERT_MESSAGE_MOST)
		str_addf(out, "and %zu more: see refrelay alert list\n",
			 count - ALERT_MESSAGE_MOST);
}

static void message_add_json(const struct alert_message *message,
			     const struct alert_entry *entry, enum alert_telling telling,
			     void *arg)
{
	json_t *object = json_object();

	(void)message;
	json_put_text(object, "event", telling_names[telling]);
	json_put_text(object, "kind", alert_kind_name(entry->kind));
	json_put_text(object, "subject", entry->subject);
	json_put_message(object, "message", entry->text);
	json_put_message(object, "remedy", entry->remedy);
	json_put_time(object, "since", entry->since);
	json_put_time(object, "ended_at", telling == ALERT_IS_OVER ? entry->gone_at : 0);
	json_array_append_new(arg, object);
}

static void message_put_troubles(const struct alert_message *message, json_t *document)
{
	json_t *array = json_array();
	const size_t count = message_each(message, message_add_json, array);

	json_put_text(document, "alert", message->alert);
	json_put_text(document, "site", message->site);
	json_put_text(document, "role", message->role);
	json_put_time(document, "at", message->at);
	json_put_bool(document, "test", message->is_test);
	json_put(document, "troubles", array);
	json_put_number(document, "more",
			count > ALERT_MESSAGE_MOST ? (int64_t)(count - ALERT_MESSAGE_MOST)
						   : 0);
}

/* So that no name of a repository calls people, or leads them elsewhere: as Slack wants
 * it escaped, and no "@" stands before a word. */
static void message_escape_chat(const char *text, struct str *out)
{
	for (; *text; text++)
		switch (*text) {
		case '&':
			str_add(out, "&amp;");
			break;
		case '<':
			str_add(out, "&lt;");
			break;
		case '>':
			str_add(out, "&gt;");
			break;
		case '@':
			str_add(out, "@\u200b");
			break;
		default:
			str_add_char(out, *text);
		}
}

void alert_message_json(const struct alert_message *message, enum alert_format format,
			struct str *out)
{
	json_auto_t *document = json_object();
	AUTO_STR struct str text = STR_INIT, escaped = STR_INIT;

	alert_message_text(message, &text);
	if (format == ALERT_JSON)
		message_put_troubles(message, document);
	else
		message_escape_chat(text.data, &escaped);
	json_put_text(document, "text", format == ALERT_JSON ? text.data : escaped.data);
	json_render(document, out);
	str_add_char(out, '\n');
}
