/*
 * The messages: one for everything due. Pure functions; any thread.
 */
#ifndef ALERT_MESSAGE_H
#define ALERT_MESSAGE_H

#include "alert/state.h"

#define ALERT_MESSAGE_MOST 50 /* troubles in one message; more are in the next one */

struct alert_message {
	const char *alert, *site, *role; /* borrowed */
	int64_t at;                      /* wall ms */
	bool is_test;
	const struct alert_state *state; /* NULL: a test */
	const struct alert *settings;
};

/* Appends one line, for a mail's subject: "refrelay paris: lag, disk". */
void alert_message_title(const struct alert_message *message, struct str *out);

/* Appends the text for people, lines ending in \n; the first is the title. */
void alert_message_text(const struct alert_message *message, struct str *out);

/* Appends one line of JSON with a newline; see refrelay.conf(5). ALERT_SLACK: {"text"}.
 */
void alert_message_json(const struct alert_message *message, enum alert_format format,
			struct str *out);

#endif
