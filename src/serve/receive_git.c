#include "serve/receive_git.h"

#include <fcntl.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/str.h"
#include "git/oid.h"
#include "git/pkt_line.h"
#include "serve/find.h"
#include "serve/http_service.h"
#include "serve/receive_pack.h"
#include "serve/ref_list.h"

#define SHALLOW "shallow "
#define CERTIFICATE "push-cert"
#define SIDE_BAND "side-band-64k" /* the only one that git knows of pushes */

enum {
	DELETED_MAX = 8 << 20, /* bytes */
	DELETED_NAMES_MAX = 100000,
};

void receive_commands_clear(struct receive_commands *commands)
{
	map_clear(&commands->deleted);
}

/* Without a NUL and what follows, and without the line's end. */
static size_t receive_commands_text_len(const char *text, size_t len)
{
	len = strnlen(text, len);
	return len - (len > 0 && text[len - 1] == '\n');
}

static void add_deleted(struct receive_commands *commands, const char *name, size_t len)
{
	AUTO_FREE char *text = xstrndup(name, len);

	commands->deletions++;
	if (len > DELETED_MAX - commands->deleted_len ||
	    commands->deleted.count >= DELETED_NAMES_MAX)
		return;
	commands->deleted_len += len;
	map_put(&commands->deleted, text, commands);
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
	const char *name = line + 2 * digits + 2;
	size_t name_len = receive_commands_text_len(name, len - 2 * digits - 2);
	if (commands->names)
		receive_sync_add(commands->names, name, name_len);
	commands->count++;
	commands->needs_pack |= !oid_is_null(&new);
	if (oid_is_null(&new))
		add_deleted(commands, name, name_len);
	return true;
}

static bool receive_commands_is_text(const char *line, size_t len, const char *text)
{
	len = receive_commands_text_len(line, len);
	return len == strlen(text) && memcmp(line, text, len) == 0;
}

/* Behind the NUL; not if git might read it otherwise. */
static bool has_capability(const char *line, size_t len, const char *name)
{
	size_t at = strnlen(line, len);
	char *word;

	if (at == len)
		return false;
	AUTO_FREE char *words = xstrndup(line + at + 1, len - at - 1);
	char *rest = words;
	while ((word = strsep(&rest, " \n")) != NULL)
		if (strcmp(word, name) == 0)
			return true;
	return false;
}

/* The certificate's head and the signature are no commands. */
static bool receive_commands_take_line(struct receive_commands *commands,
				       const char *line, size_t len)
{
	if (commands->is_in_certificate) {
		commands->is_in_certificate =
			!receive_commands_is_text(line, len, CERTIFICATE "-end");
		take_command(commands, line, len);
		return true;
	}
	if (len > strlen(SHALLOW) && memcmp(line, SHALLOW, strlen(SHALLOW)) == 0)
		return true;
	commands->has_side_band |= has_capability(line, len, SIDE_BAND);
	if (commands->count == 0 && receive_commands_is_text(line, len, CERTIFICATE)) {
		commands->is_signed = commands->is_in_certificate = true;
		return true;
	}
	return take_command(commands, line, len);
}

static enum receive_step step_at(const struct receive_commands *commands, enum pkt pkt,
				 size_t left)
{
	if (pkt == PKT_FLUSH)
		return commands->is_signed ? RECEIVE_SIGNED : RECEIVE_WHOLE;
	return pkt_is_cut(pkt, left) ? RECEIVE_MORE : RECEIVE_STRANGE;
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
			commands->step = step_at(commands, pkt, left);
			break;
		}
		if (receive_commands_take_line(commands, line, line_len))
			taken = len - reader.left;
		else
			commands->step = RECEIVE_STRANGE;
	}
	return taken;
}

/*
 * A command is a packet, or in a push certificate a line: git puts the packets of one
 * together before it looks for lines, so there no packet ends a line.
 */

enum { HEAD = 4 };

/* As git wants it: the whole packet. */
static bool ends_certificate(const struct receive_depth *depth)
{
	static const char end[] = "push-cert-end\n";

	return depth->begin_len == strlen(end) &&
	       memcmp(depth->begin, end, strlen(end)) == 0;
}

static bool receive_depth_begins_with(const struct receive_depth *depth, const char *text)
{
	size_t len = strlen(text);

	return depth->begin_len >= len && memcmp(depth->begin, text, len) == 0;
}

static void end_packet(struct receive_depth *depth)
{
	if (ends_certificate(depth))
		depth->is_in_certificate = false;
	else if (receive_depth_begins_with(depth, "push-cert"))
		depth->is_in_certificate = true;
	depth->head_len = depth->begin_len = 0;
	depth->is_cut = false;
	if (!depth->is_in_certificate)
		depth->slashes = 0;
}

/* What is no packet with content ends the commands. */
static void begin_packet(struct receive_depth *depth)
{
	char *end;
	unsigned long len = strtoul(depth->head, &end, 16);

	depth->is_over = end != depth->head + HEAD || len < HEAD;
	depth->left = len - HEAD;
	if (!depth->is_over && depth->left == 0)
		end_packet(depth);
}

