/*
 * When the state of the repository says that somebody writes. Git changes nothing before
 * it has all commands and, unless all of them delete, the last bytes of a pack. So the
 * last bytes of the body are kept back: they are given when the writer was announced, and
 * a long upload keeps no reader from the cache. What is not understood is announced
 * before git gets it.
 *
 * The limit of this: where a pack ends only who inflates it knows. A client that sends
 * more behind it, as no git does, has its refs changed before the announcement, unless
 * hooks announce it. Until its end is told, readers see such a change as any that nobody
 * announces, by the fingerprint of the refs; and if this process dies in between, the
 * event is left to the scan. So whatever happens to a body whose commands were given, its
 * end is told as that of a change: when the next bytes come after git has said that it is
 * done, or at the body's end.
 *
 * What git writes it syncs, as we tell it to; the names in directories are synced here,
 * before the report is given on.
 *
 * The writer's file is made before git starts, which inherits its flock: if this process
 * dies while it is announced, the repository counts as being written as long as git, or a
 * hook of it, lives.
 *
 * While the body is read, nobody listens to the answer. What git says meanwhile is kept;
 * progress beyond a bound is dropped, in whole packets. The two directions cannot wait
 * for each other: who waits for git to take bytes reads what git says.
 */
#include "serve/receive_pack.h"

#include "base/clock.h"
#include "serve/receive_change.h"
#include "serve/receive_commands.h"
#include "serve/receive_git.h"
#include "serve/receive_report.h"

enum {
	KEPT_BACK = 20, /* the checksum that ends a pack; longer with SHA-256 */
	CHUNK_SIZE = 65536,
	CLOSE_WAIT_MS = 5000, /* for git to end what nobody hears of */
};

struct receive_pack {
	struct receive_pack_request request;
	struct repo repo;
	struct git_work work;
	struct git_stream *stream; /* NULL once it has ended */
	struct receive_commands commands;
	struct receive_change change;
	struct str kept; /* of the body: not given to git yet */
	struct receive_report report;
	bool is_reported; /* what became of it was told */
	bool has_told_deletions;
	struct err broke_off; /* why; ERR_NONE: it did not, or not yet */
	char chunk[CHUNK_SIZE];
};

static int receive_pack_start_git(struct receive_pack *pack, struct err *err)
{
	const char *const args[] = { "receive-pack", "--stateless-rpc", ".", NULL };
	struct receive_call call;
	int result;

	if (receive_change_ready(&pack->change, err) != 0)
		return -1;
	pack->work.guard_fd = pack->change.writer.fd;
	receive_call_init(&call, &pack->request, &pack->repo, &pack->work, args);
	result = git_stream_open_fed(&call.call, &pack->stream, err);
	receive_call_clear(&call);
	return result;
}

/* Git has said how it went, or is dead. */
static int receive_pack_settle_change(struct receive_pack *pack, struct err *err)
{
	if (receive_change_settle(&pack->change, err) == 0)
		return 0;
	pack->broke_off = *err;
	return -1;
}

/* Of a push that was recorded. */
static void report_once(struct receive_pack *pack)
{
	struct receive_outcome outcome = pack->report.reader.outcome;

	if (pack->is_reported || !pack->change.is_recorded)
		return;
	pack->is_reported = true;
	outcome.asked = pack->commands.step == RECEIVE_WHOLE
				? pack->commands.count
				: outcome.taken + outcome.refused;
	if (pack->request.reported)
		pack->request.reported(pack->request.arg, &outcome);
}

/* What git did with a broken connection is meant of the client's body here. */
static void receive_pack_blame_request(struct receive_pack *pack, struct err *err)
{
	if (err->class != ERR_NETWORK)
		return;
	err_prefix(err, "the request is none that git understands");
	err->class = ERR_CONFIG;
	err_remedy(err, "look what stands between git and this site");
	if (pack->request.is_bad)
		*pack->request.is_bad = true;
}

static int receive_pack_finish_git(struct receive_pack *pack, struct err *err)
{
	int result = git_stream_close(TAKE(pack->stream), err);

	if (result != 0) {
		receive_pack_blame_request(pack, err);
		pack->broke_off = *err;
	}
	if (receive_pack_settle_change(pack, result == 0 ? err : ERR_IGNORED) != 0)
		return -1;
	report_once(pack);
	receive_report_pass(&pack->report);
	return result;
}

/* Waits for what git says, and for what it takes. 1: git goes on; 0: it has ended. */
static int listen_to(struct receive_pack *pack, int64_t until, struct err *err)
{
	int64_t beat_at = receive_change_beat_at(&pack->change);
	int64_t wake = beat_at > 0 && (until == 0 || beat_at < until) ? beat_at : until;
	ssize_t got;

	if (!pack->stream)
		return 0;
	got = git_stream_read_until(pack->stream, pack->chunk, sizeof(pack->chunk), wake);
	if (got == 0 || got == -1)
		return receive_pack_finish_git(pack, err);
	receive_change_beat(&pack->change);
	if (got <= 0 || !receive_report_add(&pack->report, pack->chunk, (size_t)got))
		return 1;
	if (receive_pack_settle_change(pack, err) != 0)
		return -1;
	if (pack->report.reader.is_over)
		report_once(pack);
	receive_report_pass(&pack->report);
	return 1;
}

static bool can_take(const struct receive_pack *pack)
{
	return pack->stream && pack->broke_off.class == ERR_NONE;
}

