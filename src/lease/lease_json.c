#include "lease/lease_json.h"

json_t *lease_holder_json(const struct lease_holder *holder)
{
	json_t *object = json_object();

	json_put_text(object, "key", holder->key);
	json_put_number(object, "fence", (int64_t)holder->fence);
	json_put_bool(object, "held", holder->held);
	json_put_text(object, "proof", holder->proof);
	json_put_text(object, "node", holder->node);
	json_put_text(object, "boot_id", holder->boot_id);
	json_put_number(object, "pid", holder->pid);
	json_put_text(object, "job", holder->job);
	json_put_text(object, "operation", holder->operation);
	json_put_time(object, "acquired_at", holder->acquired_at);
	json_put_seconds(object, "ttl_left", holder->held ? holder->ttl_left_ms : 0);
	return object;
}
