#include "web/version.h"

#include "base/metrics.h"
#include "store/store.h"
#include "web/route.h"
#include "wire/wire.h"

static int get_version(const struct web_request *request, struct web_response *response,
		       struct err *err)
{
	json_t *object = json_object();

	(void)request;
	(void)err;
	json_put_text(object, "version", REFRELAY_VERSION);
	json_put_number(object, "schema", store_schema_version());
	json_put_number(object, "protocol", WIRE_PROTOCOL);
	web_answer_json(response, 200, object);
	return 0;
}

static int get_document(const struct web_request *request, struct web_response *response,
			struct err *err)
{
	(void)request;
	(void)err;
	response->content_type = "application/json";
	str_add_bytes(&response->body, openapi_document, openapi_document_size);
	return 0;
}

const struct web_route web_version_routes[] = {
	{ "GET", "/api/v1/version", WEB_READER, WEB_BODY_NONE, get_version },
	{ "GET", "/api/v1/openapi.json", WEB_READER, WEB_BODY_NONE, get_document },
	{ 0 },
};

void version_show_metric(void)
{
	struct metric *info = metric_gauge("refrelay_build_info",
					   "1; its labels say which version this is.",
					   "version", "schema", "protocol");
	AUTO_FREE char *schema = xasprintf("%d", store_schema_version());
	AUTO_FREE char *protocol = xasprintf("%d", WIRE_PROTOCOL);

	metric_set(metric_at(info, REFRELAY_VERSION, schema, protocol), 1);
}