static bool receive_depth_count(struct receive_depth *depth, char byte)
{
	if (depth->begin_len < sizeof(depth->begin))
		depth->begin[depth->begin_len++] = byte;
	if (byte == '\n')
		depth->slashes = 0;
	depth->slashes += byte == '/';
	return depth->slashes <= RECEIVE_SLASHES_MAX;
}

/* Of a packet of a certificate git takes what is before a NUL. */
static bool take_byte(struct receive_depth *depth, char byte)
{
	if (depth->head_len < HEAD) {
		depth->head[depth->head_len++] = byte;
		if (depth->head_len == HEAD)
			begin_packet(depth);
		return true;
	}
	depth->is_cut |= depth->is_in_certificate && byte == '\0';
	if (!depth->is_cut && !receive_depth_count(depth, byte))
		return false;
	if (--depth->left == 0)
		end_packet(depth);
	return true;
}

bool receive_depth_take(struct receive_depth *depth, const char *bytes, size_t len)
{
	for (size_t i = 0; i < len && !depth->is_over; i++)
		if (!take_byte(depth, bytes[i]))
			return false;
	return true;
}

/*
 * It is looked at packet by packet until the report begins. With side-band, which clients
 * may leave out, progress and what hooks say are packets of band 2; packets of band 1
 * without content keep the connection alive ("receive.keepAlive"). A report without
 * side-band begins with "unpack", which is no such packet. These pass; whatever else
 * comes is the report.
 */

enum {
	EARLY_MAX = 1 << 20,
	DIGITS = 4,
};

void receive_report_clear(struct receive_report *report)
{
	str_clear(&report->said);
	receive_outcome_clear(&report->reader);
}

/* The length of a packet that may pass before the report; 0: more bytes are needed, or
 * the report begins, which *is_report tells. */
static size_t progress_at(const char *at, size_t left, bool *is_report)
{
	char digits[DIGITS + 1] = "";
	unsigned char bytes[2];
	size_t len;

	*is_report = false;
	if (left < DIGITS + 1)
		return 0;
	memcpy(digits, at, DIGITS);
	*is_report = true;
	if (!text_from_hex(digits, bytes, sizeof(bytes)))
		return 0;
	len = (size_t)bytes[0] << 8 | bytes[1];
	if (len <= DIGITS || (at[DIGITS] != 2 && (at[DIGITS] != 1 || len > DIGITS + 1)))
		return 0;
	*is_report = false;
	return len <= left ? len : 0;
}

/* Finds its begin. */
static void receive_report_find_begin(struct receive_report *report)
{
	struct str *said = &report->said;
	size_t before = report->passable, len = 1;

	while (!report->has_begun && len > 0) {
		len = progress_at(said->data + report->passable,
				  said->len - report->passable, &report->has_begun);
		report->passable += len;
	}
	if (!report->has_begun && report->is_unread && before > EARLY_MAX) {
		str_cut(said, before, report->passable);
		report->passable = before;
	}
}

bool receive_report_add(struct receive_report *report, const char *data, size_t len)
{
	struct str *said = &report->said;
	size_t at = said->len;

	str_add_bytes(said, data, len);
	if (!report->has_begun) {
		receive_report_find_begin(report);
		at = report->passable;
	}
	if (report->has_begun)
		receive_outcome_read(&report->reader, said->data + at, said->len - at);
	return report->has_begun;
}

void receive_report_pass(struct receive_report *report)
{
	report->passable = report->said.len;
}

bool receive_report_has(const struct receive_report *report)
{
	return report->taken < report->passable;
}

void receive_report_keep_alive(struct receive_report *report)
{
	struct str *said = &report->said;

	/* Not within a packet. */
	if (report->has_begun || report->passable < said->len)
		return;
	str_add(said, "0005\1");
	report->passable = said->len;
}

size_t receive_report_take(struct receive_report *report, void *buffer, size_t size)
{
	size_t left = report->passable - report->taken;
	size_t len = left < size ? left : size;

	memcpy(buffer, report->said.data + report->taken, len);
	report->taken += len;
	return len;
}

void receive_report_drop_taken(struct receive_report *report)
{
	str_cut(&report->said, 0, report->taken);
	report->passable -= report->taken;
	report->taken = 0;
}

void receive_report_ignore(struct receive_report *report)
{
	report->taken = report->passable;
	receive_report_drop_taken(report);
}

/*
 * A new ref may have made directories: so all above it count. A deleted one may have
 * taken directories with it: their names went from those above.
 */

enum { FOLDERS_MAX = 1000 };

void receive_sync_clear(struct receive_sync *sync)
{
	map_clear(&sync->folders);
}

/* Git takes no ref that has ".." in its name, or that is not below refs. */
void receive_sync_add(struct receive_sync *sync, const char *name, size_t len)
{
	AUTO_FREE char *folder = xstrndup(name, len);
	char *slash;

	if (!text_starts_with(folder, "refs/") || strstr(folder, ".."))
		return;
	while ((slash = strrchr(folder, '/')) != NULL) {
		*slash = '\0';
		if (sync->is_all || map_get(&sync->folders, folder))
			return;
		map_put(&sync->folders, folder, sync);
		sync->is_all = sync->folders.count > FOLDERS_MAX;
	}
}

