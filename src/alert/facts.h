/*
 * Gathers the facts for the rules: the report, disks, rows. For one thread at a time.
 */
#ifndef ALERT_FACTS_H
#define ALERT_FACTS_H

#include "alert/rules.h"
#include "store/store.h"

/* Another server whose certificate may expire. */
struct alert_peer {
	char *what;    /* owned, as these: "the TLS certificate of the primary" */
	char *url;     /* https */
	char *ca_file; /* may be NULL */
};
typedef VEC(struct alert_peer) alert_peers;
void alert_peers_clear(alert_peers *peers);

/* Borrowed while facts are gathered. */
struct alert_sources {
	struct store *store;
	int (*report)(void *arg, struct report *report, struct err *err);
	/* Waits for no disk. The caller clears. */
	void (*signs)(void *arg, struct vital_signs *signs);
	void *arg;
	const char *data, *root;       /* site.data, site.repositories */
	const char *push_data;         /* of the task store; NULL: not used */
	const struct kinds_here *here; /* kinds with directories */
	int64_t started_at;            /* boot ms */
};

/* Gathers all facts except expiry times. The caller clears them; `report` belongs to
 * them. */
void alert_facts_gather(const struct alert_sources *sources, struct report *report,
			struct alert_facts *facts);
void alert_facts_clear(struct alert_facts *facts, struct report *report);

/* Asks each peer when its certificate expires, wall ms, in the order of the list; 0: it
 * cannot be asked. Waits for the network. Returns whether all are known. */
bool alert_peers_ask(const alert_peers *peers, const struct stop *stop, int64_t *at_ms);

#endif
