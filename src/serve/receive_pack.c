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
 * While the body is read, nobody takes the answer. What git says meanwhile is kept;
 * progress beyond a bound is dropped, in whole packets. Git may be done before the body
 * has ended, and its client say nothing more: so git is heard between the pieces of the
 * body, and now and then while the next one is waited for. The two directions cannot wait
 * for each other: who waits for git to take bytes reads what git says.
 */
#include "serve/receive_pack.h"

#include <linux/openat2.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/log.h"
#include "base/proc_stream.h"
#include "base/str.h"
#include "git/lock_owner.h"
#include "git/pkt_line.h"
#include "git/state.h"
#include "serve/receive_git.h"

struct receive_change {
	const char *path; /* of the repository, for messages; borrowed as all of these */
	int dir;          /* ... its directory */
	int (*recorded)(void *arg, struct err *err); /* called once, if there was one */
	void *arg;
	struct receive_sync names;
	struct lock_owner writer;
	int64_t beat_at;  /* boot ms of the next sign of life; 0: not announced */
	bool is_possible; /* git was given commands */
	bool is_settled;  /* its end was told */
	bool is_recorded; /* ... and `recorded` did not fail */
};

/* What a repository shows to who is about to push: refs and capabilities. */

enum {
	ADVERTISE_MAX = 128 << 20, /* of some million refs */
	ADVERTISE_MS = 10 * 60 * 1000,
};

static const char service[] = "001f# service=git-receive-pack\n0000";

/* By itself it would be told as damage. */
static int receive_advertise_refuse(const char *path, struct err *err)
{
	err_set(err, ERR_CONFIG,
		"%s has too many refs for pushes over HTTP: a list of more than %d MiB",
		path, ADVERTISE_MAX >> 20);
	return err_remedy(err,
			  "hide some from pushes (receive.hideRefs), or push by ssh");
}

static int receive_advertise_run_git(const struct receive_pack_request *request,
				     const struct repo *repo, const struct git_work *work,
				     struct str *out, struct err *err)
{
	size_t before = out->len;
	const char *const args[] = { "receive-pack", "--http-backend-info-refs", ".",
				     NULL };
	struct receive_call call;
	int result;

	receive_call_init(&call, request, repo, work, args);
	call.call.output = out;
	call.call.output_limit = ADVERTISE_MAX;
	result = git_run(&call.call, err);
	receive_call_clear(&call);
	return result == 0 || out->len - before < ADVERTISE_MAX
		       ? result
		       : receive_advertise_refuse(request->path, err);
}

int receive_pack_advertise(const struct receive_pack_request *request, struct str *out,
			   struct err *err)
{
	AUTO_REPO struct repo repo = REPO_INIT;
	struct git_work work = git_work_for(request->stop, request->timeout_ms);
	size_t before = out->len;

	if (work.until == 0)
		work.until = clock_boot_ms() + ADVERTISE_MS;
	if (receive_git_open(request, &work, &repo, err) != 0)
		return -1;
	str_add(out, service);
	if (receive_advertise_run_git(request, &repo, &work, out, err) == 0)
		return 0;
	str_truncate(out, before);
	return -1;
}

/*
 * With side-band the report is a stream of pkt-lines in packets of band 1, which are cut
 * anywhere; without, its lines are the packets. A line never begins with the byte of a
 * band.
 */

enum { BAND_REPORT = 1, BAND_PROGRESS, BAND_ERROR };

void receive_outcome_clear(struct receive_outcome_reader *reader)
{
	str_clear(&reader->packets);
	str_clear(&reader->lines);
}

static bool receive_outcome_begins_with(const char *line, size_t len, const char *word)
{
	return len > strlen(word) && memcmp(line, word, strlen(word)) == 0;
}