/* Gives git so much of what is kept. If it takes no more, that is dropped. */
static void receive_pack_give_kept(struct receive_pack *pack, size_t len)
{
	if (len > 0 && can_take(pack)) {
		git_stream_offer(pack->stream, pack->kept.data, len);
		while (can_take(pack) && git_stream_offered(pack->stream) > 0)
			listen_to(pack, 0, ERR_IGNORED);
	}
	str_cut(&pack->kept, 0, len);
	receive_change_beat(&pack->change);
}

static void tell_deletions(struct receive_pack *pack)
{
	const struct receive_commands *commands = &pack->commands;

	if (!can_take(pack) || pack->has_told_deletions ||
	    commands->step != RECEIVE_WHOLE || commands->deletions == 0 ||
	    !pack->request.deletes)
		return;
	pack->has_told_deletions = true;
	pack->request.deletes(pack->request.arg, commands->deletions);
}

/* Git is not given what it needs to change refs, if readers cannot be told of it. */
static void announce_or_break(struct receive_pack *pack)
{
	struct err err;

	tell_deletions(pack);
	if (can_take(pack) && receive_change_announce(&pack->change, &err) != 0)
		pack->broke_off = err;
}

static void give_commands(struct receive_pack *pack)
{
	struct receive_commands *commands = &pack->commands;

	receive_pack_give_kept(
		pack, receive_commands_take(commands, pack->kept.data, pack->kept.len));
	if (commands->step == RECEIVE_MORE ||
	    (commands->step == RECEIVE_WHOLE && commands->count == 0))
		return;
	pack->change.is_possible = true;
	/* Names that are not known are in a certificate. */
	pack->change.names.is_all |= commands->step == RECEIVE_STRANGE;
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
		receive_pack_give_kept(pack, pack->kept.len - keep);
}

static ssize_t receive_pack_read_body(struct receive_pack *pack, struct err *err)
{
	struct str *kept = &pack->kept;
	ssize_t got = pack->request.read(pack->request.arg, pack->chunk,
					 sizeof(pack->chunk), err);

	if (got > 0)
		str_add_bytes(kept, pack->chunk, (size_t)got);
	return got;
}

/* Without waiting: git may be done long before the body ends. */
static void receive_pack_drain_output(struct receive_pack *pack)
{
	if (can_take(pack) && pack->change.is_possible)
		listen_to(pack, clock_boot_ms(), ERR_IGNORED);
}

static int receive_pack_feed_git(struct receive_pack *pack, struct err *err)
{
	ssize_t got;

	pack->report.is_unread = true;
	while ((got = receive_pack_read_body(pack, err)) > 0) {
		give_what_may_be(pack);
		receive_pack_drain_output(pack);
	}
	if (got < 0)
		return -1;
	if (pack->change.is_possible)
		announce_or_break(pack);
	receive_pack_give_kept(pack, pack->kept.len);
	pack->report.is_unread = false;
	if (pack->stream)
		git_stream_end_input(pack->stream);
	return 0;
}

/* Until it is there, what goes wrong can become a status. */
static int wait_for_first(struct receive_pack *pack, struct err *err)
{
	while (can_take(pack) && !receive_report_has(&pack->report))
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
	pack->change = (struct receive_change){ .path = request->path,
						.recorded = request->recorded,
						.arg = request->arg,
						.writer = { .fd = -1 } };
	pack->kept = (struct str)STR_INIT;
	pack->report = (struct receive_report)RECEIVE_REPORT_INIT;
	pack->work = receive_git_work(request);
	return pack;
}

int receive_pack_open(const struct receive_pack_request *request,
		      struct receive_pack **pack, struct err *err)
{
	struct receive_pack *made = pack_new(request);

	if (receive_git_open(request, &made->work, &made->repo, err) != 0)
		goto undo;
	made->change.dir = made->repo.fd;
	made->commands.oid_len = made->repo.oid_len;
	made->commands.names = &made->change.names;
	if (receive_pack_start_git(made, err) != 0 ||
	    receive_pack_feed_git(made, err) != 0 || wait_for_first(made, err) != 0)
		goto undo;
	*pack = made;
	return 0;
undo:
	receive_pack_close(made);
	return -1;
}

ssize_t receive_pack_read(struct receive_pack *pack, void *buffer, size_t size,
			  struct err *err)
{
	while (!receive_report_has(&pack->report)) {
		if (!can_take(pack)) {
			*err = pack->broke_off;
			return err->class == ERR_NONE ? 0 : -1;
		}
		receive_report_drop_taken(&pack->report);
		listen_to(pack, 0, err);
	}
	return (ssize_t)receive_report_take(&pack->report, buffer, size);
}

/* A push that nobody waits for any more ends in good order if it does so soon: git, whose
 * input may have been cut, tidies up, and the hooks of what was changed see their end. */
void receive_pack_close(struct receive_pack *pack)
{
	int64_t until = clock_boot_ms() + CLOSE_WAIT_MS;

	if (!pack)
		return;
	pack->report.is_unread = false;
	pack->request.is_bad = NULL;
	if (pack->stream)
		git_stream_end_input(pack->stream);
	while (pack->stream && clock_boot_ms() < until) {
		receive_report_ignore(&pack->report);
		listen_to(pack, until, ERR_IGNORED);
	}
	if (pack->stream)
		receive_pack_finish_git(pack, ERR_IGNORED);
	receive_pack_settle_change(pack, ERR_IGNORED);
	repo_close(&pack->repo);
	receive_change_clear(&pack->change);
	receive_report_clear(&pack->report);
	str_clear(&pack->kept);
	free(pack);
}
