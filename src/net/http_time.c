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

void http_time_format(int64_t wall_ms, char text[HTTP_TIME_SIZE])
{
	static const char days[] = "SunMonTueWedThuFriSat";
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	time_t seconds = (time_t)(wall_ms / 1000);
	struct tm tm = { .tm_mday = 1, .tm_year = 70 };

	gmtime_r(&seconds, &tm);
	snprintf(text, HTTP_TIME_SIZE, "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT",
		 days + 3 * tm.tm_wday, tm.tm_mday, months + 3 * tm.tm_mon,
		 tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
}
