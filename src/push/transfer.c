#include "push/transfer.h"

#include <fcntl.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "git/git_message.h"
#include "net/http.h"
#include "push/outcome.h"
#include "push/push.h"
#include "push/target.h"
#include "push/transfer_run.h"

#define BULK 1000 /* refs */
/* Hooks of a repository here are its owner's: what keeps git to one protocol is not for
 * a push that they make themselves. */
#define HERE "--receive-pack=env -u GIT_ALLOW_PROTOCOL -u GIT_OPTIONAL_LOCKS git "
#define RECEIVE_PACK HERE "receive-pack"
#define BULK_RECEIVE_PACK HERE "-c core.fsync=objects,derived-metadata receive-pack"

#define LISTING_LIMIT ((size_t)256 << 20) /* of some two million refs */

static char *program_option(const char *option, const char *program)
{
	return program ? xasprintf("--%s=%s", option, program) : NULL;
}

static void open_ssh(struct transfer *transfer)
{
	const struct push_remote *remote = transfer->remote;

	transfer->ssh = target_ssh_command(transfer->request->settings, remote);
	transfer->git.ssh_command = transfer->ssh;
	transfer->receive_pack = program_option("receive-pack", remote->receive_pack);
	transfer->upload_pack = program_option("upload-pack", remote->upload_pack);
}

/* How a git_remote is made of the destination, and undone. */
static void transfer_open(struct transfer *transfer)
{
	const struct destination *to = transfer->request->destination;

	transfer->objects = xasprintf("%s/objects", transfer->request->repository);
	transfer->git = (struct git_remote){ .url = to->git_url,
					     .ca_file = transfer->remote->ca_file,
					     .stall_ms = -1,
					     .is_pushed_to = true };
	if (to->kind == URL_SSH)
		open_ssh(transfer);
	if (to->kind == URL_HTTP && (to->url->user || to->url->password)) {
		transfer->header =
			http_make_basic_header(to->url->user, to->url->password);
		transfer->git.header = transfer->header;
	}
}

static void transfer_close(struct transfer *transfer)
{
	if (transfer->header)
		explicit_bzero(transfer->header, strlen(transfer->header));
	free(transfer->header);
	free(transfer->ssh);
	free(transfer->receive_pack);
	free(transfer->upload_pack);
	free(transfer->objects);
	for (size_t i = 0; i < transfer->items.count; i++) {
		free(transfer->items.items[i].result.ref);
		free(transfer->items.items[i].result.dst);
		free(transfer->items.items[i].result.text);
	}
	vec_clear(&transfer->items);
	ref_reading_clear(&transfer->local);
	ref_snapshot_clear(&transfer->seen);
	transfer_here_close(transfer->here);
	transfer_http_close(transfer->http);
	view_remove(&transfer->view);
}

/* Whatever is missing, it is not the destination. */
static int blame_view(struct err *err)
{
	if (err->reason == REASON_LOCAL_REPOSITORY)
		return -1;
	if (err->class == ERR_MISSING)
		err->class = ERR_DISK;
	return err_because(err, REASON_HERE);
}

static int need_view(struct transfer *transfer, struct err *err)
{
	const struct transfer_request *request = transfer->request;

	transfer->result->used_git = true;
	if (transfer->view.path)
		return 0;
	return view_create(request->directory, request->repository,
			   transfer->local.oid_len, &transfer->view, err) == 0
		       ? 0
		       : blame_view(err);
}

/* `args` must have room for what is always there. */
static int call_git(const struct transfer *transfer, const char *const *args,
		    struct str *output, struct proc_result *ended, struct err *err)
{
	const struct git_call call = {
		.work = transfer->request->work,
		.repository = transfer->view.path,
		.args = args,
		.output = output,
		.output_limit = LISTING_LIMIT,
		.remote = &transfer->git,
		.object_directory = transfer->objects,
		.silence_ms = transfer->remote->silence_ms,
		.ended = ended,
	};

	*ended = (struct proc_result){ .exit_code = -1 };
	return git_run(&call, err);
}

/* Servers that know protocol 2 then leave out the rest, which may be a hundred times as
 * much. A brake needs all. */
