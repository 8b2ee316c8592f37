#include "mirror/requests.h"

#include "base/clock.h"
#include "replicable/name.h"
#include "replicable/registry.h"

#define KEEP_MS ((int64_t)7 * 86400 * 1000)
/* The column is_once, in which wishes are the higher digits. */
#define IS_ONCE 1
#define WISHES 2
#define COLUMNS                                                                          \
	"id, mirror, watcher, asked_at, wait_ms, is_once, state, attempts, next_at,"     \
	" started_at, ended_at, waited_ms, has_changed, head_commit, branch, class,"     \
	" reason, message, remedy, checkout"

void mirror_request_clear(struct mirror_request *request)
{
	free(request->mirror);
	free(request->watcher);
	free(request->commit);
	free(request->branch);
	free(request->checkout);
	free(request->class);
	free(request->reason);
	free(request->message);
	free(request->remedy);
	*request = (struct mirror_request){ 0 };
}

void mirror_requests_clear(mirror_requests *requests)
{
	vec_clear_each(requests, mirror_request_clear);
}

static int mirror_requests_want_row_in(struct store_tx *tx, void *arg, struct err *err)
{
	const char *const *name = arg;
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	const struct registry_move asked = { .event = REGISTRY_ASKED,
					     .changed_at = clock_wall_ms() };
	int found = registry_get_in(tx, KIND_MIRROR, *name, &row, err);

	if (found <= 0 || row.is_gone)
		return found < 0 ? -1 : 0;
	return registry_ask_in(tx, KIND_MIRROR, *name, &asked, err);
}

int mirror_requests_want_row(struct store *store, const char *name, struct err *err)
{
	return store_write(store, mirror_requests_want_row_in, &name, err);
}

void mirror_request_set_failure(struct mirror_request *request, const struct err *why)
{
	text_replace(&request->class, err_class_name(why->class));
	text_replace(&request->reason, err_reason_name(why->reason));
	text_replace(&request->message, why->text);
	text_replace(&request->remedy, why->remedy);
}

void mirror_request_forget_failure(struct mirror_request *request)
{
	text_replace(&request->class, NULL);
	text_replace(&request->reason, NULL);
	text_replace(&request->message, NULL);
	text_replace(&request->remedy, NULL);
}

static void mirror_request_read(struct query *query, void *arg)
{
	struct mirror_request *request = arg;

	*request = (struct mirror_request){
		.mirror = query_copy_text(query, 1),
		.watcher = query_copy_text(query, 2),
		.asked_at = query_int(query, 3),
		.wait_ms = query_int(query, 4),
		.is_once = query_int(query, 5) & IS_ONCE,
		.wishes = (unsigned)query_int(query, 5) / WISHES,
		.state = (enum mirror_request_state)query_int(query, 6),
		.attempts = query_int(query, 7),
		.next_at = query_int(query, 8),
		.started_at = query_int(query, 9),
		.ended_at = query_int(query, 10),
		.waited_ms = query_int(query, 11),
		.has_changed = query_int(query, 12) != 0,
		.commit = query_copy_text(query, 13),
		.branch = query_copy_text(query, 14),
		.class = query_copy_text(query, 15),
		.reason = query_copy_text(query, 16),
		.message = query_copy_text(query, 17),
		.remedy = query_copy_text(query, 18),
		.checkout = query_copy_text(query, 19),
	};
	snprintf(request->id, sizeof(request->id), "%s", query_text(query, 0));
}

static int mirror_request_ask_row(struct store_tx *tx, const char *mirror,
				  struct err *err)
{
	const struct registry_move asked = { .event = REGISTRY_ASKED };

	return registry_ask_in(tx, KIND_MIRROR, mirror, &asked, err);
}

/* One that waits to be removed is not wanted again by that. */
static int mirror_request_check_row(struct store_tx *tx, const char *mirror,
				    struct err *err)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	int found = registry_get_in(tx, KIND_MIRROR, mirror, &row, err);

	if (found <= 0 || !row.is_gone)
		return found < 0 ? -1 : 0;
	err_set(err, ERR_MISSING, "%s is to be removed: its list has it no more", mirror);
	return name_remedy(err, "for more, run refrelay mirror show", mirror);
}

