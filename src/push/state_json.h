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

void dead_letter_write(const struct err *why, const ref_failures *refs, int64_t failed_at,
		       struct str *out);
/* Fills why, failed_at and refs. */
int dead_letter_read(const struct str *text, struct dead_letter *letter, struct err *err);

void uri_state_write_json(const struct uri_state *state, struct str *out);
int uri_state_read_json(const struct str *text, struct uri_state *state, struct err *err);

/* Just "uri", "remote" and "project". */
void uri_names_put_json(json_t *object, const char *uri, const char *remote,
			const char *project);
int uri_names_get_json(const json_t *object, char **uri, char **remote, char **project,
		       struct err *err);

#endif
