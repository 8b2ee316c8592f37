#include "net/transport.h"

#include <pthread.h>

#define PROBE_S 5L /* of a silent connection, whether its other end is still there */

static void start_curl(void)
{
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		abort();
}

void transport_start(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, start_curl);
}

/* QUICK_EXIT: a request that ends while a name is being looked up does not wait for the
 * system's resolver. PATH_AS_IS: what was signed, or what the client asked for, is what
 * is sent. */
void transport_set(CURL *easy, const char *url, int64_t connect_ms)
{
	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_PROXY, "");
	curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
	curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_HTTP09_ALLOWED, 0L);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
	curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, PROBE_S);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, PROBE_S);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)connect_ms);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, "refrelay/" REFRELAY_VERSION);
}

const char *transport_remedy(CURLcode code)
{
	switch (code) {
	case CURLE_PEER_FAILED_VERIFICATION:
		return "see whether its certificate is over or for another name; that "
		       "of an authority of your own goes into /usr/local/share/"
		       "ca-certificates (NAME.crt), then run update-ca-certificates";
	case CURLE_COULDNT_RESOLVE_HOST:
		return "see whether the host's name in the URL is right, and the name "
		       "service of this machine works";
	case CURLE_COULDNT_CONNECT:
		return "see whether refrelay runs there and listens on that address";
	case CURLE_OPERATION_TIMEDOUT:
		return "see whether that machine is up and a firewall lets its port pass";
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_WEIRD_SERVER_REPLY:
		return "see whether the URL names another service";
	default:
		return NULL;
	}
}
