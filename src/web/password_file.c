/*
 * The file is looked at (stat) at most once a second, when somebody asks who may wait. It
 * is read if that differs from what was seen before the last reading; also if it was
 * changed so shortly before the reading that another change might bear the same time
 * stamp. htpasswd(1) rewrites the file in place: what is read meanwhile is a part of it,
 * and is put right by the next look.
 */
#include "web/password_file.h"

#include <crypt.h>
#include <ctype.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/str.h"
#include "base/thread.h"
#include "web/listen.h"

/* More would hold a processor for half a minute for each guess. */
enum { COST_LEAST = 4, COST_MOST = 17 };

#define SALT_AND_HASH 53
#define BCRYPT_DIGITS "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

static bool is_bcrypt(const char *text)
{
	int cost;

	if (strlen(text) != PASSWORD_HASH_LEN || text[0] != '$' || text[1] != '2' ||
	    !strchr("aby", text[2]) || text[3] != '$' || text[6] != '$' ||
	    !isdigit((unsigned char)text[4]) || !isdigit((unsigned char)text[5]))
		return false;
	cost = 10 * (text[4] - '0') + text[5] - '0';
	return cost >= COST_LEAST && cost <= COST_MOST &&
	       strspn(text + 7, BCRYPT_DIGITS) == SALT_AND_HASH;
}

/* Logs and hooks tell who it was by this name: it must not pass for a token's. */
static bool is_user(const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < len; i++)
		if (iscntrl((unsigned char)name[i]))
			return false;
	return len > 0 && len <= PASSWORD_USER_MAX && text_is_utf8(name, len) &&
	       strcmp(name, "operator") != 0 && !text_starts_with(name, "token ");
}

/* `line` ends in a NUL, and is changed. */
static bool password_list_parse_line(char *line, struct password_list *list)
{
	char *colon = strchr(line, ':');
	struct password_user user = { 0 };

	if (!colon || !is_bcrypt(colon + 1))
		return false;
	*colon = '\0';
	if (!is_user(line) || map_get(&list->by_name, line))
		return false;
	memcpy(user.hash, colon + 1, sizeof(user.hash));
	vec_add(&list->users, user);
	map_put(&list->by_name, line, (void *)list->users.count);
	return true;
}

static void password_list_take_line(const char *text, size_t len, size_t number,
				    struct password_list *list)
{
	while (len > 0 && isspace((unsigned char)text[len - 1]))
		len--;
	if (len == 0 || text[0] == '#')
		return;
	AUTO_FREE char *line = xstrndup(text, len);
	/* What follows a NUL would be lost without a word. */
	if (strlen(line) == len && password_list_parse_line(line, list))
		return;
	if (list->unused++ == 0)
		list->unused_line = number;
}

void password_list_parse(const struct str *text, struct password_list *list)
{
	size_t number = 0, at = 0;

	while (at < text->len) {
		const char *line = text->data + at;
		const char *end = memchr(line, '\n', text->len - at);
		size_t len = end ? (size_t)(end - line) : text->len - at;
		password_list_take_line(line, len, ++number, list);
		at += len + 1;
	}
}

void password_list_clear(struct password_list *list)
{
	for (size_t i = 0; i < list->users.count; i++)
		explicit_bzero(list->users.items[i].hash, PASSWORD_HASH_LEN);
	vec_clear(&list->users);
	map_clear(&list->by_name);
	*list = (struct password_list){ 0 };
}

const struct password_user *password_list_find(const struct password_list *list,
					       const char *name)
{
	size_t place = (size_t)map_get(&list->by_name, name);

	return place > 0 ? &list->users.items[place - 1] : NULL;
}

#define PASSWORD_KEY_SIZE 32

/*
 * Which pairs of user and password were good or wrong, for a while, so that the many
 * requests of one clone cost one bcrypt. Pairs stand there as HMAC-SHA256 with a key that
 * only this process knows; there is place for some thousands. One thread at a time, but
 * password_memory_key() and _pick() for any.
 *
 * Two tables of fixed size, so that guesses push out guesses only. A place is found by
 * the key, which nobody outside can foresee; of a few places the one that ends first is
 * given up.
 */

enum {
	SETS = 512,
	WAYS = 4,
	GOOD_MS = 300000,
	WRONG_MS = 30000,
};

struct entry {
	unsigned char key[PASSWORD_KEY_SIZE];
	int64_t until; /* boot ms; 0: free */
};

struct table {
	struct entry entries[SETS][WAYS];
};

struct password_memory {
	unsigned char secret[32];
	struct table good, wrong;
};

static struct password_memory *password_memory_new(void)
{
	struct password_memory *memory = xcalloc(1, sizeof(*memory));

