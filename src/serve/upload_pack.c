/*
 * The bytes are those of `git http-backend`: it writes a line with the service's name
 * before an advertisement, unless that begins with "version 2". We look at what
 * upload-pack says instead of parsing the client's wish once more.
 *
 * An answer is whole when git exits with 0 (since 2.30 also to a shallow client of
 * protocol 0, which hangs up when it was told where history ends), or when it is a
 * refusal: one packet "ERR ...", and a bad exit.
 *
 * Git tells of much that is damaged only after it has begun to answer. So the beginning
 * of an answer is held back where there is another one, until there is so much of it, or
 * so long: what ends badly by then is an error. Elsewhere the client gets what git says.
 *
 * A refusal ("not our ref") is git's word of objects that it does not find, too. It is
 * damage if the object is that of a ref, and not there: a client alone brings neither
 * about. If it is there, a push may have brought it just now, as clients may want what
 * they were not told of yet. So git is asked once more, which finds it then.
 */
#include "serve/upload_pack.h"

#include <fcntl.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/proc_stream.h"
#include "git/git_child.h"
#include "git/git_message.h"
#include "git/objects.h"
#include "git/read_settings.h"
#include "git/repo.h"
#include "serve/find.h"
#include "serve/http_service.h"
#include "serve/ref_list.h"

#define VERSION_2 "000eversion 2\n"

enum {
	PROTOCOL_MAX = 200,
	SILENCE_MS = 10 * 60 * 1000,
	HELD_SIZE = 64 << 10,
	HELD_MS = 500,
	FIRST_ENOUGH = sizeof(VERSION_2) - 1, /* to know what kind of answer it is */
	GIT_DIED = 128, /* its exit code, with a line that says why */
};

struct upload_pack {
	struct git_work work;
	enum upload_pack_step step;
	struct git_stream *stream; /* NULL once it has ended */
	struct proc_result ended;
	struct err broke_off; /* why; ERR_NONE: it did not, or not yet */
	bool is_refusal;
	bool holds_back;
	bool is_request_bad;
	size_t service_left; /* of the service line */
	size_t first_len;
	size_t first_taken;
	char first[HELD_SIZE]; /* what open has read */
};

static const char service[] = "001e# service=git-upload-pack\n0000";

/* While git counts what goes into a pack it says five bytes each second that it lives.
 * Its default, each five seconds, is just what clients that want one byte a second take
 * for a dead connection. */
static const char *const config[] = {
	"uploadpack.keepAlive=1",
	"transfer.advertiseSID=false",
};