/* Of a line "ok <name>" or "ng <name> <why>". */
static bool receive_outcome_is_deletion(const struct receive_outcome_reader *reader,
					const char *line, size_t len)
{
	AUTO_FREE char *name = xstrndup(line + strlen("ok "), len - strlen("ok "));

	name[strcspn(name, " \n")] = '\0';
	return reader->deleted && map_get(reader->deleted, name);
}

/* Options of a ref follow its line. */
static void receive_outcome_take_line(struct receive_outcome_reader *reader,
				      const char *line, size_t len)
{
	bool is_taken = receive_outcome_begins_with(line, len, "ok ");

	if (!is_taken && !receive_outcome_begins_with(line, len, "ng "))
		return;
	bool is_deletion = receive_outcome_is_deletion(reader, line, len);
	reader->outcome.taken += is_taken;
	reader->outcome.refused += !is_taken;
	reader->outcome.taken_deletions += is_taken && is_deletion;
	reader->outcome.refused_deletions += !is_taken && is_deletion;
}

static void receive_outcome_end_reading(struct receive_outcome_reader *reader,
					bool is_known)
{
	reader->is_over = true;
	reader->outcome.is_known = is_known;
}

static void read_lines(struct receive_outcome_reader *reader)
{
	struct str *lines = &reader->lines;
	struct pkt_reader at = { .at = lines->data, .left = lines->len };
	size_t left = at.left, len;
	const char *line;
	enum pkt pkt;

	while ((pkt = pkt_next(&at, &line, &len)) == PKT_LINE) {
		receive_outcome_take_line(reader, line, len);
		left = at.left;
	}
	if (!pkt_is_cut(pkt, left))
		receive_outcome_end_reading(reader, pkt == PKT_FLUSH);
	str_cut(lines, 0, lines->len - left);
}

static void take_packet(struct receive_outcome_reader *reader, const char *data,
			size_t len)
{
	if (len > 0 && *data == BAND_REPORT) {
		str_add_bytes(&reader->lines, data + 1, len - 1);
		read_lines(reader);
	} else if (len > 0 && *data != BAND_PROGRESS && *data != BAND_ERROR) {
		receive_outcome_take_line(reader, data, len);
	}
}

void receive_outcome_read(struct receive_outcome_reader *reader, const char *data,
			  size_t len)
{
	struct str *packets = &reader->packets;
	enum pkt pkt = PKT_LINE;
	const char *packet;
	size_t packet_len;

	if (reader->is_over)
		return;
	str_add_bytes(packets, data, len);
	struct pkt_reader at = { .at = packets->data, .left = packets->len };
	size_t left = at.left;
	while (!reader->is_over &&
	       (pkt = pkt_next(&at, &packet, &packet_len)) == PKT_LINE) {
		take_packet(reader, packet, packet_len);
		left = at.left;
	}
	if (!reader->is_over && !pkt_is_cut(pkt, left))
		receive_outcome_end_reading(reader, pkt == PKT_FLUSH);
	str_cut(packets, 0, packets->len - left);
}

/*
 * The kernel resolves each link beneath the repository, so that none is taken for good
 * that leads out by way of another. Files below objects/ are never written through a
 * link: git makes them under another name first. Logs are.
 */

enum {
	DEPTH = 64, /* of folders in each other, each of which takes a descriptor */
	LINK_DEPTH = DEPTH / 2 + 1, /* so no more than one link is on the way */
};

static const char *const names[] = {
	"HEAD", "packed-refs", "shallow",  "objects",
	"refs", "logs",        "refrelay", "refrelay/state"
};

/* Git writes below these under names that clients choose. */
static const char *const trees[] = { "refs", "logs" };

static int receive_places_refuse(const char *path, struct err *err)
{
	err_set(err, ERR_CONFIG,
		"%s is a link that leads out of the repository: pushes would write there",
		path);
	return err_remedy(err, "put what it leads to into the repository; what is only "
			       "read may stay elsewhere, by objects/info/alternates");
}

/* How often a link is followed again while others rename. */
#define LOOKS_MOST 1000