	if (RAND_bytes(memory->secret, sizeof(memory->secret)) != 1)
		abort();
	return memory;
}

static void password_memory_free(struct password_memory *memory)
{
	if (memory)
		explicit_bzero(memory, sizeof(*memory));
	free(memory);
}

static void password_memory_digest(const struct password_memory *memory,
				   const struct str *text,
				   unsigned char key[PASSWORD_KEY_SIZE])
{
	unsigned len = 0;

	if (!HMAC(EVP_sha256(), memory->secret, sizeof(memory->secret),
		  (const unsigned char *)text->data, text->len, key, &len) ||
	    len != PASSWORD_KEY_SIZE)
		abort();
}

static void password_memory_key(const struct password_memory *memory, const char *user,
				const char *password,
				unsigned char key[PASSWORD_KEY_SIZE])
{
	AUTO_STR struct str text = STR_INIT;

	/* At once, so that no copy stays behind where it grew. */
	str_reserve(&text, strlen(user) + 1 + strlen(password));
	str_addf(&text, "%s:%s", user, password);
	password_memory_digest(memory, &text, key);
	explicit_bzero(text.data, text.len);
}

/* A number below `count` that goes with this user for the life of the memory. */
static size_t password_memory_pick(const struct password_memory *memory, const char *user,
				   size_t count)
{
	AUTO_STR struct str text = STR_INIT;
	unsigned char key[PASSWORD_KEY_SIZE];
	uint64_t number;

	str_add(&text, user); /* without a colon: never the text of a pair */
	password_memory_digest(memory, &text, key);
	memcpy(&number, key, sizeof(number));
	return (size_t)(number % count);
}

static size_t set_of(const unsigned char key[PASSWORD_KEY_SIZE])
{
	uint16_t number;

	memcpy(&number, key, sizeof(number));
	return number % SETS;
}

static bool password_memory_has_key(const struct table *table,
				    const unsigned char key[PASSWORD_KEY_SIZE],
				    int64_t now_ms)
{
	const struct entry *set = table->entries[set_of(key)];

	for (size_t i = 0; i < WAYS; i++)
		if (set[i].until > now_ms &&
		    CRYPTO_memcmp(set[i].key, key, PASSWORD_KEY_SIZE) == 0)
			return true;
	return false;
}

/* False: nothing is known of this pair now. */
static bool password_memory_know(const struct password_memory *memory,
				 const unsigned char key[PASSWORD_KEY_SIZE],
				 int64_t now_ms, bool *is_good)
{
	*is_good = password_memory_has_key(&memory->good, key, now_ms);
	return *is_good || password_memory_has_key(&memory->wrong, key, now_ms);
}

static void password_memory_note(struct password_memory *memory,
				 const unsigned char key[PASSWORD_KEY_SIZE],
				 int64_t now_ms, bool is_good)
{
	struct table *table = is_good ? &memory->good : &memory->wrong;
	struct entry *set = table->entries[set_of(key)];
	struct entry *place = set;

	for (size_t i = 1; i < WAYS; i++)
		if (set[i].until < place->until)
			place = &set[i];
	memcpy(place->key, key, PASSWORD_KEY_SIZE);
	place->until = now_ms + (is_good ? GOOD_MS : WRONG_MS);
}

static void password_memory_forget(struct password_memory *memory)
{
	memory->good = (struct table){ 0 };
	memory->wrong = (struct table){ 0 };
}

enum {
	FILE_MAX = 8 << 20,
	LOOK_MS = 1000,
	LOOK_NOW_MS = 2000,
	SETTLE_MS = 2000, /* time stamps of some file systems count whole seconds */
	WAIT_MS = 5000,
	WAITING_MAX = 64,
};

/* One reading. */
struct reading {
	struct stat look;
	bool is_settled;
	unsigned char digest[HASH_MAX_SIZE];
	struct password_list list;
};

struct password_file {
	char *path;
	struct fair *places;            /* of those who compute */
	struct password_memory *memory; /* guarded by mutex, but for its secret */
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	struct reading reading; /* guarded by mutex, as all below */
	uint64_t version;       /* of the list */
	int64_t looked_at;      /* boot ms */
	bool is_looking;        /* a thread does, without the mutex */
	bool is_broken;         /* the last look failed; the list is empty */
};

static int password_file_inspect(const char *path, struct stat *look, struct err *err)
{
	if (stat(path, look))
		return err_errno(err, "%s", path);
	if (!S_ISREG(look->st_mode)) /* to read another kind could take for ever */
		return err_set(err, ERR_CONFIG, "%s is no file", path);
	if (look->st_mode & S_IWOTH) {
		err_set(err, ERR_CONFIG, "everybody can change %s", path);
		return err_remedy(err, "chmod o-w %s, and look who is in it", path);
	}
	return 0;
}

