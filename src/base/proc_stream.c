/*
 * The caller's thread does all the work while it reads: stdout goes straight to its
 * buffer, stderr is kept aside. When the caller pauses the child comes to rest at a full
 * pipe; its timeout and deadline are the supervisor's business and go on.
 */
#include "base/proc_stream.h"

#include <assert.h>
#include <fcntl.h>
#include <time.h>

#include "base/clock.h"
#include "base/proc_run.h"

enum {
	GATHER_READS = 4, /* of one call, so that a slow child does not hold it */
	GATHER_NS = 100 * 1000,
};

struct proc_stream {
	struct run run;
};

static int proc_stream_begin_run(struct run *run, int input_fd, struct err *err)
{
	run->is_streamed = true;
	if (input_fd >= 0) {
		run->input = fcntl(input_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
		if (run->input < 0)
			return err_errno(err, "cannot hand over the input");
	}
	return run_begin(run, err);
}

int proc_stream_open(const struct proc_request *request, int input_fd,
		     struct proc_stream **stream, struct err *err)
{
	struct proc_stream *made = xcalloc(1, sizeof(*made));

	run_init(&made->run, request);
	made->run.is_fed = input_fd == PROC_STREAM_FED;
	if (proc_stream_begin_run(&made->run, input_fd, err) != 0) {
		run_clear(&made->run);
		free(made);
		return -1;
	}
	*stream = made;
	return 0;
}

void proc_stream_offer(struct proc_stream *stream, const void *data, size_t len)
{
	struct run *run = &stream->run;

	assert(run->offered_len == 0);
	run->offered = data;
	run->offered_len = len;
	run_feed(run);
}

size_t proc_stream_offered(const struct proc_stream *stream)
{
	return stream->run.offered_len;
}

void proc_stream_end_input(struct proc_stream *stream)
{
	stream->run.offered_len = 0;
	run_close(&stream->run.feed);
}

static bool ended_by_itself(const struct run *run)
{
	return run->reported && run->report.cause == PROC_BY_ITSELF &&
	       !run->is_asked_to_end;
}

/* Reads once; 0: nothing, for now or for ever. */
static ssize_t read_output(struct run *run, void *buffer, size_t size)
{
	ssize_t got = run->output[0] >= 0 ? read(run->output[0], buffer, size) : 0;

	if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
		run_close(&run->output[0]);
	return got > 0 ? got : 0;
}

/* A child that writes block after block would wake us, and whoever waits for us, for
 * each; a pause lets some come together. It ends the first time that it brought nothing.
 */
static size_t gather(struct run *run, char *buffer, size_t len, size_t size)
{
	const struct timespec pause = { .tv_nsec = GATHER_NS };

	for (int i = 0; i < GATHER_READS && len < size / 2 && run->output[0] >= 0; i++) {
		nanosleep(&pause, NULL);
		ssize_t got = read_output(run, buffer + len, size - len);
		if (got <= 0)
			break;
		len += (size_t)got;
	}
	return len;
}

/* Whoever wrote into the pipe is dead when the run is over. So what is found empty after
 * that stays empty, even if a stranger holds the pipe open. */
ssize_t proc_stream_read_until(struct proc_stream *stream, void *buffer, size_t size,
			       int64_t until)
{
	struct run *run = &stream->run;
	const struct stop *stop = run->request->stop;
	bool offers = run->offered_len > 0;

	if (stop && stop_is_requested(stop))
		run_ask_to_end(run);
	run->heard_at = clock_boot_ms(); /* until now nobody listened */
	while (!run->is_asked_to_end) {
		bool is_over = run->is_over;
		ssize_t got = read_output(run, buffer, size);
		if (got > 0)
			return (ssize_t)gather(run, buffer, (size_t)got, size);
		if (is_over)
			return ended_by_itself(run) ? 0 : -1;
		if ((offers && run->offered_len == 0) ||
		    (until > 0 && clock_boot_ms() >= until))
			return PROC_STREAM_NOTHING;
		run->wake_at = until;
		run_step(run);
	}
	return -1;
}

ssize_t proc_stream_read(struct proc_stream *stream, void *buffer, size_t size)
{
	return proc_stream_read_until(stream, buffer, size, 0);
}

/* Without its reader, a child that writes on its way out does not wait for one. */
static void end_early(struct run *run)
{
	run_ask_to_end(run);
	run->wake_at = 0;
	run_close(&run->feed);
	run->offered_len = 0;
	run_close(&run->output[0]);
	while (!run->is_over)
		run_step(run);
}

int proc_stream_close(struct proc_stream *stream, struct proc_result *result,
		      struct err *err)
{
	struct proc_result unwanted;
	int status;

	if (!stream)
		return 0;
	if (!stream->run.is_over)
		end_early(&stream->run);
	run_end(&stream->run);
	status = run_judge(&stream->run, result ? result : &unwanted, err);
	run_clear(&stream->run);
	free(stream);
	return status;
}
