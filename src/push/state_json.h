/*
 * What refrelay writes beside tasks, as JSON. Private to push/.
 */
#ifndef PUSH_STATE_JSON_H
#define PUSH_STATE_JSON_H

#include "base/json.h"
#include "push/dead_letters.h"
#include "push/uri_state.h"

/* Members "class", "reason", "text" and "remedy"; secrets are masked. */
void err_put_json(json_t *object, const struct err *from);
void err_get_json(const json_t *object, struct err *to);

#endif