static void reading_clear(struct reading *reading)
{
	password_list_clear(&reading->list);
	*reading = (struct reading){ 0 };
}

static void password_file_digest_text(const struct str *text,
				      unsigned char digest[HASH_MAX_SIZE])
{
	AUTO_HASH struct hash hash;

	hash_init(&hash, HASH_SHA256);
	hash_add(&hash, text->data, text->len);
	hash_end(&hash, digest);
}

/* `look` was taken before, so that a change meanwhile is seen by the next one. */
static int read_list(const char *path, const struct stat *look, struct reading *reading,
		     struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	int64_t now = clock_wall_ms();

	*reading = (struct reading){ .look = *look };
	if (file_read_any(AT_FDCWD, path, FILE_MAX, &text, err))
		return -1;
	reading->is_settled = now - clock_ms(&look->st_ctim) > SETTLE_MS &&
			      now - clock_ms(&look->st_mtim) > SETTLE_MS;
	password_file_digest_text(&text, reading->digest);
	password_list_parse(&text, &reading->list);
	explicit_bzero(text.data, text.len);
	return 0;
}

static void log_list(const char *path, const struct password_list *list)
{
	log_info("access.passwords_read", LOG_TEXT("path", path),
		 LOG_NUMBER("users", list->users.count));
	if (list->unused > 0)
		log_warn("access.password_lines_unused", LOG_TEXT("path", path),
			 LOG_NUMBER("lines", list->unused),
			 LOG_NUMBER("first_line", list->unused_line));
}

int password_file_open(const char *path, struct password_file **file, struct err *err)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	struct reading reading;
	struct stat look;

	if (password_file_inspect(path, &look, err) ||
	    read_list(path, &look, &reading, err)) {
		if (!err->remedy[0])
			err_remedy(err,
				   "make it: htpasswd -B -c %s NAME; the user that "
				   "runs refrelay must be able to read it",
				   path);
		return -1;
	}
	struct password_file *new = xcalloc(1, sizeof(*new));
	new->path = xstrdup(path);
	new->places = fair_new(&(struct fair_limits){
		.places = processors > 0 ? processors : 1, .waiting = WAITING_MAX });
	new->memory = password_memory_new();
	mutex_init(&new->mutex);
	cond_init(&new->changed);
	new->reading = reading;
	new->looked_at = clock_boot_ms();
	log_list(path, &reading.list);
	*file = new;
	return 0;
}

void password_file_close(struct password_file *file)
{
	if (!file)
		return;
	reading_clear(&file->reading);
	password_memory_free(file->memory);
	fair_free(file->places);
	pthread_cond_destroy(&file->changed);
	pthread_mutex_destroy(&file->mutex);
	free(file->path);
	free(file);
}

static void password_file_put_locked(struct password_file *file, struct reading *reading)
{
	reading_clear(&file->reading);
	file->reading = *reading;
	password_memory_forget(file->memory);
	file->version++;
}

/* Both tell whether that is news. */
static bool fail_locked(struct password_file *file)
{
	struct reading nothing = { 0 };
	bool is_new = !file->is_broken;

	file->is_broken = true;
	password_file_put_locked(file, &nothing);
	return is_new;
}

/* Takes the reading. */
static bool password_file_take_locked(struct password_file *file, struct reading *reading)
{
	bool is_new = file->is_broken ||
		      memcmp(reading->digest, file->reading.digest, HASH_MAX_SIZE) != 0;

	file->is_broken = false;
	if (is_new) {
		password_file_put_locked(file, reading);
	} else {
		file->reading.look = reading->look;
		file->reading.is_settled = reading->is_settled;
		reading_clear(reading);
	}
	return is_new;
}

/* `before`: the last look, if it is as good as the file; else NULL. */
static void password_file_refresh(struct password_file *file, const struct stat *before)
{
	struct reading reading = { 0 };
	struct err err = { 0 };
	struct stat look;
	int result = password_file_inspect(file->path, &look, &err);

	if (result == 0 && before && file_is_same(before, &look))
		return;
	if (result == 0)
		result = read_list(file->path, &look, &reading, &err);
	struct password_list said = reading.list; /* numbers alone are used */
	lock(&file->mutex);
	bool is_news =
		result ? fail_locked(file) : password_file_take_locked(file, &reading);
	unlock(&file->mutex);
	if (is_news && result)
		log_error("access.passwords_unreadable", LOG_ERR(&err),
			  LOG_TEXT("path", file->path));
	else if (is_news)
		log_list(file->path, &said);
}

