#include "push/target.h"

#include "base/clock.h"
#include "git/refs.h"
#include "push/target_kinds.h"

enum action { CREATE, SET_HEAD, DESTROY };

struct order {
	enum action action;
	const char *head;
	size_t oid_len;
};

int64_t target_timeout_ms(const struct target_call *call)
{
	int64_t timeout_ms = call->settings->ssh_command_ms;

	if (timeout_ms <= 0)
		timeout_ms = call->destination->remote->silence_ms;
	if (call->work->until == 0)
		return timeout_ms;
	int64_t left = call->work->until - clock_boot_ms();
	left = left > 0 ? left : 1;
	return timeout_ms <= 0 || left < timeout_ms ? left : timeout_ms;
}

static int no_way(const struct destination *destination, struct err *err)
{
	err_set(err, ERR_CONFIG,
		"cannot make, delete or set HEAD of a repository by this URL: %s",
		destination->uri);
	err_because(err, REASON_NO_WAY);
	return err_remedy(err,
			  "give remote.%.80s.adminUrl a way by ssh, gerrit+ssh or "
			  "gerrit+https, or make the repository there yourself",
			  destination->remote->name);
}

static const struct target_kind *push_target_find_kind(
	const struct destination *destination)
{
	switch (destination->kind) {
	case URL_LOCAL:
		return &target_local;
	case URL_SSH:
		return &target_ssh;
	case URL_GERRIT_SSH:
		return &target_gerrit_ssh;
	case URL_GERRIT_HTTP:
		return &target_gerrit_http;
	case URL_GIT:
	case URL_HTTP:
	case URL_OTHER:
		break;
	}
	return NULL;
}

bool target_has_way(const struct destination *destination)
{
	return push_target_find_kind(destination) != NULL;
}

static int push_target_perform(const struct target_call *call, const struct order *order,
			       struct err *err)
{
	const struct target_kind *kind = push_target_find_kind(call->destination);

	if (!kind)
		return no_way(call->destination, err);
	switch (order->action) {
	case CREATE:
		return kind->create(call, order->head, order->oid_len, err);
	case SET_HEAD:
		return kind->set_head(call, order->head, err);
	case DESTROY:
		return kind->destroy(call, err);
	}
	return -1;
}

/* One place that cannot make it keeps no other from having it. */
static int create_everywhere(const struct target_call *call, const struct order *order,
			     const destination_list *admins, struct err *err)
{
	struct err later;
	int result = 0;

	for (size_t i = 0; i < admins->count; i++) {
		struct target_call one = *call;
		one.destination = &admins->items[i];
		if (push_target_perform(&one, order, result == 0 ? err : &later) == 0)
			continue;
		result = -1;
	}
	return result;
}

/* The first failure ends it, and it is all tried again. But where there is no such
 * repository nothing is left to do: that is the answer only if it is so everywhere. */
static int act_everywhere(const struct target_call *call, const struct order *order,
			  struct err *err)
{
	AUTO_DESTINATIONS destination_list admins = { 0 };
	size_t missing = 0;

	if (destination_admin(call->destination, &admins, err) != 0)
		return -1;
	if (order->action == CREATE)
		return create_everywhere(call, order, &admins, err);
	for (size_t i = 0; i < admins.count; i++) {
		struct target_call one = *call;
		one.destination = &admins.items[i];
		if (push_target_perform(&one, order, err) == 0)
			continue;
		if (err->class != ERR_MISSING)
			return -1;
		missing++;
	}
	return missing > 0 && missing == admins.count ? -1 : 0;
}

static bool is_head(const char *head)
{
	return head && text_starts_with(head, "refs/") && ref_name_is_valid(head);
}

/* Gerrit leaves HEAD alone, too, where the source's names no ref. */
int target_create(const struct target_call *call, const char *head, size_t oid_len,
		  struct err *err)
{
	struct order order = { CREATE, is_head(head) ? head : NULL, oid_len };

	return act_everywhere(call, &order, err);
}

int target_set_head(const struct target_call *call, const char *head, struct err *err)
{
	struct order order = { SET_HEAD, head, 0 };

	if (!is_head(head)) {
		err_set(err, ERR_CONFIG, "HEAD cannot be made a link to \"%.300s\"",
			head ? head : "");
		err_because(err, REASON_NO_WAY); /* another HEAD is another request */
		return err_remedy(err, "let HEAD of the repository name a branch");
	}
	return act_everywhere(call, &order, err);
}

int target_delete(const struct target_call *call, struct err *err)
{
	struct order order = { DESTROY, NULL, 0 };

	return act_everywhere(call, &order, err);
}

bool target_lacks(const struct target_call *call)
{
	AUTO_DESTINATIONS destination_list admins = { 0 };
	bool lacks = false;

	if (destination_admin(call->destination, &admins, ERR_IGNORED) != 0)
		return false;
	for (size_t i = 0; i < admins.count && !lacks; i++) {
		struct target_call one = *call;
		one.destination = &admins.items[i];
		lacks = admins.items[i].kind == URL_GERRIT_HTTP &&
			target_gerrit_lacks(&one);
	}
	return lacks;
}