static bool are_all_branches(const struct transfer *transfer)
{
	for (size_t i = 0; i < transfer->items.count; i++) {
		const struct push_item *item = &transfer->items.items[i];
		if (item->state == ITEM_LEASED &&
		    (item->result.is_deletion ||
		     !text_starts_with(item->result.dst, "refs/heads/")))
			return false;
	}
	return !transfer->is_all;
}

/* "<oid> TAB <name>": packed-refs' own lines but for the tab. */
static int take_listing(struct transfer *transfer, struct str *text, struct err *err)
{
	size_t len = text->len;
	char *tab = text->data;

	while ((tab = memchr(tab, '\t', len - (size_t)(tab - text->data))) != NULL)
		*tab++ = ' ';
	ref_snapshot_clear(&transfer->seen);
	if (len == 0)
		return 0;
	if (ref_parse_packed(&transfer->seen, str_take(text), len,
			     transfer->local.oid_len, err) == 0)
		return 0;
	err_set(err, ERR_CONFIG,
		"the destination's list of refs cannot be read: "
		"another object format, or names that git does not take");
	return -1;
}

/* Reads the destination's refs: all, or at least those of the items that are left. */
static int transfer_look(struct transfer *transfer, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	struct proc_result ended;
	const char *args[8] = { "ls-remote", "--refs" };
	size_t count = 2;

	if (are_all_branches(transfer))
		args[count++] = "--heads";
	if (transfer->upload_pack)
		args[count++] = transfer->upload_pack;
	args[count++] = "--";
	args[count++] = transfer->git.url;
	transfer->is_seen = false;
	if (need_view(transfer, err) != 0)
		return -1;
	if (call_git(transfer, args, &text, &ended, err) != 0)
		return push_report_failure(ended.tail, err);
	transfer->is_seen = true;
	return take_listing(transfer, &text, err);
}

/* What one `git push` is given. */
struct push_command {
	VEC(const char *) args;
	text_list owned;
};

static void transfer_git_add_owned(struct push_command *command, char *arg)
{
	vec_add(&command->owned, arg);
	vec_add(&command->args, arg);
}

/* Never a "+" in front of a refspec: it would win over the lease. */
static void add_leases(const struct transfer *transfer, const push_items *items,
		       struct push_command *command)
{
	char old[OID_MAX_TEXT];

	for (size_t i = 0; i < items->count; i++) {
		const struct push_item *item = items->items[i];
		const struct ref *theirs;
		if (item->state != ITEM_LEASED ||
		    (!item->forces && !item->result.is_deletion))
			continue;
		theirs = ref_snapshot_find(&transfer->seen, item->result.dst);
		if (theirs)
			transfer_git_add_owned(command,
					       xasprintf("--force-with-lease=%s:%s",
							 item->result.dst,
							 oid_text(&theirs->oid, old)));
	}
}

static void add_deletions(const push_items *items, struct push_command *command)
{
	for (size_t i = 0; i < items->count; i++)
		if (items->items[i]->result.is_deletion)
			transfer_git_add_owned(
				command, xasprintf(":%s", items->items[i]->result.dst));
}

/* To a path here git syncs each ref by itself, which takes minutes for many: then the
 * file system is synced once in the end. */
static bool is_bulk(const struct transfer *transfer, const push_items *items)
{
	return transfer->request->destination->kind == URL_LOCAL && items->count > BULK;
}

static void make_command(const struct transfer *transfer, const push_items *items,
			 struct push_command *command)
{
	vec_add(&command->args, "push");
	vec_add(&command->args, "--porcelain");
	vec_add(&command->args, "--progress");
	vec_add(&command->args, "--no-verify");
	if (transfer->receive_pack)
		vec_add(&command->args, transfer->receive_pack);
	if (transfer->request->destination->kind == URL_LOCAL)
		vec_add(&command->args,
			is_bulk(transfer, items) ? BULK_RECEIVE_PACK : RECEIVE_PACK);
	add_leases(transfer, items, command);
	vec_add(&command->args, "--");
	vec_add(&command->args, transfer->git.url);
	vec_add(&command->args, "refs/*:refs/*");
	add_deletions(items, command);
	vec_add(&command->args, NULL);
}

static int fill_view(struct transfer *transfer, const push_items *items, struct err *err)
{
	AUTO_SNAPSHOT struct ref_snapshot refs = REF_SNAPSHOT_INIT;

	for (size_t i = 0; i < items->count; i++)
		if (!items->items[i]->result.is_deletion)
			vec_add(&refs.refs, items->items[i]->value);
	vec_sort(&refs.refs, ref_compare_names);
	return view_fill(&transfer->view, &refs, err) == 0 ? 0 : blame_view(err);
}