static int mirror_request_insert(struct store_tx *tx, void *arg, struct err *err)
{
	const struct mirror_request *request = arg;

	if (mirror_request_check_row(tx, request->mirror, err) != 0)
		return -1;
	if (query_write(tx, err,
			"INSERT INTO mirror_request (id, mirror, watcher, asked_at,"
			" wait_ms, is_once, state, next_at)"
			" VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?4)",
			QUERY_TEXT(request->id), QUERY_TEXT(request->mirror),
			QUERY_TEXT(request->watcher), QUERY_INT(request->asked_at),
			QUERY_INT(request->wait_ms),
			QUERY_INT((request->is_once ? IS_ONCE : 0) +
				  (int64_t)request->wishes * WISHES)) != 0)
		return -1;
	return mirror_request_ask_row(tx, request->mirror, err);
}

int mirror_request_add(struct store *store, struct mirror_request *request,
		       struct err *err)
{
	lease_job_new(request->id);
	request->asked_at = request->next_at = clock_wall_ms();
	return store_write(store, mirror_request_insert, request, err);
}

int mirror_requests_refuse_in(struct store_tx *tx, const char *mirror,
			      const struct err *why, struct err *err)
{
	return query_write(tx, err,
			   "UPDATE mirror_request SET state = 3, ended_at = ?2,"
			   " class = ?3, message = ?4, remedy = ?5"
			   " WHERE mirror = ?1 AND state IN (0, 1)",
			   QUERY_TEXT(mirror), QUERY_INT(clock_wall_ms()),
			   QUERY_TEXT(err_class_name(why->class)), QUERY_TEXT(why->text),
			   QUERY_TEXT(why->remedy[0] ? why->remedy : NULL));
}

struct mirror_request_taking {
	const char *mirror;
	mirror_requests *requests;
};

static void mirror_requests_add(struct query *query, void *arg)
{
	mirror_requests *requests = arg;
	struct mirror_request request;

	mirror_request_read(query, &request);
	vec_add(requests, request);
}

static int mirror_requests_list_due(struct store_tx *tx, void *arg, struct err *err)
{
	const struct mirror_request_taking *taking = arg;

	mirror_requests_clear(taking->requests);
	return query_each(tx, mirror_requests_add, taking->requests, err,
			  "SELECT " COLUMNS " FROM mirror_request"
			  " WHERE state = 0 AND mirror = ?1 AND next_at <= ?2"
			  " ORDER BY wait_ms, watcher, asked_at, id",
			  QUERY_TEXT(taking->mirror), QUERY_INT(clock_wall_ms()));
}

static int mirror_requests_begin(struct store_tx *tx, void *arg, struct err *err)
{
	const struct mirror_request_taking *taking = arg;
	int64_t now = clock_wall_ms();

	if (mirror_requests_list_due(tx, arg, err) != 0)
		return -1;
	for (size_t i = 0; i < taking->requests->count; i++) {
		struct mirror_request *request = &taking->requests->items[i];
		request->state = MIRROR_REQUEST_RUNNING;
		request->attempts++;
		request->started_at = now;
		if (query_write(tx, err,
				"UPDATE mirror_request SET state = 1, attempts = ?2,"
				" started_at = ?3 WHERE id = ?1",
				QUERY_TEXT(request->id), QUERY_INT(request->attempts),
				QUERY_INT(now)) != 0)
			return -1;
	}
	return 0;
}

int mirror_requests_take(struct store *store, const char *mirror,
			 mirror_requests *requests, struct err *err)
{
	struct mirror_request_taking taking = { mirror, requests };

	/* Most jobs have none: a look is cheaper than a commit. */
	if (store_read(store, mirror_requests_list_due, &taking, err) != 0)
		return -1;
	return requests->count == 0
		       ? 0
		       : store_write(store, mirror_requests_begin, &taking, err);
}

static int mirror_request_update(struct store_tx *tx, void *arg, struct err *err)
{
	const struct mirror_request *request = arg;

	return query_write(tx, err,
			   "UPDATE mirror_request SET state = ?2, next_at = ?3,"
			   " ended_at = ?4, waited_ms = ?5, has_changed = ?6,"
			   " head_commit = ?7, branch = ?8, class = ?9, reason = ?10,"
			   " message = ?11, remedy = ?12, checkout = ?13"
			   " WHERE id = ?1 AND state < 2",
			   QUERY_TEXT(request->id), QUERY_INT((int64_t)request->state),
			   QUERY_INT(request->next_at), QUERY_INT(request->ended_at),
			   QUERY_INT(request->waited_ms), QUERY_INT(request->has_changed),
			   QUERY_TEXT(request->commit), QUERY_TEXT(request->branch),
			   QUERY_TEXT(request->class), QUERY_TEXT(request->reason),
			   QUERY_TEXT(request->message), QUERY_TEXT(request->remedy),
			   QUERY_TEXT(request->checkout));
}

