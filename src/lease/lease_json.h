/*
 * A lease's holder as JSON, as in `lease list --json` and the API.
 */
#ifndef LEASE_LEASE_JSON_H
#define LEASE_LEASE_JSON_H

#include "base/json.h"
#include "lease/lease.h"

/* The caller owns it. */
json_t *lease_holder_json(const struct lease_holder *holder);

#endif