/* What git said of each ref, with the item it is about. */
struct answer {
	struct push_line line;
	struct push_item *item;
};
typedef VEC(struct answer) answers;

static int find_dst(const void *key, const void *item)
{
	return strcmp(key, ((const struct push_item *)item)->result.dst);
}

/* Of doubles the first is the one that was pushed. */
static struct push_item *item_of(const struct transfer *transfer, const char *dst)
{
	struct push_item *first = transfer->items.items;
	struct push_item *item =
		bsearch(dst, first, transfer->items.count, sizeof(*item), find_dst);

	while (item && item > first && strcmp(item[-1].result.dst, dst) == 0)
		item--;
	return item;
}

/* `text` is cut up, and must outlive the answers. */
static void read_answers(struct transfer *transfer, char *text, answers *list)
{
	struct answer answer;

	while (push_report_next(&text, &answer.line)) {
		answer.item = item_of(transfer, answer.line.dst);
		if (answer.item)
			vec_add(list, answer);
	}
}

#define WITHOUT_LEASE                                                                    \
	"%s; the destination does not show which value it has, so that it cannot be "    \
	"replaced safely: it is hidden there, or changes all the time"

/* Forced without a lease it could undo what is newer. */
static void explain_no_lease(struct ref_result *result)
{
	char *text = xasprintf(WITHOUT_LEASE, result->text);

	free(result->text);
	result->text = text;
}

static void take_refusal(struct transfer *transfer, struct push_item *item)
{
	if (!item->forces) {
		item->state = ITEM_DONE;
	} else if (item->state == ITEM_LEASED) {
		explain_no_lease(&item->result);
		transfer->is_stale = true;
	} else {
		item->state = ITEM_LEASED;
		free(TAKE(item->result.text));
	}
}

static void transfer_git_take_answer(struct transfer *transfer,
				     const struct answer *answer, const char *tail)
{
	struct push_item *item = answer->item;

	item->is_answered = true;
	switch (push_report_judge(&answer->line, tail, &item->result)) {
	case PUSH_SETTLED:
		item->state = ITEM_DONE;
		break;
	case PUSH_NEEDS_FORCE:
		take_refusal(transfer, item);
		break;
	case PUSH_STALE:
		item->result.status = REF_REJECTED_REMOTE_CHANGED;
		item->result.is_transient = true;
		item->result.text = xstrdup("it changes at the destination all the time");
		transfer->is_stale = true;
		break;
	}
}

static void take_answers(struct transfer *transfer, const push_items *items,
			 const answers *list, const char *tail)
{
	for (size_t i = 0; i < items->count; i++)
		items->items[i]->is_answered = false;
	for (size_t i = 0; i < list->count; i++)
		transfer_git_take_answer(transfer, &list->items[i], tail);
	for (size_t i = 0; i < items->count; i++) {
		if (items->items[i]->is_answered)
			continue;
		item_settle(items->items[i], REF_REJECTED_OTHER_REASON,
			    xstrdup("git did not say what became of it"));
		items->items[i]->result.is_transient = true;
	}
}

static bool is_any_unpacking(const answers *list)
{
	for (size_t i = 0; i < list->count; i++)
		if (push_report_is_unpacking(&list->items[i].line))
			return true;
	return false;
}

/* A pack that cannot be made, or is refused, takes all its refs with it: the halves tell
 * which of them are to blame. */
static int push_halves(struct transfer *transfer, const push_items *items,
		       struct err *err)
{
	size_t half = items->count / 2;
	push_items first = { .items = items->items, .count = half };
	push_items second = { .items = items->items + half,
			      .count = items->count - half };

	if (items->count == 1) {
		items->items[0]->is_unreadable = true;
		item_settle(items->items[0], REF_REJECTED_OTHER_REASON,
			    xstrdup(transfer->local_fault.text));
		return 0;
	}
	if (transfer_push(transfer, &first, err) != 0)
		return -1;
	return transfer_push(transfer, &second, err);
}

/* What this machine lacks, as a file server that is away, is no ref's fault: then all is
 * tried again. */
