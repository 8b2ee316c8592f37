/*
 * When the state of the repository says that somebody writes. Git changes nothing before
 * it has all commands and, unless all of them delete, the last bytes of a pack. So the
 * last bytes of the body are kept back: they are given when the writer was announced, and
 * a long upload keeps no reader from the cache. What is not understood is announced
 * before git gets it. A client that sends more behind its pack can have its refs changed
 * before the announcement; so whatever happens to a body whose commands were given, its
 * end is told as that of a change, and at once if git says that it has ended.
 *
 * What git writes it syncs, as we tell it to; the names in directories are synced here,
 * before the report is given on.
 *
 * The writer's file is made before git starts, which inherits its flock: if this process
 * dies while it is announced, the repository counts as being written as long as git, or a
 * hook of it, lives.
 *
 * What git says is looked at packet by packet until the report begins. With side-band,
 * which clients may leave out, progress and what hooks say are packets of band 2; packets
 * of band 1 without content keep the connection alive ("receive.keepAlive"). A report
 * without side-band begins with "unpack", which is no such packet. These pass; whatever
 * else comes waits until the end of the change was told.
 *
 * While the body is read, nobody listens to the answer. What git says meanwhile is kept;
 * progress beyond a bound is dropped, in whole packets. The two directions cannot wait
 * for each other: who waits for git to take bytes reads what git says.
 */
#include "serve/receive_pack.h"

#include <fcntl.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "git/git_child.h"
#include "git/pkt_line.h"
#include "git/repo.h"
#include "git/state.h"
#include "serve/ls_refs.h"
#include "serve/receive_commands.h"

enum {
	KEPT_BACK = 20, /* the checksum that ends a pack; longer with SHA-256 */
	CHUNK_SIZE = 65536,
	EARLY_MAX = 1 << 20,
	ADVERTISE_MAX = 64 << 20,
	ADVERTISE_MS = 10 * 60 * 1000,
	CLOSE_WAIT_MS = 5000, /* for git to end what nobody hears of */
	DIGITS = 4,
	VARIABLES = 6,
};

static const char service[] = "001f# service=git-receive-pack\n0000";

struct receive_pack {
	struct receive_pack_request request;
	struct repo repo;
	struct git_work work;
	struct lock_owner writer;
	struct git_stream *stream; /* NULL once it has ended */
	struct receive_commands commands;
	struct receive_sync changed;
	struct str kept;      /* of the body: not given to git yet */
	int64_t beat_at;      /* 0: not announced */
	bool has_commands;    /* git was given all of them */
	bool is_settled;      /* the end of the change was told */
	struct str said;      /* by git, and not yet taken by the reader */
	size_t passable;      /* of it: progress, or after the report's begin all */
	size_t taken;         /* of that, by the reader */
	bool is_feeding;      /* nobody takes any yet */
	struct err broke_off; /* why; ERR_NONE: it did not, or not yet */
	char chunk[CHUNK_SIZE];
};

/* What the child is told of the client; the strings are owned. */
struct variables {
	char *items[VARIABLES];
	size_t count;
};

static void variables_clear(struct variables *variables)
{
	for (size_t i = 0; i < variables->count; i++)
		free(variables->items[i]);
}

/* As git http-backend does. */
static void fill_variables(const struct receive_pack_request *request,
			   struct variables *variables)
{
	const char *user = request->user, *client = request->client;
	char **items = variables->items;
	size_t count = 0;

	if (user)
		items[count++] = xasprintf("REMOTE_USER=%s", user);
	if (client)
		items[count++] = xasprintf("REMOTE_ADDR=%s", client);
	user = user && *user ? user : "anonymous";
	client = client && *client ? client : "(none)";
	items[count++] = xasprintf("GIT_COMMITTER_NAME=%s", user);
	items[count++] = xasprintf("GIT_COMMITTER_EMAIL=%s@http.%s", user, client);
	items[count] = NULL;
	variables->count = count;
}

/* There is no version 2 of pushes; git ignores the wish, and so do we. */
static const char *protocol_of(const char *header)
{
	return git_protocol_version(header) == 1 ? "version=1" : NULL;
}

/* Git then runs in this very directory. */
static int open_repository(const struct receive_pack_request *request, struct repo *repo,
			   struct err *err)
{
	int result = request->dir > 0 ? repo_open(request->dir, ".", repo, err)
				      : repo_open(AT_FDCWD, request->path, repo, err);

	if (result != 0)
		return -1;
	return repo_check_files(repo, err);
}

static int refused(const char *path, struct err *err)
{
	err_set(err, ERR_AUTH, "%s: http.receivepack is false there", path);
	return err_remedy(err, "set http.receivepack in the repository's config to true, "
			       "or unset it");
}

