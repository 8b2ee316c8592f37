#include "cli/changed_blobs.h"

#include "base/hook_wire.h"
#include "change/blob_changed.h"
#include "change/hook_socket.h"
#include "cli/site_data.h"

enum { NODE_WAIT_MS = 60000, WAKE_WAIT_MS = 1000 };

struct telling {
	const struct changed_blobs *changed;
	struct blob_notice *alone; /* NULL: a node may run */
	struct site_data data;
	struct event_log *log;
	uint64_t event_id;
};

/* A node's work, as none runs. */
static int open_alone(struct telling *telling, struct err *err)
{
	const struct changed_blobs *changed = telling->changed;
	AUTO_FREE char *path = xasprintf("%s/refrelay.db", changed->data);

	fprintf(stderr, "refrelay: no node runs here; the change is recorded all the "
			"same\n");
	if (site_data_open(changed->data, &telling->data, err) != 0 ||
	    event_log_open(telling->data.store, path, &telling->log, err) != 0)
		return -1;
	telling->alone = blob_notice_new(
		&(struct blob_notice_options){ .store = telling->data.store,
					       .log = telling->log,
					       .kinds = changed->kinds,
					       .reverify_ms = changed->reverify_ms });
	return 0;
}

static void close_alone(struct telling *telling)
{
	char ignored[8];

	if (telling->alone) /* one that started meanwhile hears of it */
		hook_socket_tell(telling->changed->data, "wake", WAKE_WAIT_MS, ignored,
				 sizeof(ignored), ERR_IGNORED);
	blob_notice_free(telling->alone);
	event_log_close(telling->log);
	site_data_close(&telling->data);
}

/* 1: it was told; 0: no node runs; -1. */
static int changed_blobs_report_to_node(struct telling *telling, const char *words,
					uint64_t *event_id, struct err *err)
{
	AUTO_FREE char *message = xasprintf(HOOK_CHANGED_BLOB "%s", words);
	char answer[32] = "";
	int told = hook_socket_tell(telling->changed->data, message, NODE_WAIT_MS, answer,
				    sizeof(answer), err);

	if (told == 1 && !text_to_uint64(answer, event_id))
		return err_set(err, ERR_INTERNAL, "the node gave no known answer");
	return told;
}

static int changed_blobs_report_change(struct telling *telling, const char *words,
				       struct err *err)
{
	uint64_t event_id = 0;
	int told = telling->alone
			   ? 0
			   : changed_blobs_report_to_node(telling, words, &event_id, err);

	if (told == 0 && !telling->alone && open_alone(telling, err) != 0)
		return -1;
	if (told == 0)
		told = blob_changed(telling->alone, words, &event_id, err);
	if (event_id > telling->event_id)
		telling->event_id = event_id;
	return told < 0 ? -1 : 0;
}

int changed_blobs_tell(const struct changed_blobs *changed, uint64_t *event_id,
		       struct err *err)
{
	struct telling telling = { .changed = changed };
	size_t room = HOOK_MESSAGE_MAX - strlen(HOOK_CHANGED_BLOB);
	int result = 0;
	struct err why;

	for (size_t at = 0, count; at < changed->count; at += count) {
		AUTO_STR struct str words = STR_INIT;
		count = blob_changed_render(changed->type, changed->ids + at,
					    changed->count - at, room, &words);
		if (count == 0) {
			result = err_set(err, ERR_CONFIG, "an id is too long");
			break;
		}
		if (changed_blobs_report_change(&telling, words.data, &why) == 0)
			continue;
		if (result == 0)
			*err = why;
		result = -1;
		if (why.class == ERR_CONFIG)
			break;
	}
	close_alone(&telling);
	*event_id = telling.event_id;
	return result;
}
