/*
 * Metrics of the HTTP server that exist, with 0, from the start: those of each file that
 * counts some, and all of them for a site's role. Internal to web/.
 */
#ifndef WEB_WEB_METRICS_H
#define WEB_WEB_METRICS_H

#include "web/services.h"

void web_metrics_begin(const struct web_services *services);

/* Those of the single files. */
void access_begin_metrics(void);
void git_push_begin_metrics(void);
void git_forward_begin_metrics(void);
void web_refs_begin_metrics(void);
void web_packs_begin_metrics(void);
void web_blobs_begin_metrics(const char *kind);
void blob_put_begin_metrics(const char *kind);

#endif
