/*
 * The program's version, and the document that describes the API.
 */
#ifndef WEB_VERSION_H
#define WEB_VERSION_H

#include <stddef.h>

/* The metric refrelay_build_info. */
void version_show_metric(void);

/* docs/openapi.json, as of the build. */
extern const char *const openapi_document;
extern const size_t openapi_document_size;

#endif
