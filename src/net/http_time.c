#include "net/http_time.h"

bool http_time_parse_iso(const char *text, int64_t *wall_ms)
{
	struct tm tm = { 0 };
	const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	int64_t ms = 0;

	if (rest && rest[0] == '.') {
		rest++;
		for (int scale = 100; scale > 0; scale /= 10, rest++) {
			if (*rest < '0' || *rest > '9')
				return false;
			ms += scale * (*rest - '0');
		}
	}
	if (!rest || strcmp(rest, "Z") != 0)
		return false;
	*wall_ms = (int64_t)timegm(&tm) * 1000 + ms;
	return true;
}
