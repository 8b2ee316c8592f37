#include "base/clock.h"
#include "web/exchange_parts.h"
#include "web/services.h"

struct log_context exchange_enter_log(const struct exchange *exchange)
{
	return log_set_context((struct log_context){
		.site = exchange->server->services->site, .peer = exchange->peer });
}

static const char *end_name(const struct exchange *exchange)
{
	if (exchange->end == FLOW_BROKEN)
		return "broken";
	return exchange->is_whole || exchange->end == FLOW_WHOLE ? "whole"
								 : "client_gone";
}

/* The client's part in a bad end is nothing that an operator must hear of. */
static enum log_level level_of(const struct exchange *exchange)
{
	bool is_ours = exchange->end == FLOW_BROKEN ||
		       (exchange->status >= 500 && !exchange->response.is_expected);

	return is_ours && !stop_is_requested(&exchange->server->stop) ? LOG_LEVEL_WARN
								      : LOG_LEVEL_DEBUG;
}

void exchange_log(const struct exchange *exchange)
{
	const struct err *err = &exchange->err;
	enum log_level level = level_of(exchange);

	if (!log_is_on(level))
		return;
	struct log_field fields[] = {
		LOG_NUMBER("dur_ms", clock_boot_ms() - exchange->begun_at),
		LOG_TEXT("method", exchange->method),
		LOG_TEXT("target", exchange->target.raw),
		LOG_NUMBER("status", exchange->status),
		LOG_TEXT("end", end_name(exchange)),
		LOG_ERR(err),
		{ 0 },
	};

	if (err->class == ERR_NONE)
		fields[5] = (struct log_field){ 0 };
	log_write(level, "http.request", fields);
}
