#include "serve/pushes.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/pace.h"
#include "serve/find.h"
#include "serve/receive_git.h"
#include "serve/receive_pack.h"
#include "serve/slots.h"

struct pushes {
	char *root;
	struct slots *slots;
	_Atomic int64_t timeout_ms;
	_Atomic uint64_t least_rate;
	_Atomic uint64_t most; /* bytes of one; 0: no limit */
};

struct pushes *pushes_new(const char *root, const struct serve_settings *settings)
{
	struct pushes *pushes = xcalloc(1, sizeof(*pushes));

	pushes->root = xstrdup(root);
	pushes->slots = slots_new("pushes", &settings->pushes);
	atomic_init(&pushes->timeout_ms, settings->timeout_ms);
	atomic_init(&pushes->least_rate, settings->least_rate);
	atomic_init(&pushes->most, settings->max_push);
	return pushes;
}

void pushes_free(struct pushes *pushes)
{
	if (!pushes)
		return;
	slots_free(pushes->slots);
	free(pushes->root);
	free(pushes);
}

void pushes_set(struct pushes *pushes, const struct serve_settings *settings)
{
	slots_set(pushes->slots, &settings->pushes);
	atomic_store(&pushes->timeout_ms, settings->timeout_ms);
	atomic_store(&pushes->least_rate, settings->least_rate);
	atomic_store(&pushes->most, settings->max_push);
}

/* One push. What git uses is kept as long as it may run. */
struct incoming {
	struct receive_pack *pack;
	struct slots *slots; /* in which it has a place */
	struct fair_place place;
	struct pace pace; /* of the client that sends */
	char *path, *protocol, *user, *client;
	int dir;                       /* of the repository, until git has it; or -1 */
	struct pushes_request request; /* its texts are those above */
	uint64_t most, taken;
	struct receive_depth depth;
	bool is_too_large, is_bad;
};

static int refuse_deep(struct incoming *incoming, struct err *err)
{
	incoming->is_bad = true;
	err_set(err, ERR_CONFIG, "a ref's name has more than %d slashes",
		RECEIVE_SLASHES_MAX);
	return err_remedy(err, "give it another name");
}

static bool pushes_is_wanted(void *arg)
{
	struct incoming *incoming = arg;

	return slots_is_wanted(incoming->slots, &incoming->place);
}

/* Not for who sends next to nothing while others wait for his place. What git has done by
 * then is not put off. */
static bool pushes_may_wait(void *arg)
{
	struct incoming *incoming = arg;

	if (incoming->pack)
		receive_pack_tend(incoming->pack);
	return !pace_is_too_slow(&incoming->pace) || !pushes_is_wanted(incoming);
}

static ssize_t pushes_read_next(struct incoming *incoming, void *buffer, size_t size,
				struct err *err)
{
	pace_begin_wait(&incoming->pace);
	ssize_t count = incoming->request.read(incoming->request.arg, buffer, size, err);
	pace_end_wait(&incoming->pace);
	if (count > 0)
		pace_add(&incoming->pace, (size_t)count);
	if (count < 0 && err->class == ERR_BUSY)
		log_info("http.too_slow", LOG_NUMBER("least", incoming->pace.least));
	return count;
}

static ssize_t pushes_read_body(void *arg, void *buffer, size_t size, struct err *err)
{
	struct incoming *incoming = arg;
	ssize_t count = pushes_read_next(incoming, buffer, size, err);

	/* Only what it is packed in is read before. */
	incoming->is_bad |= count < 0 && err->class == ERR_CONFIG;
	if (count <= 0)
		return count;
	if (!receive_depth_take(&incoming->depth, buffer, (size_t)count))
		return refuse_deep(incoming, err);
	incoming->taken += (uint64_t)count;
	if (incoming->most == 0 || incoming->taken <= incoming->most)
		return count;
	incoming->is_too_large = true;
	err_set(err, ERR_CONFIG, "the push has more than %" PRIu64 " bytes",
		incoming->most);
	return err_remedy(err, "push less at a time, or have serve.maxPush raised");
}