static int sync_if_there(int dir, const char *path, struct err *err)
{
	if (dir_sync(dir, path, err) == 0)
		return 0;
	return err->sys_errno == ENOENT || err->sys_errno == ENOTDIR ? 0 : -1;
}

static bool is_fan_out(const char *name)
{
	return strlen(name) == 2 && strspn(name, "0123456789abcdef") == 2;
}

/* Where nothing is new, that costs next to nothing. */
static int sync_objects(int dir, struct err *err)
{
	AUTO_CLOSEDIR DIR *objects = dir_list(dir, "objects");
	struct dirent *entry;

	if (!objects)
		return err_errno(err, "cannot list objects");
	while (errno = 0, (entry = readdir(objects)) != NULL)
		if (is_fan_out(entry->d_name) &&
		    sync_if_there(dirfd(objects), entry->d_name, err) != 0)
			return -1;
	if (errno != 0)
		return err_errno(err, "cannot list objects");
	return dir_sync(dir, "objects/pack", err) == 0 ? dir_sync(dir, "objects", err)
						       : -1;
}

int receive_sync_run(const struct receive_sync *sync, int dir, struct err *err)
{
	const struct map_entry *entry;
	size_t at = 0;

	if (sync->is_all)
		return syncfs(dir) == 0 ? 0 : err_errno(err, "cannot sync");
	if (sync_objects(dir, err) != 0)
		return -1;
	while ((entry = map_next(&sync->folders, &at)) != NULL)
		if (sync_if_there(dir, entry->key, err) != 0)
			return -1;
	return dir_sync(dir, ".", err);
}

/* Git would take the push. But what is cut short is not replicated, so that the change
 * could not be recorded, and the client would be told of a failure. */
static int check_whole(const char *path, const struct repo *repo, struct err *err)
{
	if (!repo->is_shallow && !repo->is_partial)
		return 0;
	err_set(err, ERR_AUTH, "%s is %s: it takes no pushes here", path,
		repo->is_shallow ? "shallow" : "a partial clone");
	err_because(err, REASON_CLOSED);
	return err_remedy(err, repo->is_cut ? "it is a mirror with a depth: push to its "
					      "upstream"
			       : repo->is_shallow
				       ? "complete it with git fetch --unshallow"
				       : "complete it with git fetch --refetch "
					 "--no-filter, and unset its promisor remote");
}

int receive_git_open(const struct receive_pack_request *request,
		     const struct git_work *work, struct repo *repo, struct err *err)
{
	if (find_open(request->dir, request->path, repo, err) != 0 ||
	    check_whole(request->path, repo, err) != 0 ||
	    receive_places_check(repo->fd, err) != 0)
		return -1;
	return http_service_check(request->path, repo, work, HTTP_SERVICE_PUSH, err);
}

/* What git calls an address has no blanks: a token is called "token NAME", and NAME is
 * what tells it from others. */
static char *mailbox_of(const char *user, const char *client)
{
	const char *blank = strrchr(user, ' ');

	return xasprintf("%s@http.%s", blank && blank[1] ? blank + 1 : user, client);
}

/* As git http-backend does. A keyring that this node was told of is the one by which
 * signatures of pushes are judged. */
static void fill_variables(const struct receive_pack_request *request, char **items)
{
	const char *user = request->user, *client = request->client;
	const char *keyring = getenv("GNUPGHOME");
	size_t count = 0;

	if (user)
		items[count++] = xasprintf("REMOTE_USER=%s", user);
	if (client)
		items[count++] = xasprintf("REMOTE_ADDR=%s", client);
	user = user && *user ? user : "anonymous";
	client = client && *client ? client : "(none)";
	items[count++] = xasprintf("GIT_COMMITTER_NAME=%s", user);
	AUTO_FREE char *mailbox = mailbox_of(user, client);
	items[count++] = xasprintf("GIT_COMMITTER_EMAIL=%s", mailbox);
	if (keyring)
		items[count++] = xasprintf("GNUPGHOME=%s", keyring);
	items[count] = NULL;
}

/* There is no version 2 of pushes; git ignores the wish, and so do we. */
static const char *receive_git_protocol_of(const char *header)
{
	return git_protocol_version(header) == 1 ? "version=1" : NULL;
}

void receive_call_init(struct receive_call *call,
		       const struct receive_pack_request *request,
		       const struct repo *repo, const struct git_work *work,
		       const char *const *args)
{
	fill_variables(request, call->variables);
	call->call = (struct git_call){
		.work = work,
		.repository = request->path,
		.repository_fd = repo->fd,
		.args = args,
		.config = GIT_CONFIG_RECEIVE,
		.protocol = receive_git_protocol_of(request->protocol),
		.variables = (const char *const *)call->variables,
	};
}

void receive_call_clear(struct receive_call *call)
{
	for (char **item = call->variables; *item; item++)
		free(*item);
}
