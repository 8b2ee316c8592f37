/*
 * Kinds of blobs, and their rows, which are web/rows.c's.
 */
#include "web/api.h"
#include "web/blob_put.h"
#include "web/rows.h"
#include "wire/wire_blob.h"

static json_t *verification_json(const int64_t counts[VERIFICATION_STATES])
{
	json_t *object = json_object();

	for (int i = 0; i < VERIFICATION_STATES; i++)
		json_put_number(object,
				registry_verification_name((enum registry_verification)i),
				counts[i]);
	return object;
}

struct counting {
	const char *type;
	struct origin_counts counts;
};

static int count_origin(struct store_tx *tx, void *arg, struct err *err)
{
	struct counting *counting = arg;

	return origin_count(tx, counting->type, &counting->counts, err);
}

static int put_origin(struct store *store, const char *type, json_t *object,
		      struct err *err)
{
	struct counting counting = { .type = type };

	if (store_read(store, count_origin, &counting, err) != 0)
		return -1;
	json_put_number(object, "all", counting.counts.all);
	json_put_number(object, "bytes", counting.counts.bytes);
	json_put(object, "verification", verification_json(counting.counts.verification));
	return 0;
}

static int put_registry(struct store *store, const char *type, json_t *object,
			struct err *err)
{
	struct registry_counts counts;

	if (registry_counts(store, type, &counts, err) != 0)
		return -1;
	json_put_number(object, "all", counts.all);
	json_put_number(object, "bytes", counts.bytes);
	json_put_number(object, "bytes_to_come", counts.bytes_to_come);
	for (int i = 0; i < REGISTRY_STATES; i++)
		json_put_number(object, registry_state_name((enum registry_state)i),
				counts.states[i]);
	json_put_number(object, "held", counts.held);
	json_put_number(object, "gone", counts.gone);
	json_put(object, "verification", verification_json(counts.verification));
	return 0;
}

static int web_blobs_add_kind(const struct web_request *request,
			      const struct blob_kind *kind, json_t *array,
			      struct err *err)
{
	const struct web_services *services = request->services;
	json_t *object = wire_kind_json(kind);

	json_array_append_new(array, object);
	return services->role == SITE_PRIMARY
		       ? put_origin(services->store, kind->type, object, err)
		       : put_registry(services->store, kind->type, object, err);
}

static int get_types(const struct web_request *request, struct web_response *response,
		     struct err *err)
{
	const struct blob_kinds *kinds = request->services->blob_kinds;
	json_auto_t *array = json_array();

	if (request->services->role == SITE_STANDALONE) {
		api_wrong_role(response, "a standalone site replicates nothing");
		return 0;
	}
	for (size_t i = 0; kinds && i < kinds->items.count; i++)
		if (web_blobs_add_kind(request, &kinds->items.items[i], array, err) != 0)
			return -1;
	web_answer_json(response, 200, wire_kinds_json(json_incref(array)));
	return 0;
}

const struct web_route web_blob_routes[] = {
	{ "GET", "/api/v1/blobs", WEB_READER, WEB_BODY_NONE, get_types },
	{ "GET", "/api/v1/blobs/{kind}", WEB_READER, WEB_BODY_NONE, rows_list },
	{ "GET", "/api/v1/blobs/{kind}/{name}", WEB_READER, WEB_BODY_NONE, rows_get },
	{ "PUT", "/api/v1/blobs/{kind}/{name}", WEB_PRIMARY_OPERATOR, WEB_BODY_STREAM,
	  blob_put },
	{ "POST", "/api/v1/blobs/{kind}/{name}/sync", WEB_OPERATOR, WEB_BODY_MEMORY,
	  rows_sync },
	{ "POST", "/api/v1/blobs/{kind}/{name}/resync", WEB_OPERATOR, WEB_BODY_MEMORY,
	  rows_resync },
	{ "POST", "/api/v1/blobs/{kind}/{name}/reverify", WEB_SITE, WEB_BODY_MEMORY,
	  rows_reverify },
	{ 0 },
};