/* Those that may be running by their rows alone: their ends could not be written. */
static struct {
	pthread_mutex_t mutex;
	text_list ids;
} unsaved = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static void mirror_request_note_unsaved(const char *id)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&unsaved.mutex);

	if (!text_list_has(&unsaved.ids, id))
		vec_add(&unsaved.ids, xstrdup(id));
}

int mirror_request_save(struct store *store, const struct mirror_request *request,
			struct err *err)
{
	struct mirror_request saved = *request; /* a work's argument is not const */
	int result = store_write(store, mirror_request_update, &saved, err);

	if (result != 0)
		mirror_request_note_unsaved(request->id);
	return result;
}

struct mirror_request_freeing {
	const char *id;
	bool is_running; /* a job, of this node or of another one, has its mirror */
};

static int mirror_request_free(struct store_tx *tx, void *arg, struct err *err)
{
	struct mirror_request_freeing *freeing = arg;
	int found;

	if (query_write(tx, err,
			"UPDATE mirror_request SET state = 0 WHERE id = ?1 AND state = 1"
			" AND NOT EXISTS (SELECT 1 FROM registry WHERE kind = ?2"
			" AND name = mirror_request.mirror AND state = ?3)",
			QUERY_TEXT(freeing->id), QUERY_TEXT(KIND_MIRROR),
			QUERY_INT(REGISTRY_STARTED)) != 0)
		return -1;
	found = query_one(tx, NULL, NULL, err,
			  "SELECT 1 FROM mirror_request WHERE id = ?1 AND state = 1",
			  QUERY_TEXT(freeing->id));
	freeing->is_running = found > 0;
	return found < 0 ? -1 : 0;
}

/* Those that no job has wait again; the others are looked at again later. */
static void mirror_requests_free_unsaved(struct store *store)
{
	AUTO_TEXT_LIST text_list ids = { 0 };

	lock(&unsaved.mutex);
	ids = unsaved.ids;
	unsaved.ids = (text_list){ 0 };
	unlock(&unsaved.mutex);
	for (size_t i = 0; i < ids.count; i++) {
		struct mirror_request_freeing freeing = { .id = ids.items[i] };
		if (store_write(store, mirror_request_free, &freeing, ERR_IGNORED) != 0 ||
		    freeing.is_running)
			mirror_request_note_unsaved(ids.items[i]);
	}
}

struct mirror_request_reading {
	const char *id;
	struct mirror_request *request;
	const struct err *why; /* to give up */
	bool is_given_up;
};

static int mirror_request_find(struct store_tx *tx, void *arg, struct err *err)
{
	const struct mirror_request_reading *reading = arg;
	int found;

	mirror_request_clear(reading->request);
	found = query_one(tx, mirror_request_read, reading->request, err,
			  "SELECT " COLUMNS " FROM mirror_request WHERE id = ?1",
			  QUERY_TEXT(reading->id));
	if (found != 0)
		return found > 0 ? 0 : -1;
	return err_set(err, ERR_MISSING, "no such job: %s", reading->id);
}

int mirror_request_get(struct store *store, const char *id,
		       struct mirror_request *request, struct err *err)
{
	struct mirror_request_reading reading = { .id = id, .request = request };

	*request = (struct mirror_request){ 0 };
	return store_read(store, mirror_request_find, &reading, err);
}

static int mirror_request_end_waiting(struct store_tx *tx, void *arg, struct err *err)
{
	struct mirror_request_reading *reading = arg;
	struct mirror_request *request = reading->request;

	reading->is_given_up = false;
	if (mirror_request_find(tx, reading, err) != 0)
		return -1;
	if (request->state != MIRROR_REQUEST_WAITING)
		return 0;
	reading->is_given_up = true;
	request->state = MIRROR_REQUEST_FAILED;
	request->ended_at = clock_wall_ms();
	request->waited_ms = request->ended_at - request->asked_at;
	mirror_request_set_failure(request, reading->why);
	return mirror_request_update(tx, request, err);
}