/* Git says 1 where it is not set. */
static int check_allowed(const char *path, const struct repo *repo,
			 const struct git_work *work, struct err *err)
{
	const char *const args[] = { "config", "--type=bool", "--get", "http.receivepack",
				     NULL };
	struct proc_result ended = { .exit_code = -1 };
	AUTO_STR struct str value = STR_INIT;
	const struct git_call call = {
		.work = work,
		.repository = path,
		.repository_fd = repo->fd,
		.args = args,
		.config = GIT_CONFIG_RECEIVE,
		.output = &value,
		.output_limit = 64,
		.ended = &ended,
	};

	if (git_run(&call, err) != 0 && ended.exit_code != 1)
		return err_prefix(err, "http.receivepack of %s", path);
	return strcmp(value.data, "false\n") == 0 ? refused(path, err) : 0;
}

static struct git_work work_of(const struct receive_pack_request *request)
{
	return (struct git_work){
		.stop = request->stop,
		.guard_fd = -1,
		.until = request->timeout_ms > 0 ? clock_boot_ms() + request->timeout_ms
						 : 0,
	};
}

static int advertise(const struct receive_pack_request *request, const struct repo *repo,
		     struct git_work *work, struct str *out, struct err *err)
{
	const char *const args[] = { "receive-pack", "--http-backend-info-refs", ".",
				     NULL };
	struct variables variables = { .count = 0 };
	int result;

	fill_variables(request, &variables);
	result = git_run(
		&(struct git_call){
			.work = work,
			.repository = request->path,
			.repository_fd = repo->fd,
			.args = args,
			.config = GIT_CONFIG_RECEIVE,
			.output = out,
			.output_limit = ADVERTISE_MAX,
			.protocol = protocol_of(request->protocol),
			.variables = (const char *const *)variables.items,
		},
		err);
	variables_clear(&variables);
	return result;
}

int receive_pack_advertise(const struct receive_pack_request *request, struct str *out,
			   struct err *err)
{
	AUTO_REPO struct repo repo = REPO_INIT;
	struct git_work work = work_of(request);
	size_t before = out->len;

	if (work.until == 0)
		work.until = clock_boot_ms() + ADVERTISE_MS;
	if (open_repository(request, &repo, err) != 0 ||
	    check_allowed(request->path, &repo, &work, err) != 0)
		return -1;
	str_add(out, service);
	if (advertise(request, &repo, &work, out, err) == 0)
		return 0;
	str_truncate(out, before);
	return -1;
}

static int start(struct receive_pack *pack, struct err *err)
{
	const char *const args[] = { "receive-pack", "--stateless-rpc", ".", NULL };
	struct variables variables = { .count = 0 };
	int result;

	if (state_ready(pack->repo.fd, &pack->writer, err) != 0)
		return -1;
	pack->work.guard_fd = pack->writer.fd;
	fill_variables(&pack->request, &variables);
	result = git_stream_open_fed(
		&(struct git_call){
			.work = &pack->work,
			.repository = pack->request.path,
			.repository_fd = pack->repo.fd,
			.args = args,
			.config = GIT_CONFIG_RECEIVE,
			.protocol = protocol_of(pack->request.protocol),
			.variables = (const char *const *)variables.items,
		},
		&pack->stream, err);
	variables_clear(&variables);
	return result;
}

/* Before git may change refs. */
static int announce(struct receive_pack *pack, struct err *err)
{
	if (pack->beat_at > 0 || pack->is_settled || !pack->stream)
		return 0;
	if (state_announce(&pack->writer, err) != 0)
		return -1;
	pack->beat_at = clock_boot_ms() + STATE_BEAT_MS;
	failpoint("receive_pack.begun");
	return 0;
}

static void tell_lost(const struct receive_pack *pack, const struct err *err)
{
	log_warn("receive.lost", LOG_ERR(err), LOG_TEXT("path", pack->request.path));
}

static void beat(struct receive_pack *pack)
{
	struct err err;

	if (pack->beat_at == 0 || pack->is_settled || clock_boot_ms() < pack->beat_at)
		return;
	if (state_beat(&pack->writer, &err) != 0)
		tell_lost(pack, &err);
	pack->beat_at = clock_boot_ms() + STATE_BEAT_MS;
}

/* Where it fails, the writer's file stays without an owner, and readers see to it that
 * there is a new key. */
static void end_change(struct receive_pack *pack)
{
	struct err err;
	int result;

	if (pack->beat_at > 0) {
		if (state_check(&pack->writer, &err) != 0)
			tell_lost(pack, &err);
		result = state_end(&pack->writer, &err);
	} else {
		result = state_renew(pack->repo.fd, &err);
		state_abandon(&pack->writer);
	}
	if (result != 0)
		log_error("receive.not_ended", LOG_ERR(&err),
			  LOG_TEXT("path", pack->request.path));
}

