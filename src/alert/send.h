/*
 * Sends a message by the method of an [alert], and pings its heartbeat service. Secrets
 * are read from their files each time. Any thread.
 */
#ifndef ALERT_SEND_H
#define ALERT_SEND_H

#include "alert/message.h"
#include "base/thread.h"

struct alert_answer {
	char text[256];  /* the receiver's answer, for people */
	int64_t rest_ms; /* how long it asked to be left alone; 0: not stated */
};

/* Classes as of net/http_ask.h, net/mail.h and base/proc.h. */
int alert_send(const struct alert *alert, const struct alert_message *message,
	       const struct stop *stop, struct alert_answer *answer, struct err *err);

int alert_beat(const struct alert *alert, const struct stop *stop,
	       struct alert_answer *answer, struct err *err);

#endif
