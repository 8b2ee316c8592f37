#include "web/web_metrics.h"

#include "web/version.h"

static void begin_kinds(const struct kinds_here *here)
{
	const struct kind *kind = NULL;

	while ((kind = kinds_next(here, kind)) != NULL) {
		if (!kind->origin || !kind->origin->is_file)
			continue;
		web_blobs_begin_metrics(kind->type);
		blob_put_begin_metrics(kind->type);
	}
}

void web_metrics_begin(const struct web_services *services)
{
	version_show_metric();
	access_begin_metrics();
	if (services->role == SITE_SECONDARY)
		git_forward_begin_metrics();
	else
		git_push_begin_metrics();
	if (services->role == SITE_SECONDARY)
		return;
	if (services->role == SITE_PRIMARY) {
		web_refs_begin_metrics();
		web_packs_begin_metrics();
	}
	begin_kinds(services->here);
}
