#include "lease/lease_json.h"
#include "replicable/take_away.h"
#include "web/api.h"

static int get_leases(const struct web_request *request, struct web_response *response,
		      struct err *err)
{
	lease_holders holders = { 0 };
	int result = lease_list(request->services->leases, &holders, err);

	if (result == 0) {
		json_t *array = json_array(), *object = json_object();
		for (size_t i = 0; i < holders.count; i++)
			json_array_append_new(array,
					      lease_holder_json(&holders.items[i]));
		json_put(object, "leases", array);
		web_answer_json(response, 200, object);
	}
	vec_clear(&holders);
	return result;
}

static int delete_lease(const struct web_request *request, struct web_response *response,
			struct err *err)
{
	struct lease_manager *leases = request->services->leases;
	struct take_away what = {
		.key = request->name,
		.actor = "an operator, over HTTP",
		.reason = web_query(request, "reason"),
		.repositories = request->services->root,
	};
	struct lease_holder holder;

	if (web_query_number(request, "fence", INT64_MAX, &what.fence, err) != 0)
		return -1;
	if (what.fence == 0 || !what.reason || !what.reason[0])
		return err_set(err, ERR_CONFIG,
			       "it takes ?fence=N, as GET /api/v1/leases gives it, and "
			       "&reason=TEXT");
	if (lease_take_away(leases, &what, err) != 0 ||
	    lease_inspect(leases, what.key, &holder, err) != 0)
		return -1;
	web_answer_json(response, 200, lease_holder_json(&holder));
	return 0;
}

const struct web_route web_lease_routes[] = {
	{ "GET", "/api/v1/leases", WEB_READER, WEB_BODY_NONE, get_leases },
	{ "DELETE", "/api/v1/leases/{name}", WEB_OPERATOR, WEB_BODY_NONE, delete_lease },
	{ 0 },
};