/* It goes into a child's environment as it is. */
static bool upload_pack_is_plain(const char *text)
{
	static const char allowed[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
		"0123456789=:._-";
	size_t len = strlen(text);

	return len > 0 && len <= PROTOCOL_MAX && strspn(text, allowed) == len;
}

/* Of any other header only what git would find in it. */
static const char *upload_pack_protocol_of(const char *header)
{
	static const char *const versions[] = { NULL, "version=1", "version=2" };

	if (header && upload_pack_is_plain(header))
		return header;
	return versions[git_protocol_version(header)];
}

#define OPTIONS_MAX 8

static int upload_pack_start_git(const struct upload_pack_request *request,
				 const struct repo *repo, struct upload_pack *pack,
				 struct err *err)
{
	bool advertises = request->step != UPLOAD_PACK_ANSWER;
	const char *protocol = upload_pack_protocol_of(request->protocol);
	bool is_new = git_protocol_version(protocol) == 2;
	const char *args[2 * ARRAY_SIZE(config) + OPTIONS_MAX];
	size_t count = 0;

	for (size_t i = 0; i < ARRAY_SIZE(config); i++) {
		args[count++] = "-c";
		args[count++] = config[i];
	}
	args[count++] = "upload-pack";
	args[count++] = "--strict";
	args[count++] = "--stateless-rpc";
	if (advertises)
		args[count++] = "--http-backend-info-refs";
	args[count++] = ".";
	args[count] = NULL;
	return git_stream_open(
		&(struct git_call){
			.work = &pack->work,
			.repository = request->path,
			.repository_fd = repo->fd,
			.args = args,
			.config = is_new ? GIT_CONFIG_SERVE_PARTIAL : GIT_CONFIG_SERVE,
			.input = advertises ? NULL : request->body,
			.protocol = protocol,
			.silence_ms = request->silence_ms > 0 ? request->silence_ms
							      : SILENCE_MS,
			.yields = !advertises,
			.reach = git_reach_of(repo),
			.ended = &pack->ended,
		},
		advertises || request->body ? -1 : request->body_fd, &pack->stream, err);
}

/* Whether git died of the request, as far as it tells. What it says of a broken
 * connection is meant of the client's body here, which we have whole; and of words that
 * are not known, the client's may be among them. */
static void upload_pack_blame_request(struct upload_pack *pack, struct err *err)
{
	bool is_unknown = err->class == ERR_INTERNAL && pack->ended.exit_code == GIT_DIED;
	bool has_died = pack->ended.exit_code > 0;

	if (pack->step != UPLOAD_PACK_ANSWER || !has_died)
		return;
	pack->is_request_bad = is_unknown || err->class == ERR_NETWORK;
	if (git_message_blames_client(pack->ended.tail, err))
		pack->is_request_bad = true;
	if (!pack->is_request_bad || err->class == ERR_INTERNAL)
		return;
	err_prefix(err, "Git does not understand this request");
	err->class = ERR_CONFIG;
	err_remedy(err, "check what is between Git and this site");
}

static bool upload_pack_is_refused(const struct upload_pack *pack, const struct err *err)
{
	return pack->is_refusal && (pack->is_request_bad || err->class == ERR_CORRUPT ||
				    err->class == ERR_INTERNAL);
}

static int upload_pack_finish_git(struct upload_pack *pack, struct err *err)
{
	if (git_stream_close(TAKE(pack->stream), err) == 0)
		return 0;
	upload_pack_blame_request(pack, err);
	if (upload_pack_is_refused(pack, err))
		return 0;
	pack->broke_off = *err;
	return -1;
}

/* As upload_pack_read, from git itself. PROC_STREAM_NOTHING: not until then; 0: waits. */
static ssize_t read_until(struct upload_pack *pack, char *buffer, size_t size,
			  int64_t until, struct err *err)
{
	ssize_t got;

	if (!pack->stream) {
		*err = pack->broke_off;
		return err->class == ERR_NONE ? 0 : -1;
	}
	got = proc_stream_read_until(git_stream_proc(pack->stream), buffer, size, until);
	if (pack->step == UPLOAD_PACK_ANSWER && pack->first_taken > 0)
		failpoint("upload_pack.answers");
	return got > 0 || got == PROC_STREAM_NOTHING ? got
						     : upload_pack_finish_git(pack, err);
}

/* How many bytes are waited for, and until when: without end for those that tell what
 * kind of answer it is. */
static size_t wanted_first(const struct upload_pack *pack, int64_t held_until,
			   int64_t *until)
{
	*until = pack->first_len < FIRST_ENOUGH ? 0 : held_until;
	return pack->holds_back ? sizeof(pack->first) : FIRST_ENOUGH;
}

static int read_first(struct upload_pack *pack, struct err *err)
{
	int64_t held_until = clock_boot_ms() + HELD_MS, until = 0;
	ssize_t got = 1;

	while (got > 0 && pack->first_len < wanted_first(pack, held_until, &until)) {
		got = read_until(pack, pack->first + pack->first_len,
				 sizeof(pack->first) - pack->first_len, until, err);
		if (got == PROC_STREAM_NOTHING)
			break;
		if (got < 0)
			return -1;
		pack->first_len += (size_t)got;
		pack->is_refusal =
			pack->first_len >= 8 && memcmp(pack->first + 4, "ERR ", 4) == 0;
	}
	if (pack->step == UPLOAD_PACK_ADVERTISE &&
	    (pack->first_len < FIRST_ENOUGH ||
	     memcmp(pack->first, VERSION_2, FIRST_ENOUGH) != 0))
		pack->service_left = strlen(service);
	return 0;
}

static bool is_ref(const struct ref_snapshot *refs, const struct oid *oid)
{
	struct oid head;

	if (ref_snapshot_head(refs, &head) && oid_equal(&head, oid))
		return true;
	for (size_t i = 0; i < refs->refs.count; i++)
		if (oid_equal(&refs->refs.items[i].oid, oid))
			return true;
	return false;
}

/* What git hides it refuses by rights. */
static bool may_hide(const struct repo *repo)
{
	AUTO_STR struct str settings = STR_INIT;

	return read_settings_take(repo, &settings, ERR_IGNORED) != 0 ||
	       strcasestr(settings.data, "hideRefs");
}

/* What became of an object that git refused to know. */
enum refused { REFUSED_RIGHTLY, REFUSED_PRESENT, REFUSED_LOST };

static bool upload_pack_has_object(const struct upload_pack *pack,
				   const struct repo *repo, const struct oid *oid)
{
	oid_list asked = { 0 }, present = { 0 };
	bool is_there = true;

	vec_add(&asked, *oid);
	if (objects_present(&pack->work, repo, &asked, &present, ERR_IGNORED) == 0)
		is_there = present.count > 0;
	vec_clear(&asked);
	vec_clear(&present);
	return is_there;
}

/* It may be back by now, as damage is mended while the answer is on its way; or it came
 * with a ref of just now: then it is present. */
static enum refused upload_pack_judge_refused(const struct upload_pack *pack,
					      const char *path, const struct oid *oid)
{
	AUTO_SNAPSHOT struct ref_snapshot refs = REF_SNAPSHOT_INIT;
	AUTO_REPO struct repo repo = REPO_INIT;

	if (repo_open(AT_FDCWD, path, &repo, ERR_IGNORED) != 0 ||
	    ref_snapshot_read(repo.fd, repo.oid_len, &refs, ERR_IGNORED) != 0 ||
	    !is_ref(&refs, oid))
		return REFUSED_RIGHTLY;
	if (!upload_pack_has_object(pack, &repo, oid))
		return REFUSED_LOST;
	return may_hide(&repo) ? REFUSED_RIGHTLY : REFUSED_PRESENT;
}

static bool upload_pack_find_refused(const struct upload_pack *pack, size_t oid_len,
				     struct oid *oid)
{
	AUTO_FREE char *said = NULL;

	if (!pack->is_refusal || pack->step != UPLOAD_PACK_ANSWER)
		return false;
	said = xstrndup(pack->first, pack->first_len);
	return git_message_refused_object(said, oid_len, oid);
}

static int upload_pack_begin(const struct upload_pack_request *request,
			     const struct repo *repo, struct upload_pack *pack,
			     struct err *err)
{
	if (upload_pack_start_git(request, repo, pack, err) != 0)
		return -1;
	return read_first(pack, err);
}

static int upload_pack_begin_again(const struct upload_pack_request *request,
				   const struct repo *repo, struct upload_pack *pack,
				   struct err *err)
{
	git_stream_close(TAKE(pack->stream), ERR_IGNORED);
	pack->ended = (struct proc_result){ 0 };
	pack->is_refusal = pack->is_request_bad = false;
	pack->first_len = 0;
	if (request->body_fd >= 0 && lseek(request->body_fd, 0, SEEK_SET) < 0)
		return err_errno(err, "cannot rewind a request's body");
	return upload_pack_begin(request, repo, pack, err);
}

/* Whether git itself is well, and says no by rights. */
static int check_refusal(const struct upload_pack_request *request,
			 const struct repo *repo, struct upload_pack *pack,
			 struct err *err)
{
	char text[OID_MAX_TEXT];
	enum refused refused;
	struct oid oid, again;

	if (!upload_pack_find_refused(pack, repo->oid_len, &oid))
		return 0;
	refused = upload_pack_judge_refused(pack, request->path, &oid);
	if (refused == REFUSED_PRESENT) {
		if (upload_pack_begin_again(request, repo, pack, err) != 0)
			return -1;
		if (!upload_pack_find_refused(pack, repo->oid_len, &again) ||
		    !oid_equal(&oid, &again))
			return 0;
		refused = upload_pack_judge_refused(pack, request->path, &oid);
	}
	if (refused == REFUSED_RIGHTLY)
		return 0;
	err_set(err, ERR_CORRUPT, "git does not find the object %s, which a ref names",
		oid_text(&oid, text));
	if (refused == REFUSED_LOST)
		err_because(err, REASON_LOST_OBJECT);
	return err_remedy(err,
			  "run git fsck in that repository and restore what it names");
}

int upload_pack_open(const struct upload_pack_request *request, struct upload_pack **pack,
		     struct err *err)
{
	AUTO_REPO struct repo repo = REPO_INIT;
	struct upload_pack *made;

	if (find_open(request->dir, request->path, &repo, err) != 0)
		return -1;
	made = xcalloc(1, sizeof(*made));
	made->step = request->step;
	made->holds_back = request->holds_back && request->step == UPLOAD_PACK_ANSWER;
	made->work = git_work_for(request->stop, request->timeout_ms);
	if ((!request->is_for_copy &&
	     http_service_check_read(request->path, &repo, &made->work, err) != 0) ||
	    upload_pack_begin(request, &repo, made, err) != 0 ||
	    check_refusal(request, &repo, made, err) != 0) {
		if (request->is_bad)
			*request->is_bad = made->is_request_bad;
		upload_pack_close(made);
		return -1;
	}
	*pack = made;
	return 0;
}

bool upload_pack_is_request_bad(const struct upload_pack *pack)
{
	return pack->is_request_bad;
}

ssize_t upload_pack_read(struct upload_pack *pack, void *buffer, size_t size,
			 struct err *err)
{
	size_t len;

	if (pack->service_left > 0) {
		len = size_min(size, pack->service_left);
		memcpy(buffer, service + strlen(service) - pack->service_left, len);
		pack->service_left -= len;
		return (ssize_t)len;
	}
	if (pack->first_taken == pack->first_len)
		return read_until(pack, buffer, size, 0, err);
	len = size_min(size, pack->first_len - pack->first_taken);
	memcpy(buffer, pack->first + pack->first_taken, len);
	pack->first_taken += len;
	return (ssize_t)len;
}

void upload_pack_close(struct upload_pack *pack)
{
	if (!pack)
		return;
	git_stream_close(pack->stream, ERR_IGNORED);
	free(pack);
}