/* Names that are not known are in a certificate. */
static int make_durable(struct receive_pack *pack, struct err *err)
{
	pack->changed.is_all |= pack->commands.step == RECEIVE_STRANGE;
	if (receive_sync_run(&pack->changed, pack->repo.fd, err) == 0)
		return 0;
	return err_prefix(err, "what was pushed to %s", pack->request.path);
}

/* What cannot be made durable is there all the same, and is recorded. */
static int tell(struct receive_pack *pack, struct err *err)
{
	struct err late;

	if (make_durable(pack, err) == 0)
		return pack->request.recorded(pack->request.arg, err);
	pack->request.recorded(pack->request.arg, &late);
	return -1;
}

/* Git has said how it went, or is dead. */
static int settle(struct receive_pack *pack, struct err *err)
{
	if (pack->is_settled)
		return 0;
	pack->is_settled = true;
	failpoint("receive_pack.reported");
	if (!pack->has_commands) {
		state_abandon(&pack->writer);
		return 0;
	}
	end_change(pack);
	if (tell(pack, err) != 0) {
		pack->broke_off = *err;
		return -1;
	}
	failpoint("receive_pack.recorded");
	return 0;
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

static void cut_out(struct str *str, size_t from, size_t to)
{
	memmove(str->data + from, str->data + to, str->len - to);
	str_truncate(str, str->len - (to - from));
}

/* After new bytes were said. */
static int look(struct receive_pack *pack, struct err *err)
{
	struct str *said = &pack->said;
	size_t before = pack->passable, len = 1;
	bool is_report = false;

	while (!pack->is_settled && len > 0) {
		len = progress_at(said->data + pack->passable, said->len - pack->passable,
				  &is_report);
		pack->passable += len;
		if (is_report && settle(pack, err) != 0)
			return -1;
	}
	if (pack->is_settled) {
		pack->passable = said->len;
	} else if (pack->is_feeding && before > EARLY_MAX) {
		cut_out(said, before, pack->passable);
		pack->passable = before;
	}
	return 0;
}

/* What git did with a broken connection is meant of the client's body here. */
static void blame_request(struct receive_pack *pack, struct err *err)
{
	if (err->class != ERR_NETWORK)
		return;
	err_prefix(err, "the request is none that git understands");
	err->class = ERR_CONFIG;
	err_remedy(err, "look what stands between git and this site");
	if (pack->request.is_bad)
		*pack->request.is_bad = true;
}

static int finish(struct receive_pack *pack, struct err *err)
{
	int result = git_stream_close(TAKE(pack->stream), err);

	if (result != 0) {
		blame_request(pack, err);
		pack->broke_off = *err;
	}
	if (settle(pack, result == 0 ? err : ERR_IGNORED) != 0)
		return -1;
	pack->passable = pack->said.len;
	return result;
}

/* Waits for what git says, and for what it takes. 1: git goes on; 0: it has ended. */
static int listen_to(struct receive_pack *pack, int64_t until, struct err *err)
{
	bool beats = pack->beat_at > 0 && !pack->is_settled;
	int64_t wake =
		beats && (until == 0 || pack->beat_at < until) ? pack->beat_at : until;
	ssize_t got;

	if (!pack->stream)
		return 0;
	got = git_stream_read_until(pack->stream, pack->chunk, sizeof(pack->chunk), wake);
	if (got == 0 || got == -1)
		return finish(pack, err);
	if (got > 0)
		str_add_bytes(&pack->said, pack->chunk, (size_t)got);
	beat(pack);
	return look(pack, err) == 0 ? 1 : -1;
}

static bool can_take(const struct receive_pack *pack)
{
	return pack->stream && pack->broke_off.class == ERR_NONE;
}

/* Gives git so much of what is kept. If it takes no more, that is dropped. */
static void give(struct receive_pack *pack, size_t len)
{
	if (len > 0 && can_take(pack)) {
		git_stream_offer(pack->stream, pack->kept.data, len);
		while (can_take(pack) && git_stream_offered(pack->stream) > 0)
			listen_to(pack, 0, ERR_IGNORED);
	}
	cut_out(&pack->kept, 0, len);
	beat(pack);
}

/* Git is not given what it needs to change refs, if readers cannot be told of it. */
static void announce_or_break(struct receive_pack *pack)
{
	struct err err;

	if (can_take(pack) && announce(pack, &err) != 0)
		pack->broke_off = err;
}

static void give_commands(struct receive_pack *pack)
{
	struct receive_commands *commands = &pack->commands;

	give(pack, receive_commands_take(commands, pack->kept.data, pack->kept.len));
	if (commands->step == RECEIVE_MORE ||
	    (commands->step == RECEIVE_WHOLE && commands->count == 0))
		return;
	pack->has_commands = true;
	if (commands->step == RECEIVE_STRANGE || !commands->needs_pack)
		announce_or_break(pack);
}

static void give_what_may_be(struct receive_pack *pack)
{
	const struct receive_commands *commands = &pack->commands;
	size_t keep;

	if (commands->step == RECEIVE_MORE)
		give_commands(pack);
	if (commands->step == RECEIVE_MORE)
		return;
	keep = commands->step == RECEIVE_WHOLE && commands->needs_pack ? KEPT_BACK : 0;
	if (pack->kept.len > keep)
		give(pack, pack->kept.len - keep);
}

static ssize_t read_body(struct receive_pack *pack, struct err *err)
{
	struct str *kept = &pack->kept;
	ssize_t got = pack->request.read(pack->request.arg, pack->chunk,
					 sizeof(pack->chunk), err);

	if (got > 0)
		str_add_bytes(kept, pack->chunk, (size_t)got);
	return got;
}

static int feed(struct receive_pack *pack, struct err *err)
{
	ssize_t got;

	pack->is_feeding = true;
	while ((got = read_body(pack, err)) > 0)
		give_what_may_be(pack);
	if (got < 0)
		return -1;
	if (pack->has_commands)
		announce_or_break(pack);
	give(pack, pack->kept.len);
	pack->is_feeding = false;
	if (pack->stream)
		git_stream_end_input(pack->stream);
	return 0;
}

/* Until it is there, what goes wrong can become a status. */
static int wait_for_first(struct receive_pack *pack, struct err *err)
{
	while (can_take(pack) && pack->passable == 0)
		if (listen_to(pack, 0, err) < 0)
			return -1;
	*err = pack->broke_off;
	return err->class == ERR_NONE ? 0 : -1;
}

static struct receive_pack *pack_new(const struct receive_pack_request *request)
{
	struct receive_pack *pack = xcalloc(1, sizeof(*pack));

	pack->request = *request;
	pack->repo = (struct repo)REPO_INIT;
	pack->writer.fd = -1;
	pack->kept = (struct str)STR_INIT;
	pack->said = (struct str)STR_INIT;
	pack->work = work_of(request);
	return pack;
}

int receive_pack_open(const struct receive_pack_request *request,
		      struct receive_pack **pack, struct err *err)
{
	struct receive_pack *made = pack_new(request);

	if (open_repository(request, &made->repo, err) != 0 ||
	    check_allowed(request->path, &made->repo, &made->work, err) != 0)
		goto undo;
	made->commands.oid_len = made->repo.oid_len;
	made->commands.names = &made->changed;
	if (start(made, err) != 0 || feed(made, err) != 0 ||
	    wait_for_first(made, err) != 0)
		goto undo;
	*pack = made;
	return 0;
undo:
	receive_pack_close(made);
	return -1;
}

/* What the reader has is not kept. */
static void drop_taken(struct receive_pack *pack)
{
	cut_out(&pack->said, 0, pack->taken);
	pack->passable -= pack->taken;
	pack->taken = 0;
}

ssize_t receive_pack_read(struct receive_pack *pack, void *buffer, size_t size,
			  struct err *err)
{
	size_t len;

	while (pack->taken == pack->passable) {
		if (!can_take(pack)) {
			*err = pack->broke_off;
			return err->class == ERR_NONE ? 0 : -1;
		}
		drop_taken(pack);
		listen_to(pack, 0, err);
	}
	len = pack->passable - pack->taken < size ? pack->passable - pack->taken : size;
	memcpy(buffer, pack->said.data + pack->taken, len);
	pack->taken += len;
	return (ssize_t)len;
}

/* A push that nobody waits for any more ends in good order if it does so soon: git, whose
 * input may have been cut, tidies up, and the hooks of what was changed see their end. */
void receive_pack_close(struct receive_pack *pack)
{
	int64_t until = clock_boot_ms() + CLOSE_WAIT_MS;

	if (!pack)
		return;
	pack->is_feeding = false;
	pack->request.is_bad = NULL;
	if (pack->stream)
		git_stream_end_input(pack->stream);
	while (pack->stream && clock_boot_ms() < until) {
		pack->taken = pack->passable;
		drop_taken(pack);
		listen_to(pack, until, ERR_IGNORED);
	}
	if (pack->stream)
		finish(pack, ERR_IGNORED);
	settle(pack, ERR_IGNORED);
	repo_close(&pack->repo);
	receive_sync_clear(&pack->changed);
	str_clear(&pack->kept);
	str_clear(&pack->said);
	free(pack);
}