static int judge_local(struct transfer *transfer, const push_items *items,
		       struct err *err)
{
	if (err_is_of_data(&transfer->local_fault))
		return push_halves(transfer, items, err);
	*err = transfer->local_fault;
	return -1;
}

/* Without a word on any ref; *err is git_run's. */
static int judge_silence(struct transfer *transfer, const push_items *items,
			 const struct proc_result *ended, struct err *err)
{
	answers none = { 0 };

	if (push_report_is_local(ended->tail, &transfer->local_fault))
		return judge_local(transfer, items, err);
	if (ended->exit_code != 0)
		return push_report_failure(ended->tail, err);
	take_answers(transfer, items, &none, ended->tail);
	return 0;
}

#define SPLITS 32            /* two pushes each */
#define REFUSED_ALONE_MOST 8 /* then it takes nothing, whatever it is sent */

static bool takes_nothing(const struct transfer *transfer)
{
	return !transfer->has_taken && transfer->refused_alone >= REFUSED_ALONE_MOST;
}

static size_t find_held_up(const push_items *items, const answers *list)
{
	size_t count = 0;

	for (size_t i = 0; i < items->count; i++)
		items->items[i]->is_held_up = false;
	for (size_t i = 0; i < list->count; i++)
		list->items[i].item->is_held_up =
			push_report_is_together(&list->items[i].line);
	for (size_t i = 0; i < items->count; i++)
		count += items->items[i]->is_held_up;
	return count;
}

/* The answers to the other refs count, as that this one is not a fast-forward. */
static int split_held_up(struct transfer *transfer, const push_items *items,
			 const answers *list, const char *tail, struct err *err)
{
	push_items held_up = { 0 }, others = { 0 };
	answers answered = { 0 };

	for (size_t i = 0; i < items->count; i++)
		vec_add(items->items[i]->is_held_up ? &held_up : &others,
			items->items[i]);
	for (size_t i = 0; i < list->count; i++)
		if (!list->items[i].item->is_held_up)
			vec_add(&answered, list->items[i]);
	take_answers(transfer, &others, &answered, tail);
	vec_clear(&answered);
	vec_clear(&others);
	transfer->splits++;
	int status = push_halves(transfer, &held_up, err);
	vec_clear(&held_up);
	return status;
}

/* Of several it is not known which are to blame: all are worth another try. */
static void judge_held_up(struct transfer *transfer, const push_items *items,
			  size_t held_up, const char *tail)
{
	transfer->refused_alone += held_up == 1 && items->count == 1;
	for (size_t i = 0; i < items->count; i++) {
		struct push_item *item = items->items[i];
		transfer->has_taken |= item->result.status == REF_OK;
		if (item->is_held_up && held_up > 1 && !takes_nothing(transfer))
			item->result.is_transient = true;
		else if (item->is_held_up && git_message_is_unwanted(tail))
			item->result.is_transient = false;
	}
}

static int judge_push(struct transfer *transfer, const push_items *items,
		      const answers *list, const struct proc_result *ended,
		      struct err *err)
{
	size_t held_up = find_held_up(items, list);
	bool is_unpacking = is_any_unpacking(list);

	if (list->count == 0)
		return judge_silence(transfer, items, ended, err);
	if (is_unpacking && push_report_is_local(ended->tail, &transfer->local_fault))
		return judge_local(transfer, items, err);
	/* A destination that is short of memory is not asked again at once. */
	if (held_up > 1 && transfer->splits < SPLITS && !takes_nothing(transfer) &&
	    (!is_unpacking || git_message_is_unwanted(ended->tail)) &&
	    push_report_unpacking(ended->tail, ERR_IGNORED) == 0)
		return split_held_up(transfer, items, list, ended->tail, err);
	take_answers(transfer, items, list, ended->tail);
	judge_held_up(transfer, items, held_up, ended->tail);
	return is_unpacking ? push_report_unpacking(ended->tail, err) : 0;
}

