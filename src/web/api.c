#include "web/api.h"

#include "web/answer.h"

void api_wrong_role(struct web_response *response, const char *message)
{
	web_answer_problem(response, 409, "WRONG_ROLE", message,
			   "ask the other site, or see site.role");
}

bool api_needs_role(const struct web_request *request, enum site_role role,
		    struct web_response *response)
{
	AUTO_FREE char *message = NULL;

	if (request->services->role == role)
		return true;
	message = xasprintf(
		"site \"%s\" is a %s; only a %s can do this", request->services->site,
		site_role_name(request->services->role), site_role_name(role));
	api_wrong_role(response, message);
	return false;
}

int api_limit(const struct web_request *request, size_t *limit, struct err *err)
{
	uint64_t value = API_PAGE;

	if (web_query_number(request, "limit", API_PAGE_MAX, &value, err) != 0)
		return -1;
	if (value == 0)
		return err_set(err, ERR_CONFIG, "limit is 1 to %d", API_PAGE_MAX);
	*limit = (size_t)value;
	return 0;
}

int api_repository_failed(struct web_response *response, const struct err *err)
{
	if (err->class != ERR_MISSING)
		return -1;
	web_answer_problem(response, 404, WIRE_REPOSITORY_NOT_FOUND, err->text,
			   err->remedy);
	return 0;
}

void api_unreadable(struct web_response *response, const struct err *err)
{
	struct err said = *err;

	if (said.class != ERR_CORRUPT && said.class != ERR_CONFLICT)
		said.class = ERR_CONFIG;
	answer_err(response, 409, &said);
}

const struct blob_kind *api_blob_kind(const struct web_request *request,
				      struct web_response *response)
{
	const struct blob_kinds *kinds = request->services->blob_kinds;
	const struct blob_kind *kind =
		kinds ? blob_kinds_find(kinds, request->kind) : NULL;

	if (kind)
		return kind;
	AUTO_FREE char *message = xasprintf("site \"%s\" has no blobs of type \"%s\"",
					    request->services->site, request->kind);
	AUTO_FREE char *remedy = xasprintf(
		"give its configuration a section [blob \"%s\"]", request->kind);
	web_answer_problem(response, 404, WIRE_KIND_NOT_FOUND, message, remedy);
	return NULL;
}

int api_report(const struct web_services *services, bool of_tasks, struct report *report,
	       struct err *err)
{
	struct push_settings *settings =
		services->push ? push_settings_of(services->push) : NULL;
	struct vital_signs signs;
	struct pull_settings sync;

	if (services->pull)
		sync = pull_settings_now(services->pull);
	vitals_look(services->vitals, &signs);
	const struct report_options options = { .role = services->role,
						.site = services->site,
						.primary_url = services->primary_url,
						.data = services->data,
						.root = services->root,
						.store = services->store,
						.signs = &signs,
						.settings = services->pull ? &sync : NULL,
						.kinds = services->blob_kinds,
						.leaves_out_tasks = !of_tasks,
						.tasks = services->tasks,
						.push_leases = services->push_leases,
						.push_settings = settings };
	int result = report_make(&options, report, err);

	vital_signs_clear(&signs);
	push_settings_unref(settings);
	return result;
}