/* What is not there is made by git at its place, or not at all. Kernels before Linux 5.6
 * and some containers do not know the call: there any link is refused. */
static int check_link(int top, const char *path, struct err *err)
{
	const struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
	};
	AUTO_CLOSE int fd = -1;

	/* EAGAIN: something was renamed meanwhile, anywhere on this machine, while the
	 * kernel went up by "..". */
	errno = EAGAIN;
	for (int i = 0; i < LOOKS_MOST && fd < 0 && errno == EAGAIN; i++)
		fd = (int)syscall(SYS_openat2, top, path, &how, sizeof(how));
	if (fd >= 0 || errno == ENOENT || errno == ENOTDIR)
		return 0;
	if (errno == EXDEV || errno == ELOOP || errno == ENOSYS || errno == EPERM)
		return receive_places_refuse(path, err);
	return err_errno(err, "cannot tell where %s leads", path);
}

static bool is_kind(int dir, const char *name, int flags, mode_t kind)
{
	struct stat st;

	return fstatat(dir, name, &st, flags) == 0 && (st.st_mode & S_IFMT) == kind;
}

static bool receive_places_is_link(int dir, const struct dirent *entry)
{
	if (entry->d_type != DT_UNKNOWN)
		return entry->d_type == DT_LNK;
	return is_kind(dir, entry->d_name, AT_SYMLINK_NOFOLLOW, S_IFLNK);
}

static bool is_folder(int dir, const struct dirent *entry)
{
	return entry->d_type == DT_DIR || is_kind(dir, entry->d_name, 0, S_IFDIR);
}

struct place {
	int top; /* the repository */
	const char *path;
	bool is_tree;
	int depth; /* how many more folders may be in each other */
};

static int receive_places_check_folder(const struct place *place, struct err *err);

static int receive_places_check_entry(const struct place *place, int dir,
				      const struct dirent *entry, struct err *err)
{
	if (entry->d_type == DT_REG || name_is_dots(entry->d_name))
		return 0;
	AUTO_FREE char *inner = xasprintf("%s/%s", place->path, entry->d_name);
	bool follows = receive_places_is_link(dir, entry);
	if (follows && check_link(place->top, inner, err) != 0)
		return -1;
	if (!place->is_tree || !is_folder(dir, entry))
		return 0;
	return receive_places_check_folder(
		&(struct place){ .top = place->top,
				 .path = inner,
				 .is_tree = true,
				 .depth = place->depth - (follows ? LINK_DEPTH : 1) },
		err);
}

/* By links, too, as git goes there. */
static DIR *list_of(const struct place *place)
{
	int fd = openat(place->top, place->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);

	if (!list && fd >= 0)
		close(fd);
	return list;
}

static int receive_places_check_folder(const struct place *place, struct err *err)
{
	AUTO_CLOSEDIR DIR *list = list_of(place);
	struct dirent *entry;

	if (!list)
		return errno == ENOENT
			       ? 0
			       : err_errno(err, "cannot list directory %s", place->path);
	if (place->depth < 0) {
		err_set(err, ERR_CONFIG, "%s is reached by links or too deep",
			place->path);
		return err_remedy(err, "put plain directories there");
	}
	while ((entry = readdir(list)) != NULL)
		if (receive_places_check_entry(place, dirfd(list), entry, err) != 0)
			return -1;
	return 0;
}

/* All that the repository has is read and written there. */
static int check_common(int top, struct err *err)
{
	struct stat st;

	if (fstatat(top, "commondir", &st, AT_SYMLINK_NOFOLLOW) != 0)
		return 0;
	err_set(err, ERR_CONFIG, "it has a file commondir: pushes would write elsewhere");
	return err_remedy(err, "push to the repository to which this one belongs; or "
			       "remove the file, if it is one by itself");
}

