/*
 * The text goes as quoted-printable (RFC 2045, 6.7): lines of any length and any UTF-8
 * pass every server. libcurl doubles dots at the beginnings of lines.
 */
#include "net/mail.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <curl/curl.h>

#include "base/clock.h"
#include "base/file.h"
#include "net/http.h"

#define LINE_MOST 76 /* RFC 2045 */
#define WAIT_MS 1000
#define ADDRESS_MOST 254

struct mail_sending {
	const struct mail_request *request;
	struct http_line line;
	CURL *easy;
	struct curl_slist *recipients;
	struct str text;
	size_t given; /* of the text */
	char detail[CURL_ERROR_SIZE];
	int64_t until; /* boot ms */
};

/* Behind the scheme; NULL: it is another one. */
static const char *mail_find_host(const char *server)
{
	return text_starts_with(server, "smtps://")  ? server + strlen("smtps://")
	       : text_starts_with(server, "smtp://") ? server + strlen("smtp://")
						     : NULL;
}

const char *mail_check_server(const char *server)
{
	const char *host = mail_find_host(server);

	if (!host)
		return "it begins neither with smtps:// nor with smtp://";
	if (strchr(host, '@'))
		return "the URL has a user's name: set userName and passwordFile";
	for (const char *at = host; *at; at++)
		if (!isalnum((unsigned char)*at) && !strchr(".-_:[]", *at))
			return "it must be a host, and a port if it is another one than "
			       "usual";
	return host[0] ? NULL : "it names no host";
}

/* By the whole address: a name may begin with "127." as well. */
static bool mail_is_loopback(const char *address)
{
	struct in_addr four;
	struct in6_addr six;

	if (inet_pton(AF_INET, address, &four) == 1)
		return ntohl(four.s_addr) >> 24 == IN_LOOPBACKNET;
	return inet_pton(AF_INET6, address, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

bool mail_is_near(const char *server)
{
	const char *host = mail_find_host(server);
	char address[INET6_ADDRSTRLEN];
	size_t len;

	if (!host)
		return false;
	const bool has_brackets = host[0] == '[';
	host += has_brackets;
	len = strcspn(host, has_brackets ? "]" : ":");
	const char *behind = host + len + has_brackets;
	if (len >= sizeof(address) || (has_brackets && host[len] != ']') ||
	    (*behind != '\0' && *behind != ':'))
		return false;
	memcpy(address, host, len);
	address[len] = '\0';
	return mail_is_loopback(address) || strcmp(address, "localhost") == 0;
}

bool mail_is_address(const char *text)
{
	const char *at = strrchr(text, '@');

	if (!at || at == text || !at[1] || strlen(text) > ADDRESS_MOST || text[0] == '-')
		return false;
	for (; *text; text++)
		if (!isgraph((unsigned char)*text) || strchr("<>()[],;:\\\"", *text))
			return false;
	return true;
}

static void mail_add_quoted(const char *text, struct str *out)
{
	size_t column = 0;

	for (; *text; text++) {
		const unsigned char c = (unsigned char)*text;
		const bool ends_line = text[1] == '\n' || text[1] == '\0';
		const bool is_plain =
			(c >= '!' && c <= '~' && c != '=') || (c == ' ' && !ends_line);
		if (c == '\n') {
			str_add(out, "\r\n");
			column = 0;
			continue;
		}
		if (column + 3 > LINE_MOST - 1) {
			str_add(out, "=\r\n");
			column = 0;
		}
		if (is_plain)
			str_add_char(out, (char)c);
		else
			str_addf(out, "=%02X", c);
		column += is_plain ? 1 : 3;
	}
}

static void mail_add_plain(const char *text, struct str *out)
{
	for (; *text; text++)
		str_add_char(out, *text >= ' ' && *text <= '~' ? *text : '?');
}

static void mail_add_date(int64_t wall_ms, struct str *out)
{
	char text[CLOCK_HTTP_SIZE];

	clock_format_http(wall_ms, text); /* as RFC 5322 has it, but for the zone */
	str_addf(out, "Date: %.25s +0000\r\n", text);
}

void mail_render(const struct mail_request *request, int64_t wall_ms, struct str *out)
{
	char id[33];

	random_hex(id, (sizeof(id) - 1) / 2);
	mail_add_date(wall_ms, out);
	str_addf(out, "From: %s\r\nTo: ", request->from);
	for (size_t i = 0; i < request->to_count; i++)
		str_addf(out, "%s%s", i > 0 ? ",\r\n " : "", request->to[i]);
	str_add(out, "\r\nSubject: ");
	mail_add_plain(request->subject, out);
	str_addf(out,
		 "\r\nMessage-ID: <%s@%s>\r\n"
		 "Auto-Submitted: auto-generated\r\n"
		 "MIME-Version: 1.0\r\n"
		 "Content-Type: text/plain; charset=UTF-8\r\n"
		 "Content-Transfer-Encoding: quoted-printable\r\n\r\n",
		 id, strrchr(request->from, '@') + 1);
	mail_add_quoted(request->text, out);
}

/* CURLOPT_READFUNCTION */
static size_t mail_give_text(char *buffer, size_t size, size_t count, void *arg)
{
	struct mail_sending *sending = arg;
	size_t left = sending->text.len - sending->given;
	size_t most = size * count < left ? size * count : left;

	memcpy(buffer, sending->text.data + sending->given, most);
	sending->given += most;
	return most;
}

static void mail_set_security(const struct mail_sending *sending)
{
	const struct mail_request *request = sending->request;
	const bool is_near = mail_is_near(request->server);
	CURL *easy = sending->easy;

	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "smtp,smtps");
	curl_easy_setopt(
		easy, CURLOPT_USE_SSL,
		(long)(is_near && !request->ca_file ? CURLUSESSL_NONE : CURLUSESSL_ALL));
	if (request->ca_file) {
		curl_easy_setopt(easy, CURLOPT_CAINFO, request->ca_file);
		curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
	}
	if (request->user) {
		curl_easy_setopt(easy, CURLOPT_USERNAME, request->user);
		curl_easy_setopt(easy, CURLOPT_PASSWORD, request->password);
	}
}

static void mail_set_options(struct mail_sending *sending)
{
	const struct mail_request *request = sending->request;
	CURL *easy = sending->easy;

	for (size_t i = 0; i < request->to_count; i++)
		sending->recipients =
			curl_slist_append(sending->recipients, request->to[i]);
	curl_easy_setopt(easy, CURLOPT_URL, request->server);
	curl_easy_setopt(easy, CURLOPT_PROXY, "");
	curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, sending->detail);
	curl_easy_setopt(easy, CURLOPT_MAIL_FROM, request->from);
	curl_easy_setopt(easy, CURLOPT_MAIL_RCPT, sending->recipients);
	curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
	curl_easy_setopt(easy, CURLOPT_READFUNCTION, mail_give_text);
	curl_easy_setopt(easy, CURLOPT_READDATA, sending);
	curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)sending->text.len);
	mail_set_security(sending);
}

