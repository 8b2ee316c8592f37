#include <curl/curl.h>
#include <git2.h>
#include <gnu/libc-version.h>
#include <gnutls/gnutls.h>
#include <hiredis/hiredis.h>
#include <jansson.h>
#include <jwt.h>
#include <link.h>
#include <microhttpd.h>
#include <openssl/crypto.h>
#include <sqlite3.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <zlib.h>

#include "base/json.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/vec.h"
#include "cli/build_info.h"
#include "cli/cli.h"

struct version_call {
	bool is_json;
};

static const struct cli_option rows[] = {
	CLI_JSON(struct version_call),
	{ 0 },
};

const struct cli_options version_options = {
	.rows = rows,
	.takes = "no operand",
	.column = 10,
	.end = "The object lists the libraries that are loaded, and how the program was "
	       "built.\n",
};

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

#define NUMBER_TEXT(number) #number
#define NUMBER(number) NUMBER_TEXT(number)
#define HIREDIS_TEXT                                                                     \
	NUMBER(HIREDIS_MAJOR) "." NUMBER(HIREDIS_MINOR) "." NUMBER(HIREDIS_PATCH)

/* What a library said of itself then and says now; "": it says nothing. */
static void add_library(json_t *libraries, const char *name, const char *built,
			const char *loaded)
{
	json_t *object = json_object();

	json_put_text(object, "name", name);
	json_put_text(object, "built_with", built[0] ? built : NULL);
	json_put_text(object, "version", loaded[0] ? loaded : NULL);
	json_array_append_new(libraries, object);
}

static void add_libgit2(json_t *libraries)
{
	char loaded[48];
	int major, minor, patch;

	git_libgit2_version(&major, &minor, &patch);
	snprintf(loaded, sizeof(loaded), "%d.%d.%d", major, minor, patch);
	add_library(libraries, "libgit2", LIBGIT2_VERSION, loaded);
}

static void add_pcre2(json_t *libraries)
{
	char loaded[64] = "";

	if (pcre2_config(PCRE2_CONFIG_VERSION, NULL) < (int)sizeof(loaded))
		pcre2_config(PCRE2_CONFIG_VERSION, loaded);
	add_library(libraries, "pcre2", NUMBER(PCRE2_MAJOR) "." NUMBER(PCRE2_MINOR),
		    loaded);
}

static json_t *version_libraries(void)
{
	const curl_version_info_data *curl = curl_version_info(CURLVERSION_NOW);
	json_t *libraries = json_array();

	add_library(libraries, "glibc", NUMBER(__GLIBC__) "." NUMBER(__GLIBC_MINOR__),
		    gnu_get_libc_version());
	add_library(libraries, "gnutls", GNUTLS_VERSION, gnutls_check_version(NULL));
	add_library(libraries, "hiredis", HIREDIS_TEXT, "");
	add_library(libraries, "jansson", JANSSON_VERSION, jansson_version_str());
	add_library(libraries, "libcrypto", OPENSSL_VERSION_STR,
		    OpenSSL_version(OPENSSL_VERSION_STRING));
	add_library(libraries, "libcurl", LIBCURL_VERSION, curl->version);
	add_libgit2(libraries);
	add_library(libraries, "libjwt", "", "");
	add_library(libraries, "libmicrohttpd", "", MHD_get_version());
	add_pcre2(libraries);
	add_library(libraries, "sqlite", SQLITE_VERSION, sqlite3_libversion());
	add_library(libraries, "zlib", ZLIB_VERSION, zlibVersion());
	return libraries;
}

/* The program itself and the kernel's part have no path. */
static int add_loaded(struct dl_phdr_info *info, size_t size, void *data)
{
	text_list *names = data;
	const char *slash = strrchr(info->dlpi_name, '/');

	(void)size;
	if (slash)
		vec_add(names, xstrdup(slash + 1));
	return 0;
}

static json_t *version_loaded(void)
{
	AUTO_TEXT_LIST text_list names = { 0 };
	json_t *loaded = json_array();

	dl_iterate_phdr(add_loaded, &names);
	vec_sort(&names, text_list_order);
	for (size_t i = 0; i < names.count; i++)
		json_array_append_new(loaded, json_string(names.items[i]));
	return loaded;
}

static json_t *version_build(void)
{
	json_t *build = json_object();

	json_put_text(build, "compiler", COMPILER);
	json_put_text(build, "processor", BUILD_PROCESSOR);
	json_put_text(build, "type", BUILD_TYPE);
	json_put_text(build, "optimization", BUILD_OPTIMIZATION);
	json_put_text(build, "sanitizers", BUILD_SANITIZERS);
	json_put_bool(build, "checked_mutexes", BUILD_CHECKED_MUTEXES);
#ifdef _FORTIFY_SOURCE
	json_put_number(build, "fortify", _FORTIFY_SOURCE);
#else
	json_put_number(build, "fortify", 0);
#endif
	json_put_text(build, "libexec", REFRELAY_LIBEXEC);
	return build;
}

static void version_print_json(void)
{
	const curl_version_info_data *curl = curl_version_info(CURLVERSION_NOW);
	json_auto_t *object = json_object();

	json_put_text(object, "version", REFRELAY_VERSION);
	json_put(object, "build", version_build());
	json_put_text(object, "http_client_tls", curl->ssl_version);
	json_put_bool(object, "landlock", proc_can_confine());
	json_put(object, "libraries", version_libraries());
	json_put(object, "loaded", version_loaded());
	json_write(stdout, object);
}

int cli_version(struct cli *cli, char **argv)
{
	struct version_call call = { 0 };
	struct cli_operands operands;
	int status = cli_read_options(cli->command, argv, &call, &operands);

	if (status >= 0)
		return status;
	if (call.is_json)
		version_print_json();
	else
		puts("refrelay " REFRELAY_VERSION);
	return EXIT_DONE;
}