int receive_places_check(int dir, struct err *err)
{
	if (check_common(dir, err) != 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (is_kind(dir, names[i], AT_SYMLINK_NOFOLLOW, S_IFLNK) &&
		    check_link(dir, names[i], err) != 0)
			return -1;
	for (size_t i = 0; i < ARRAY_SIZE(trees); i++)
		if (receive_places_check_folder(&(struct place){ .top = dir,
								 .path = trees[i],
								 .is_tree = true,
								 .depth = DEPTH },
						err) != 0)
			return -1;
	return receive_places_check_folder(
		&(struct place){ .top = dir, .path = "objects" }, err);
}

/* Before git may change refs; more than once does no harm. */
static int receive_change_announce(struct receive_change *change, struct err *err)
{
	if (change->beat_at > 0 || change->is_settled)
		return 0;
	if (state_announce(&change->writer, err) != 0)
		return -1;
	change->beat_at = clock_boot_ms() + STATE_BEAT_MS;
	failpoint("receive_pack.begun");
	return 0;
}

static void receive_change_report_lost(const struct receive_change *change,
				       const struct err *err)
{
	log_warn("receive.lost", LOG_ERR(err), LOG_TEXT("path", change->path));
}

/* When it has to be called next; 0: not at all. */
static int64_t receive_change_beat_at(const struct receive_change *change)
{
	return change->is_settled ? 0 : change->beat_at;
}

static void receive_change_beat(struct receive_change *change)
{
	int64_t at = receive_change_beat_at(change);
	struct err err;

	if (at == 0 || clock_boot_ms() < at)
		return;
	if (state_beat(&change->writer, &err) != 0)
		receive_change_report_lost(change, &err);
	change->beat_at = clock_boot_ms() + STATE_BEAT_MS;
}

/* Where it fails, the writer's file stays without an owner, and readers see to it that
 * there is a new key. */
static void end_change(struct receive_change *change)
{
	struct err err;
	int result;

	if (change->beat_at > 0) {
		if (state_check(&change->writer, &err) != 0)
			receive_change_report_lost(change, &err);
		result = state_end(&change->writer, &err);
	} else {
		result = state_renew(change->dir, &err);
		state_abandon(&change->writer);
	}
	if (result != 0)
		log_error("receive.not_ended", LOG_ERR(&err),
			  LOG_TEXT("path", change->path));
}

static int receive_change_make_durable(struct receive_change *change, struct err *err)
{
	if (receive_sync_run(&change->names, change->dir, err) == 0)
		return 0;
	return err_prefix(err, "what was pushed to %s", change->path);
}

/* What cannot be made durable is there all the same, and is recorded. */
static int receive_change_record_push(struct receive_change *change, struct err *err)
{
	struct err late;

	if (receive_change_make_durable(change, err) == 0)
		return change->recorded(change->arg, err);
	change->recorded(change->arg, &late);
	return -1;
}

/* Git has said how it went, or is dead. The second time does nothing. An error is that of
 * the disk, or of `recorded`, which was called all the same. */
static int receive_change_settle(struct receive_change *change, struct err *err)
{
	if (change->is_settled)
		return 0;
	change->is_settled = true;
	failpoint("receive_pack.reported");
	if (!change->is_possible) {
		state_abandon(&change->writer);
		return 0;
	}
	end_change(change);
	if (receive_change_record_push(change, err) != 0)
		return -1;
	change->is_recorded = true;
	failpoint("receive_pack.recorded");
	return 0;
}

enum {
	KEPT_BACK = 20, /* the checksum that ends a pack; longer with SHA-256 */
	CHUNK_SIZE = 65536,
	CLOSE_WAIT_MS = 5000,      /* for git to end what nobody hears of */
	TEND_MS = 10,              /* for the end of git, which may be all that it says */
	KEEP_ALIVE_MS = 30 * 1000, /* some proxies wait for 60 s */
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
	bool has_reported_deletions;
	struct err broke_off;   /* why; ERR_NONE: it did not, or not yet */
	char chunk[CHUNK_SIZE]; /* of what git says */
};

static int receive_pack_start_git(struct receive_pack *pack, struct err *err)
{
	const char *const args[] = { "receive-pack", "--stateless-rpc", ".", NULL };
	struct receive_call call;
	int result;

	/* Makes the writer's file, whose flock git is to inherit. */
	if (state_ready(pack->change.dir, &pack->change.writer, err) != 0)
		return -1;
	pack->work.guard_fd = pack->change.writer.fd;
	receive_call_init(&call, &pack->request, &pack->repo, &pack->work, args);
	result = git_stream_open(&call.call, PROC_STREAM_FED, &pack->stream, err);
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

/* What looked like a deletion in a certificate was none for git, unless that says that it
 * was taken: there, a packet need not be a line. */
static void correct_deletions(const struct receive_commands *commands,
			      struct receive_outcome *outcome)
{
	const size_t count = commands->deleted.count;

	if (outcome->is_known && commands->step == RECEIVE_SIGNED)
		outcome->refused_deletions = outcome->taken_deletions < count
						     ? count - outcome->taken_deletions
						     : 0;
}

/* Of a push that was recorded. */
static void report_once(struct receive_pack *pack)
{
	struct receive_outcome outcome = pack->report.reader.outcome;

	if (pack->is_reported || !pack->change.is_recorded)
		return;
	pack->is_reported = true;
	correct_deletions(&pack->commands, &outcome);
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
	err_prefix(err, "Git does not understand this request");
	err->class = ERR_CONFIG;
	err_remedy(err, "check what is between Git and this site");
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
	got = proc_stream_read_until(git_stream_proc(pack->stream), pack->chunk,
				     sizeof(pack->chunk), wake);
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
		proc_stream_offer(git_stream_proc(pack->stream), pack->kept.data, len);
		while (can_take(pack) &&
		       proc_stream_offered(git_stream_proc(pack->stream)) > 0)
			listen_to(pack, 0, ERR_IGNORED);
	}
	str_cut(&pack->kept, 0, len);
	receive_change_beat(&pack->change);
}

static void report_deletions(struct receive_pack *pack)
{
	const struct receive_commands *commands = &pack->commands;
	bool is_known =
		commands->step == RECEIVE_WHOLE || commands->step == RECEIVE_SIGNED;

	if (!can_take(pack) || pack->has_reported_deletions || !is_known ||
	    commands->deletions == 0 || !pack->request.deletes)
		return;
	pack->has_reported_deletions = true;
	pack->request.deletes(pack->request.arg, commands->deletions);
}

/* Git is not given what it needs to change refs, if readers cannot be told of it. */
static void announce_or_break(struct receive_pack *pack)
{
	struct err err;

	report_deletions(pack);
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
	/* In a certificate may be names that are not known. */
	pack->change.names.is_all |= commands->step != RECEIVE_WHOLE;
	if (commands->step != RECEIVE_WHOLE || !commands->needs_pack)
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

/* Not by way of `chunk`, which is for what git says while this waits. */
static ssize_t receive_pack_read_body(struct receive_pack *pack, struct err *err)
{
	struct str *kept = &pack->kept;

	str_reserve(kept, CHUNK_SIZE);
	ssize_t got = pack->request.read(pack->request.read_arg, kept->data + kept->len,
					 CHUNK_SIZE, err);
	if (got > 0)
		kept->len += (size_t)got;
	kept->data[kept->len] = '\0';
	return got;
}

/* Git may be done long before the body ends. */
static void receive_pack_drain_output(struct receive_pack *pack, int64_t wait_ms)
{
	if (can_take(pack) && pack->change.is_possible)
		listen_to(pack, clock_boot_ms() + wait_ms, ERR_IGNORED);
}

void receive_pack_tend(struct receive_pack *pack)
{
	receive_pack_drain_output(pack, TEND_MS);
}

static int receive_pack_feed_git(struct receive_pack *pack, struct err *err)
{
	ssize_t got;

	pack->report.is_unread = true;
	while ((got = receive_pack_read_body(pack, err)) > 0) {
		give_what_may_be(pack);
		receive_pack_drain_output(pack, 0);
	}
	if (got < 0)
		return -1;
	if (pack->change.is_possible)
		announce_or_break(pack);
	receive_pack_give_kept(pack, pack->kept.len);
	pack->report.is_unread = false;
	if (pack->stream)
		proc_stream_end_input(git_stream_proc(pack->stream));
	return 0;
}

/* Git keeps a connection alive while it unpacks and while hooks run, but not while it
 * moves thousands of refs. */
static void receive_pack_keep_alive(struct receive_pack *pack)
{
	const struct receive_commands *commands = &pack->commands;

	if (commands->has_side_band &&
	    (commands->step == RECEIVE_WHOLE || commands->step == RECEIVE_SIGNED))
		receive_report_keep_alive(&pack->report);
}

static int wait_for_answer(struct receive_pack *pack, struct err *err)
{
	int64_t alive_at = clock_boot_ms() + pack->request.keep_alive_ms;

	while (can_take(pack) && !receive_report_has(&pack->report)) {
		if (listen_to(pack, alive_at, err) < 0)
			return -1;
		if (clock_boot_ms() < alive_at)
			continue;
		receive_pack_keep_alive(pack);
		alive_at += pack->request.keep_alive_ms;
	}
	return 0;
}

/* Until it is there, what goes wrong can become a status. */
static int wait_for_first(struct receive_pack *pack, struct err *err)
{
	if (wait_for_answer(pack, err) != 0)
		return -1;
	*err = pack->broke_off;
	return err->class == ERR_NONE ? 0 : -1;
}

static struct receive_pack *pack_new(const struct receive_pack_request *request)
{
	struct receive_pack *pack = xcalloc(1, sizeof(*pack));

	pack->request = *request;
	if (request->keep_alive_ms <= 0)
		pack->request.keep_alive_ms = KEEP_ALIVE_MS;
	pack->repo = (struct repo)REPO_INIT;
	pack->change = (struct receive_change){ .path = request->path,
						.recorded = request->recorded,
						.arg = request->arg,
						.writer = { .fd = -1 } };
	pack->kept = (struct str)STR_INIT;
	pack->report = (struct receive_report)RECEIVE_REPORT_INIT;
	pack->work = git_work_for(request->stop, request->timeout_ms);
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
	made->report.reader.deleted = &made->commands.deleted;
	if (receive_pack_start_git(made, err) != 0)
		goto undo;
	*pack = made;
	if (receive_pack_feed_git(made, err) != 0 || wait_for_first(made, err) != 0)
		goto undo;
	return 0;
undo:
	*pack = NULL;
	receive_pack_close(made);
	return -1;
}

ssize_t receive_pack_read(struct receive_pack *pack, void *buffer, size_t size,
			  struct err *err)
{
	if (!receive_report_has(&pack->report)) {
		receive_report_drop_taken(&pack->report);
		wait_for_answer(pack, ERR_IGNORED);
	}
	if (!receive_report_has(&pack->report)) {
		*err = pack->broke_off;
		return err->class == ERR_NONE ? 0 : -1;
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
		proc_stream_end_input(git_stream_proc(pack->stream));
	while (pack->stream && clock_boot_ms() < until) {
		receive_report_ignore(&pack->report);
		listen_to(pack, until, ERR_IGNORED);
	}
	if (pack->stream)
		receive_pack_finish_git(pack, ERR_IGNORED);
	receive_pack_settle_change(pack, ERR_IGNORED);
	repo_close(&pack->repo);
	receive_sync_clear(&pack->change.names);
	receive_commands_clear(&pack->commands);
	receive_report_clear(&pack->report);
	str_clear(&pack->kept);
	free(pack);
}
