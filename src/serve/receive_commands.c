#include "serve/receive_commands.h"

#include "git/oid.h"
#include "git/pkt_line.h"

#define SHALLOW "shallow "

static void receive_commands_add_name(const struct receive_commands *commands,
				      const char *name, size_t len)
{
	len = strnlen(name, len);
	if (len > 0 && name[len - 1] == '\n')
		len--;
	receive_sync_add(commands->names, name, len);
}

/* "<old> <new> <name>", and behind the first name a NUL and capabilities. */
static bool take_command(struct receive_commands *commands, const char *line, size_t len)
{
	size_t digits = 2 * commands->oid_len;
	struct oid old, new;

	if (len < 2 * digits + 3 || line[digits] != ' ' || line[2 * digits + 1] != ' ' ||
	    !oid_parse(line, commands->oid_len, &old) ||
	    !oid_parse(line + digits + 1, commands->oid_len, &new))
		return false;
	if (commands->names)
		receive_commands_add_name(commands, line + 2 * digits + 2,
					  len - 2 * digits - 2);
	commands->count++;
	commands->needs_pack |= !oid_is_null(&new);
	commands->deletions += oid_is_null(&new);
	return true;
}

static bool receive_commands_take_line(struct receive_commands *commands,
				       const char *line, size_t len)
{
	if (len > strlen(SHALLOW) && memcmp(line, SHALLOW, strlen(SHALLOW)) == 0)
		return true;
	return take_command(commands, line, len);
}

/* A line that is cut looks broken, until there are more bytes than a line can have. */
static enum receive_step step_at(enum pkt pkt, size_t left)
{
	if (pkt == PKT_FLUSH)
		return RECEIVE_WHOLE;
	if (pkt == PKT_NO_MORE || (pkt == PKT_BROKEN && left < PKT_LINE_MAX))
		return RECEIVE_MORE;
	return RECEIVE_STRANGE;
}

size_t receive_commands_take(struct receive_commands *commands, const char *data,
			     size_t len)
{
	struct pkt_reader reader = { .at = data, .left = len };
	size_t taken = 0, line_len;
	const char *line;

	while (commands->step == RECEIVE_MORE) {
		size_t left = reader.left;
		enum pkt pkt = pkt_next(&reader, &line, &line_len);
		if (pkt != PKT_LINE) {
			commands->step = step_at(pkt, left);
			break;
		}
		if (receive_commands_take_line(commands, line, line_len))
			taken = len - reader.left;
		else
			commands->step = RECEIVE_STRANGE;
	}
	return taken;
}
