#include "node/node_life.h"

#include "base/file.h"

/* Pull's copies are written to; what else is there is others' business. */
void node_life_start(const struct node_settings *settings, struct store *store,
		     struct node_life *life)
{
	const bool is_copy = settings->site.role == SITE_SECONDARY;

	life->settings = settings;
	life->store = store;
	random_hex(life->name, (sizeof(life->name) - 1) / 2);
	life->vitals = vitals_start(&(struct vitals_options){
		.store = store,
		.data = settings->site.data,
		.repositories = is_copy ? settings->site.repositories : NULL,
		.kinds = is_copy ? &settings->blobs : NULL });
	if (settings->site.role == SITE_PRIMARY)
		life->followers = followers_new();
}

void node_life_add(struct node_life *life, const struct web_services *services)
{
	vitals_add(life->vitals,
		   &(struct vitals_parts){ .pull = services->pull,
					   .watch = services->watch,
					   .blob_watch = services->blob_watch,
					   .kinds = &life->settings->blobs,
					   .followers = life->followers });
}

void node_life_stop(struct node_life *life)
{
	vitals_stop(life->vitals);
	followers_free(life->followers);
}

int node_life_expect(struct node_life *life, const struct conf *conf, struct err *err)
{
	struct conf_names names = { 0 };
	int result;

	if (!life->followers)
		return 0;
	conf_subsections(conf, "secondary", &names);
	result = followers_expect(life->followers, life->store, names.items, names.count,
				  err);
	vec_clear(&names);
	return result;
}

int node_life_report(void *arg, struct str *out, bool *is_good, struct err *err)
{
	struct node_life *life = arg;
	const struct node_settings *settings = life->settings;
	struct vital_signs signs;
	struct report report;

	vitals_look(life->vitals, &signs);
	const struct report_options options = { .role = settings->site.role,
						.site = settings->site.name,
						.data = settings->site.data,
						.root = settings->site.repositories,
						.store = life->store,
						.signs = &signs,
						.is_brief = true,
						.leaves_out_tasks = true,
						.kinds = &settings->blobs };
	int result = report_make(&options, &report, err);

	if (result == 0) {
		report_for_primary(&report, life->name, out);
		*is_good = report_is_good(&report);
	}
	report_clear(&report);
	vital_signs_clear(&signs);
	return result;
}