/* Until it has ended, with *code, libcurl's. */
static int mail_run(struct mail_sending *sending, CURLcode *code, struct err *err)
{
	const struct stop *stop = sending->request->stop;
	struct curl_waitfd watched = { .fd = stop ? stop->fd : -1,
				       .events = CURL_WAIT_POLLIN };
	const CURLMsg *message;
	int running, left;

	for (;;) {
		if (curl_multi_perform(sending->line.multi, &running) != CURLM_OK)
			return err_set(err, ERR_INTERNAL, "the mail cannot be sent");
		message = curl_multi_info_read(sending->line.multi, &left);
		if (message && message->msg == CURLMSG_DONE) {
			*code = message->data.result;
			return 0;
		}
		if (stop && stop_is_requested(stop))
			return err_set(err, ERR_CANCELED, "the mail was stopped");
		if (clock_boot_ms() >= sending->until)
			return err_set(err, ERR_TIMEOUT,
				       "%s has not taken the mail in "
				       "time",
				       sending->request->server);
		curl_multi_poll(sending->line.multi, &watched, stop ? 1 : 0, WAIT_MS,
				NULL);
	}
}

static enum err_class mail_classify(CURLcode code, long answer)
{
	switch (code) {
	case CURLE_LOGIN_DENIED:
		return ERR_AUTH;
	case CURLE_OPERATION_TIMEDOUT:
		return ERR_TIMEOUT;
	case CURLE_USE_SSL_FAILED:
		return ERR_CONFIG;
	default:
		return answer >= 500 ? ERR_CONFIG : ERR_NETWORK;
	}
}

static const char *mail_choose_remedy(CURLcode code, long answer)
{
	switch (code) {
	case CURLE_LOGIN_DENIED:
		return "check userName and passwordFile of the alert";
	case CURLE_USE_SSL_FAILED:
		return "use smtps://, or have the server offer STARTTLS";
	case CURLE_PEER_FAILED_VERIFICATION:
		return "check the server's certificate; the one of your own CA goes into "
		       "caFile";
	default:
		return answer >= 400 ? "see the server's log; check from, mail and "
				       "userName of the alert"
				     : "check smtp of the alert, and that the server "
				       "runs there";
	}
}

static int mail_judge(const struct mail_sending *sending, CURLcode code, int *answer,
		      struct err *err)
{
	long said = 0;

	curl_easy_getinfo(sending->easy, CURLINFO_RESPONSE_CODE, &said);
	*answer = (int)said;
	if (code == CURLE_OK)
		return 0;
	err_set(err, mail_classify(code, said), "%.100s does not take the mail: %.250s",
		sending->request->server,
		sending->detail[0] ? sending->detail : curl_easy_strerror(code));
	return err_remedy(err, "%s", mail_choose_remedy(code, said));
}

int mail_send(const struct mail_request *request, int *code, struct err *err)
{
	struct mail_sending sending = { .request = request,
					.line = http_line_open(),
					.text = STR_INIT,
					.until = clock_boot_ms() + request->timeout_ms };
	CURLcode ended = CURLE_OK;
	int result;

	sending.easy = curl_easy_init();
	if (!sending.easy)
		abort();
	mail_render(request, clock_wall_ms(), &sending.text);
	mail_set_options(&sending);
	curl_multi_add_handle(sending.line.multi, sending.easy);
	result = mail_run(&sending, &ended, err);
	if (result == 0)
		result = mail_judge(&sending, ended, code, err);
	curl_multi_remove_handle(sending.line.multi, sending.easy);
	curl_easy_cleanup(sending.easy);
	curl_slist_free_all(sending.recipients);
	http_line_close(&sending.line);
	str_clear(&sending.text);
	return result;
}