/* False: it takes too long, as on a file server that does not answer. */
static bool look_if_due(struct password_file *file)
{
	int64_t began = clock_boot_ms();
	struct stat before;
	bool is_settled;

	lock(&file->mutex);
	while (file->is_looking && clock_boot_ms() < began + WAIT_MS)
		cond_wait_until(&file->changed, &file->mutex, began + WAIT_MS);
	bool is_late = file->is_looking;
	bool is_due = !is_late && began - file->looked_at >= LOOK_MS;
	file->is_looking = is_late || is_due;
	before = file->reading.look;
	is_settled = file->reading.is_settled && !file->is_broken;
	unlock(&file->mutex);
	if (!is_due)
		return !is_late;
	password_file_refresh(file, is_settled ? &before : NULL);
	lock(&file->mutex);
	file->is_looking = false;
	file->looked_at = began;
	pthread_cond_broadcast(&file->changed);
	unlock(&file->mutex);
	return true;
}

static bool know_locked(const struct password_file *file,
			const unsigned char key[PASSWORD_KEY_SIZE],
			enum password_verdict *verdict)
{
	bool is_good;

	if (!password_memory_know(file->memory, key, clock_boot_ms(), &is_good))
		return false;
	*verdict = is_good ? PASSWORD_GOOD : PASSWORD_WRONG;
	return true;
}

/* The hash to be tried, and whose it is: for who is no user the one of a user, always
 * the same, as that would cost. */
static bool choose_locked(const struct password_file *file, const char *user,
			  char hash[PASSWORD_HASH_LEN + 1])
{
	const struct password_list *list = &file->reading.list;
	const struct password_user *found = password_list_find(list, user);
	const struct password_user *tried = found;

	if (!found && list->users.count > 0)
		tried = &list->users.items[password_memory_pick(file->memory, user,
								list->users.count)];
	memset(hash, 0, PASSWORD_HASH_LEN + 1);
	if (tried)
		memcpy(hash, tried->hash, PASSWORD_HASH_LEN);
	return found;
}

static bool matches(const char *password, const char hash[PASSWORD_HASH_LEN + 1])
{
	struct crypt_data *data = xcalloc(1, sizeof(*data));
	/* Not crypt_r: the sanitizers' own one is linked in its place, and finds none. */
	const char *made = *hash ? crypt_rn(password, hash, data, sizeof(*data)) : NULL;
	bool is_same = made && strlen(made) == PASSWORD_HASH_LEN &&
		       CRYPTO_memcmp(made, hash, PASSWORD_HASH_LEN) == 0;

	explicit_bzero(data, sizeof(*data));
	free(data);
	return is_same;
}

/* Somebody else may have found out about the same pair meanwhile. */
static enum password_verdict password_file_compute_verdict(
	struct password_file *file, const char *user, const char *password,
	const unsigned char key[PASSWORD_KEY_SIZE])
{
	char hash[PASSWORD_HASH_LEN + 1];
	enum password_verdict verdict;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&file->mutex);

	if (know_locked(file, key, &verdict))
		return verdict;
	uint64_t version = file->version;
	bool is_user = choose_locked(file, user, hash);
	unlock(held);
	bool is_good = matches(password, hash) && is_user;
	explicit_bzero(hash, sizeof(hash));
	lock(held);
	if (version == file->version)
		password_memory_note(file->memory, key, clock_boot_ms(), is_good);
	return is_good ? PASSWORD_GOOD : PASSWORD_WRONG;
}

static bool password_file_is_known(struct password_file *file,
				   const unsigned char key[PASSWORD_KEY_SIZE],
				   enum password_verdict *verdict)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&file->mutex);

	return know_locked(file, key, verdict);
}

enum password_verdict password_file_check(struct password_file *file, const char *client,
					  const char *user, const char *password)
{
	unsigned char key[PASSWORD_KEY_SIZE];
	enum password_verdict verdict;
	struct fair_place place;
	struct client names;

	if (!look_if_due(file))
		return PASSWORD_TOO_MANY;
	password_memory_key(file->memory, user, password, key);
	if (password_file_is_known(file, key, &verdict))
		return verdict;
	client_of_address(client, &names);
	if (fair_enter(file->places, &place, &names.names, WAIT_MS, NULL) != FAIR_ENTERED)
		return password_file_is_known(file, key, &verdict) ? verdict
								   : PASSWORD_TOO_MANY;
	verdict = password_file_compute_verdict(file, user, password, key);
	fair_leave(file->places, &place);
	return verdict;
}

enum password_verdict password_file_check_now(struct password_file *file,
					      const char *user, const char *password)
{
	unsigned char key[PASSWORD_KEY_SIZE];
	enum password_verdict verdict = PASSWORD_LATER;

	password_memory_key(file->memory, user, password, key);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&file->mutex);
	if (clock_boot_ms() - file->looked_at <= LOOK_NOW_MS)
		know_locked(file, key, &verdict);
	return verdict;
}