int mirror_request_give_up(struct store *store, const char *id, const struct err *why,
			   struct err *err)
{
	AUTO_MIRROR_REQUEST struct mirror_request request = { 0 };
	struct mirror_request_reading reading = { .id = id,
						  .request = &request,
						  .why = why };

	if (store_write(store, mirror_request_end_waiting, &reading, err) != 0)
		return -1;
	return reading.is_given_up;
}

int mirror_requests_reset(struct store *store, struct err *err)
{
	return store_run(store, err,
			 "UPDATE mirror_request SET state = 0 WHERE state = 1");
}

static int mirror_requests_remove(struct store_tx *tx, void *arg, struct err *err)
{
	(void)arg;
	return query_write(tx, err,
			   "DELETE FROM mirror_request WHERE state >= 2 AND"
			   " ended_at < ?1",
			   QUERY_INT(clock_wall_ms() - KEEP_MS));
}

int mirror_requests_expire(struct store *store, struct err *err)
{
	return store_write_unsynced(store, mirror_requests_remove, NULL, err);
}

/* The distinct mirrors; count 0: none. */
static int mirror_requests_list_mirrors(struct store_tx *tx, void *arg, struct err *err)
{
	text_list_clear(arg);
	return query_each(tx, query_add_text, arg, err,
			  "SELECT DISTINCT mirror FROM mirror_request WHERE state = 0"
			  " AND next_at <= ?1",
			  QUERY_INT(clock_wall_ms()));
}

/* Of one that is due, or that a worker has, nothing need be asked; one that is removed
 * stays so. */
static int mirror_requests_ask_rows(struct store_tx *tx, void *arg, struct err *err)
{
	const text_list *mirrors = arg;
	int64_t now = clock_wall_ms();

	for (size_t i = 0; i < mirrors->count; i++) {
		AUTO_REGISTRY_ROW struct registry_row row = { 0 };
		int found =
			registry_get_in(tx, KIND_MIRROR, mirrors->items[i], &row, err);
		if (found < 0)
			return -1;
		if (found > 0 && (row.is_gone || row.state == REGISTRY_STARTED ||
				  (row.state == REGISTRY_PENDING && row.due_at <= now)))
			continue;
		if (mirror_request_ask_row(tx, mirrors->items[i], err) != 0)
			return -1;
	}
	return 0;
}

int mirror_requests_hurry(struct store *store, bool *any, struct err *err)
{
	text_list mirrors = { 0 };

	mirror_requests_free_unsaved(store);
	int result = store_read(store, mirror_requests_list_mirrors, &mirrors, err);
	*any = result == 0 && mirrors.count > 0;
	if (*any)
		result = store_write(store, mirror_requests_ask_rows, &mirrors, err);
	text_list_clear(&mirrors);
	return result;
}

static const char *mirror_request_word(const struct mirror_request *request)
{
	static const char *const words[] = {
		[MIRROR_REQUEST_WAITING] = "waiting",
		[MIRROR_REQUEST_RUNNING] = "running",
		[MIRROR_REQUEST_DONE] = "done",
		[MIRROR_REQUEST_FAILED] = "failed",
	};

	return words[request->state];
}

json_t *mirror_request_json(const struct mirror_request *request, const char *root)
{
	AUTO_FREE char *path = name_to_copy(root, request->mirror);
	json_t *object = json_object();
	char code[ERR_CODE_SIZE];

	json_put_text(object, "job", request->id);
	json_put_text(object, "mirror", request->mirror);
	json_put_text(object, "watcher", request->watcher);
	json_put_text(object, "state", mirror_request_word(request));
	json_put_text(object, "path",
		      request->state == MIRROR_REQUEST_DONE ? path : NULL);
	json_put_text(object, "checkout", request->checkout);
	json_put_text(object, "branch", request->branch);
	json_put_text(object, "commit", request->commit);
	json_put_bool(object, "changed", request->has_changed);
	json_put_seconds(object, "waited", request->waited_ms);
	json_put_time(object, "asked_at", request->asked_at);
	json_put_time(object, "ended_at", request->ended_at);
	json_put_number(object, "attempts", request->attempts);
	if (!request->class)
		return object;
	err_class_code(err_class_of_name(request->class), code);
	json_put_text(object, "class", request->class);
	json_put_text(object, "code", code);
	json_put_text(object, "reason", request->reason);
	json_put_text(object, "message", request->message);
	json_put_text(object, "remedy", request->remedy);
	return object;
}
