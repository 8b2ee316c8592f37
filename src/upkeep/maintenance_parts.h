/*
 * Shared by the files of upkeep/maintenance.h.
 */
#ifndef UPKEEP_MAINTENANCE_PARTS_H
#define UPKEEP_MAINTENANCE_PARTS_H

#include "upkeep/maintenance.h"

/* Writes the record that maintenance_read_last() and maintenance_look() read later. */
int maintenance_write_last(const struct maintenance_request *request,
			   const struct maintenance_result *result, int64_t took_ms,
			   struct err *err);

#endif
