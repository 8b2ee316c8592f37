#include "cli/push.h"
#include "push/hand_back.h"

static int print_rest(struct push_call *call, const struct handed_back *done,
		      struct err *err)
{
	struct queue_view view;
	size_t tasks = 0, requests = 0;

	if (queue_view_read(call->push.tasks, call->push.leases, call->push.settings,
			    &view, err) != 0)
		return -1;
	for (size_t i = 0; i < view.uris.count; i++) {
		tasks += view.uris.items[i].waiting;
		for (int k = 0; k < URI_REQUESTS; k++)
			requests += view.uris.items[i].is_requested[k];
	}
	printf("%zu tasks wait: %zu were running, %zu got another name\n", tasks,
	       done->moved, done->renamed);
	if (view.letters.count + requests > 0)
		printf("the plugin sees nothing of: %zu given up, %zu requests for HEAD "
		       "or "
		       "a deletion\n",
		       view.letters.count, requests);
	queue_view_clear(&view);
	return EXIT_DONE;
}

int push_hand_back_run(struct push_call *call, struct err *err)
{
	struct handed_back done;

	if (push_hand_back(call->push.tasks, call->push.leases, &done, err) == 0)
		return print_rest(call, &done, err);
	if (err->class != ERR_BUSY)
		return -1;
	cli_fail(err);
	return EXIT_NOT_OBTAINED;
}