int transfer_push(struct transfer *transfer, const push_items *items, struct err *err)
{
	struct push_command command = { 0 };
	AUTO_STR struct str output = STR_INIT;
	answers list = { 0 };
	struct proc_result ended;
	int status;

	if (need_view(transfer, err) != 0 || fill_view(transfer, items, err) != 0)
		return -1;
	make_command(transfer, items, &command);
	status = call_git(transfer, command.args.items, &output, &ended, err);
	text_list_clear(&command.owned);
	vec_clear(&command.args);
	transfer->result->pushes++;
	transfer->result->sent_bytes += git_message_sent(ended.tail);
	/* Ended from outside: what git said by then says nothing of the refs. */
	if (status != 0 && (err->class == ERR_LOST || err->class == ERR_CANCELED))
		return -1;
	read_answers(transfer, output.data, &list);
	status = judge_push(transfer, items, &list, &ended, err);
	transfer->has_bulk |= list.count > 0 && is_bulk(transfer, items);
	vec_clear(&list);
	return status;
}

#define LOOKS 4            /* the first, and three more when it changes meanwhile */
#define LEASES 1000        /* in one push: they are arguments */
#define LEASE_BYTES 500000 /* of 2 MiB that Linux allows with the usual stack */
#define LEASE_OVERHEAD 128 /* of an argument: option, value, the deletion, pointers */

/* Reads the local refs. */
static int transfer_read(struct transfer *transfer, struct err *err)
{
	const char *path = transfer->request->repository;

	ref_reading_clear(&transfer->local);
	if (ref_reading_take_refs(AT_FDCWD, path, &transfer->local, err) == 0)
		return 0;
	return outcome_is_local(err, path);
}

int transfer_check_limits(const struct transfer *transfer, struct err *err)
{
	const struct git_work *work = transfer->request->work;

	if (work->stop && stop_is_requested(work->stop))
		return err_set(err, ERR_CANCELED, "the push was stopped");
	if (work->deadline && deadline_at(work->deadline) <= clock_boot_ms())
		return err_set(err, ERR_LOST, "the lease was lost");
	return 0;
}

/* How many of the items from `from` on go into one push. */
static size_t batch_of(const struct transfer *transfer, const push_items *items,
		       size_t from)
{
	bool has_leases = items->items[from]->state == ITEM_LEASED;
	size_t limit = transfer->remote->batch_size, count = 0, bytes = 0;

	if (limit == 0)
		limit = SIZE_MAX;
	if (has_leases && limit > LEASES)
		limit = LEASES;
	while (count < limit && from + count < items->count) {
		bytes += 2 * strlen(items->items[from + count]->result.dst) +
			 LEASE_OVERHEAD;
		if (has_leases && count > 0 && bytes > LEASE_BYTES)
			break;
		count++;
	}
	return count;
}

static int push_in_batches(struct transfer *transfer, const push_items *items,
			   struct err *err)
{
	push_items batch;

	for (size_t from = 0; from < items->count; from += batch.count) {
		batch = (push_items){ .items = items->items + from };
		batch.count = batch_of(transfer, items, from);
		if (transfer_check_limits(transfer, err) != 0 ||
		    transfer_push(transfer, &batch, err) != 0)
			return -1;
	}
	return 0;
}

static void transfer_collect_items(const struct transfer *transfer, enum item_state state,
				   bool is_deletion, push_items *items)
{
	for (size_t i = 0; i < transfer->items.count; i++) {
		struct push_item *item = &transfer->items.items[i];
		if (item->state == state && item->result.is_deletion == is_deletion)
			vec_add(items, item);
	}
}

static int push_state(struct transfer *transfer, enum item_state state, struct err *err)
{
	push_items items = { 0 };
	int status;

	transfer_collect_items(transfer, state, true, &items); /* they make room */
	transfer_collect_items(transfer, state, false, &items);
	status = push_in_batches(transfer, &items, err);
	vec_clear(&items);
	return status;
}

static bool is_any_leased(const struct transfer *transfer)
{
	for (size_t i = 0; i < transfer->items.count; i++)
		if (transfer->items.items[i].state == ITEM_LEASED)
			return true;
	return false;
}

/* The look comes before the reading: whatever the destination has got from us by then was
 * read earlier still, so what we push now is as new at least. */
static int look_and_read(struct transfer *transfer, struct err *err)
{
	if (transfer_check_limits(transfer, err) != 0 ||
	    transfer_look(transfer, err) != 0 || transfer_read(transfer, err) != 0)
		return -1;
	transfer_renew(transfer);
	return 0;
}

static int push_leased(struct transfer *transfer, struct err *err)
{
	for (int looks = 0; looks < LOOKS && is_any_leased(transfer); looks++) {
		if ((!transfer->is_seen || transfer->is_stale) &&
		    look_and_read(transfer, err) != 0)
			return -1;
		transfer->is_stale = false;
		transfer_compare(transfer);
		failpoint("transfer.compared");
		if (push_state(transfer, ITEM_LEASED, err) != 0)
			return -1;
	}
	return 0;
}

