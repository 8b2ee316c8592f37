#include "web/api.h"

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
