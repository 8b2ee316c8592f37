#include "lease/owner.h"

#include "base/str.h"

/* Fields end at a space, the job at the end. */
static void owner_clean(char *text, bool keep_spaces)
{
	for (char *at = text; *at; at++) {
		unsigned char c = (unsigned char)*at;
		if (c < ' ' || c == 0x7f || (c == ' ' && !keep_spaces))
			*at = '_';
	}
}

static bool owner_can_tell_path(const char *path)
{
	for (const char *at = path; *at; at++) {
		if ((unsigned char)*at <= ' ' || *at == 0x7f)
			return false;
	}
	return path[0] != '\0';
}

void owner_format(const struct owner *owner, char text[OWNER_TEXT_SIZE])
{
	struct lease_holder holder = owner->holder;
	char proof[OWNER_PATH_SIZE + OWNER_GUARD_SIZE + 16] = "", told[32] = "";

	owner_clean(holder.node, false);
	owner_clean(holder.operation, false);
	owner_clean(holder.job, true);
	if (owner_can_tell_path(owner->alive))
		snprintf(proof, sizeof(proof), " alive=%s guard=%s", owner->alive,
			 owner->guard);
	if (proof[0] && owner->told > 0)
		snprintf(told, sizeof(told), " told=%" PRId64, owner->told);
	snprintf(text, OWNER_TEXT_SIZE,
		 "ttl=%" PRId64 " pid=%" PRId64 " at=%" PRId64
		 " boot=%s node=%s op=%s%s%s%s job=%s",
		 owner->ttl_ms, holder.pid, holder.acquired_at, holder.boot_id,
		 holder.node, holder.operation, owner->forced ? " forced=1" : "", proof,
		 told, holder.job);
}

static bool owner_read_number(const char *value, int64_t *number)
{
	uint64_t parsed;

	if (!text_to_uint64(value, &parsed) || parsed > INT64_MAX)
		return false;
	*number = (int64_t)parsed;
	return true;
}

static bool owner_read_text(const char *value, char *to, size_t size)
{
	snprintf(to, size, "%s", value);
	return true;
}

#define OWNER_TEXT(value, field) owner_read_text((value), (field), sizeof(field))

/* Names that we do not know are a later version's. */
static bool owner_read_field(const char *name, const char *value, struct owner *owner)
{
	struct lease_holder *holder = &owner->holder;

	if (strcmp(name, "fence") == 0)
		return text_to_uint64(value, &holder->fence);
	if (strcmp(name, "ttl") == 0)
		return owner_read_number(value, &owner->ttl_ms);
	if (strcmp(name, "pid") == 0)
		return owner_read_number(value, &holder->pid);
	if (strcmp(name, "at") == 0)
		return owner_read_number(value, &holder->acquired_at);
	if (strcmp(name, "boot") == 0)
		return OWNER_TEXT(value, holder->boot_id);
	if (strcmp(name, "node") == 0)
		return OWNER_TEXT(value, holder->node);
	if (strcmp(name, "op") == 0)
		return OWNER_TEXT(value, holder->operation);
	if (strcmp(name, "job") == 0)
		return OWNER_TEXT(value, holder->job);
	if (strcmp(name, "alive") == 0)
		return OWNER_TEXT(value, owner->alive);
	if (strcmp(name, "guard") == 0)
		return OWNER_TEXT(value, owner->guard);
	if (strcmp(name, "told") == 0)
		return owner_read_number(value, &owner->told);
	if (strcmp(name, "forced") == 0)
		owner->forced = true;
	return true;
}

bool owner_parse(char *text, struct owner *owner)
{
	char *rest = text;

	while (rest) {
		char *name = rest;
		char *value = strchr(name, '=');
		if (!value)
			return false;
		*value++ = '\0';
		rest = strcmp(name, "job") == 0 ? NULL : strchr(value, ' ');
		if (rest)
			*rest++ = '\0';
		if (!owner_read_field(name, value, owner))
			return false;
	}
	return owner->holder.fence > 0 && owner->holder.fence <= INT64_MAX &&
	       owner->ttl_ms > 0;
}