/* A full one looks before all else, and pushes only what differs. */
static int transfer_prepare(struct transfer *transfer, struct err *err)
{
	transfer->here = transfer_here_open(transfer);
	transfer->http = transfer_http_open(transfer);
	if (transfer_read(transfer, err) != 0)
		return -1;
	if (transfer->is_all && !transfer->is_seen &&
	    (transfer_look(transfer, err) != 0 || transfer_read(transfer, err) != 0))
		return -1;
	transfer_plan(transfer);
	return 0;
}

static int transfer_prepare_and_push(struct transfer *transfer, struct err *err)
{
	if (transfer_prepare(transfer, err) != 0 ||
	    (transfer->here && transfer_here_push(transfer, transfer->here, err) != 0) ||
	    (transfer->http && transfer_http_push(transfer, transfer->http, err) != 0) ||
	    push_state(transfer, ITEM_PLAIN, err) != 0)
		return -1;
	return push_leased(transfer, err);
}

static void give_result(struct push_item *item, struct transfer_result *result)
{
	if (item->state == ITEM_DROPPED)
		return;
	if (item->state != ITEM_DONE && !item->result.text) {
		item->result.status = REF_NOT_ATTEMPTED;
		item->result.is_transient = true;
	}
	vec_add(&result->refs, item->result);
	item->result = (struct ref_result){ 0 };
}

/* Whether nothing but broken objects here stood against it. */
static bool is_all_local_fault(const struct transfer *transfer)
{
	for (size_t i = 0; i < transfer->items.count; i++)
		if (!transfer->items.items[i].is_unreadable)
			return false;
	return transfer->local_fault.class != ERR_NONE;
}

/* At a path here: what is found to be there may have come by a push that was killed or
 * failed before it was synced. In a full one that shows in no item. */
static bool may_be_unsynced(const struct transfer *transfer)
{
	if (transfer->has_bulk || transfer->request->destination->kind != URL_LOCAL ||
	    !transfer->request->is_retry)
		return transfer->has_bulk;
	for (size_t i = 0; i < transfer->items.count; i++)
		if (transfer->items.items[i].result.status == REF_UP_TO_DATE)
			return true;
	return transfer->is_all;
}

/* Git also finds PATH.git by its path. */
static int sync_destination(const struct transfer *transfer, struct err *err)
{
	const char *path = transfer->request->destination->path;
	AUTO_FREE char *other = xasprintf("%s.git", path);
	AUTO_CLOSE int fd = dir_open(AT_FDCWD, path, err);

	if (fd < 0 && dir_is_absent(err->sys_errno))
		fd = dir_open(AT_FDCWD, other, err);
	if (fd < 0)
		return -1;
	return syncfs(fd) == 0 ? 0 : err_errno(err, "cannot sync %s", path);
}

int transfer_run(const struct transfer_request *request, struct transfer_result *result,
		 struct err *err)
{
	struct transfer transfer = {
		.request = request,
		.result = result,
		.remote = request->destination->remote,
		.view = VIEW_INIT,
		.is_all = request->refs->count == 1 &&
			  strcmp(request->refs->items[0], TASK_ALL_REFS) == 0,
	};
	int status;

	*result = (struct transfer_result){ 0 };
	transfer_open(&transfer);
	status = transfer_prepare_and_push(&transfer, err);
	if (status == 0 && is_all_local_fault(&transfer)) {
		*err = transfer.local_fault;
		status = -1;
	}
	if (status == 0 && may_be_unsynced(&transfer))
		status = sync_destination(&transfer, err);
	for (size_t i = 0; i < transfer.items.count; i++)
		give_result(&transfer.items.items[i], result);
	transfer_close(&transfer);
	return status;
}

void ref_results_clear(ref_results *results)
{
	for (size_t i = 0; i < results->count; i++) {
		free(results->items[i].ref);
		free(results->items[i].dst);
		free(results->items[i].text);
	}
	vec_clear(results);
}

void transfer_result_clear(struct transfer_result *result)
{
	ref_results_clear(&result->refs);
	*result = (struct transfer_result){ 0 };
}
