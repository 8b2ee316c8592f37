/*
 * Sends a message by the way of an [alert], and pings the service of its heartbeat.
 * Secrets are read from their files each time. Any thread.
 */
#ifndef ALERT_SEND_H
#define ALERT_SEND_H

#include "alert/message.h"
#include "base/thread.h"

struct alert_answer {
	char text[256];  /* what the receiver said, for people */
	int64_t rest_ms; /* so long it wants to be left alone; 0: it does not say */
};

/* Classes as of net/http_ask.h, net/mail.h and base/proc.h. */
int alert_send(const struct alert *alert, const struct alert_message *message,
	       const struct stop *stop, struct alert_answer *answer, struct err *err);

int alert_beat(const struct alert *alert, const struct stop *stop,
	       struct alert_answer *answer, struct err *err);

#endif