static ssize_t read_report(void *arg, void *buffer, size_t size)
{
	struct incoming *incoming = arg;
	struct err err = { 0 };
	ssize_t count = receive_pack_read(incoming->pack, buffer, size, &err);

	if (count < 0)
		log_warn("git.broken", LOG_ERR(&err), LOG_TEXT("path", incoming->path));
	return count;
}

static void close_push(void *arg)
{
	struct incoming *incoming = arg;

	receive_pack_close(incoming->pack);
	if (incoming->slots)
		slots_leave(incoming->slots, &incoming->place);
	if (incoming->pack && incoming->request.close)
		incoming->request.close(incoming->request.arg);
	if (incoming->dir >= 0)
		close(incoming->dir);
	free(incoming->path);
	free(incoming->protocol);
	free(incoming->user);
	free(incoming->client);
	free(incoming);
}

static char *pushes_copy_text(const char *text)
{
	return text && *text ? xstrdup(text) : NULL;
}

static struct incoming *incoming_new(struct pushes *pushes,
				     const struct pushes_request *request)
{
	struct incoming *incoming = xcalloc(1, sizeof(*incoming));

	incoming->request = *request;
	incoming->dir = -1;
	incoming->protocol = pushes_copy_text(request->protocol);
	incoming->user = pushes_copy_text(request->user);
	incoming->client = pushes_copy_text(request->client);
	incoming->most = atomic_load(&pushes->most);
	return incoming;
}

static struct receive_pack_request pushes_make_request(struct pushes *pushes,
						       struct incoming *incoming,
						       struct serve_answer *answer)
{
	return (struct receive_pack_request){
		.path = incoming->path,
		.dir = incoming->dir,
		.protocol = incoming->protocol,
		.user = incoming->user,
		.client = incoming->client,
		.timeout_ms = atomic_load(&pushes->timeout_ms),
		.stop = incoming->request.cut,
		.read = pushes_read_body,
		.read_arg = incoming,
		.deletes = incoming->request.deletes,
		.recorded = incoming->request.recorded,
		.reported = incoming->request.reported,
		.arg = incoming->request.arg,
		.is_bad = &answer->is_request_bad,
	};
}

/* Finds the repository, and a place. */
static int pushes_enter_slot(struct pushes *pushes, struct incoming *incoming,
			     struct serve_answer *answer, struct err *err)
{
	struct slots_request request = { .client = incoming->request.share,
					 .stop = incoming->request.stop,
					 .retry_after_s = &answer->retry_after_s };

	incoming->dir = find_repository(pushes->root, incoming->request.name,
					&incoming->path, err);
	if (incoming->dir < 0 ||
	    slots_enter(pushes->slots, &request, &incoming->place, err) != 0)
		return -1;
	incoming->slots = pushes->slots;
	incoming->pace.least = atomic_load(&pushes->least_rate);
	if (incoming->request.limit)
		incoming->request.limit(incoming->request.arg, pushes_may_wait, incoming);
	return 0;
}

int pushes_advertise(struct pushes *pushes, const struct pushes_request *request,
		     struct serve_answer *answer, struct err *err)
{
	struct incoming *incoming = incoming_new(pushes, request);
	struct receive_pack_request wanted;
	int result = pushes_enter_slot(pushes, incoming, answer, err);

	if (result == 0) {
		wanted = pushes_make_request(pushes, incoming, answer);
		result = receive_pack_advertise(&wanted, &answer->bytes, err);
	}
	close_push(incoming);
	return result;
}

int pushes_receive(struct pushes *pushes, const struct pushes_request *request,
		   struct serve_answer *answer, struct err *err)
{
	struct incoming *incoming = incoming_new(pushes, request);
	struct receive_pack_request wanted;
	int result = pushes_enter_slot(pushes, incoming, answer, err);

	if (result == 0) {
		wanted = pushes_make_request(pushes, incoming, answer);
		answer->until = clock_boot_ms() + wanted.timeout_ms;
		result = receive_pack_open(&wanted, &incoming->pack, err);
		answer->is_too_large = incoming->is_too_large;
		answer->is_request_bad |= incoming->is_bad;
	}
	if (result != 0) {
		close_push(incoming);
		return -1;
	}
	answer->read = read_report;
	answer->is_wanted = pushes_is_wanted;
	answer->least_rate = incoming->pace.least;
	answer->close = close_push;
	answer->stream = incoming;
	return 0;
}
