/*
 * Metrics of the HTTP server that are there, with 0, from the start: what the files that
 * count them tell, and all of it for a site's role. Internal to web/.
 */
#ifndef WEB_WEB_METRICS_H
#define WEB_WEB_METRICS_H

#include "web/services.h"

void web_metrics_begin(const struct web_services *services);

/* Of those files. */
void access_begin_metrics(void);
void git_push_begin_metrics(void);
void git_forward_begin_metrics(void);
void web_refs_begin_metrics(void);
void web_packs_begin_metrics(void);
void web_blobs_begin_metrics(const char *kind);
void blob_put_begin_metrics(const char *kind);

#endif
