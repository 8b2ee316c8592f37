#include "lease/directory_owner.h"

#include "base/str.h"

/* Fields end at a space, the job at the end. */
static void clean(char *text, bool keep_spaces)
{
	for (char *at = text; *at; at++) {
		unsigned char c = (unsigned char)*at;
		if (c < ' ' || c == 0x7f || (c == ' ' && !keep_spaces))
			*at = '_';
	}
}

int owner_write(int generation_fd, const struct owner *owner)
{
	struct lease_holder holder = owner->holder;
	char text[OWNER_TEXT_SIZE];

	clean(holder.node, false);
	clean(holder.operation, false);
	clean(holder.job, true);
	snprintf(text, sizeof(text),
		 "fence=%" PRIu64 " ttl=%" PRId64 " pid=%" PRId64 " at=%" PRId64
		 " boot=%s node=%s op=%s%s job=%s",
		 holder.fence, owner->ttl_ms, holder.pid, holder.acquired_at,
		 holder.boot_id, holder.node, holder.operation,
		 owner->forced ? " forced=1" : "", holder.job);
	return symlinkat(text, generation_fd, "owner");
}

static void directory_owner_copy_text(char *to, size_t size, const char *value)
{
	snprintf(to, size, "%s", value);
}

static bool to_number(const char *value, int64_t *number)
{
	uint64_t parsed;

	if (!text_to_uint64(value, &parsed) || parsed > INT64_MAX)
		return false;
	*number = (int64_t)parsed;
	return true;
}

/* Names that we do not know are a later version's. */
static bool directory_owner_read_field(const char *name, const char *value,
				       struct owner *owner)
{
	struct lease_holder *holder = &owner->holder;

	if (strcmp(name, "fence") == 0)
		return text_to_uint64(value, &holder->fence);
	if (strcmp(name, "ttl") == 0)
		return to_number(value, &owner->ttl_ms);
	if (strcmp(name, "pid") == 0)
		return to_number(value, &holder->pid);
	if (strcmp(name, "at") == 0)
		return to_number(value, &holder->acquired_at);
	if (strcmp(name, "boot") == 0)
		directory_owner_copy_text(holder->boot_id, sizeof(holder->boot_id),
					  value);
	else if (strcmp(name, "node") == 0)
		directory_owner_copy_text(holder->node, sizeof(holder->node), value);
	else if (strcmp(name, "op") == 0)
		directory_owner_copy_text(holder->operation, sizeof(holder->operation),
					  value);
	else if (strcmp(name, "job") == 0)
		directory_owner_copy_text(holder->job, sizeof(holder->job), value);
	else if (strcmp(name, "forced") == 0)
		owner->forced = true;
	return true;
}

static bool directory_owner_parse_text(char *text, struct owner *owner)
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
		if (!directory_owner_read_field(name, value, owner))
			return false;
	}
	return owner->holder.fence > 0 && owner->holder.fence <= INT64_MAX &&
	       owner->ttl_ms > 0;
}

int owner_read(int generation_fd, struct owner *owner)
{
	char text[OWNER_TEXT_SIZE];
	ssize_t len = readlinkat(generation_fd, "owner", text, sizeof(text) - 1);

	*owner = (struct owner){ 0 };
	if (len < 0)
		return -1;
	text[len] = '\0';
	if (directory_owner_parse_text(text, owner))
		return 0;
	errno = EBADMSG;
	return -1;
}
