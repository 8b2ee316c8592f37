/*
 * Two tables of fixed size, so that guesses push out guesses only. A place is found by
 * the key, which nobody outside can foresee; of a few places the one that ends first is
 * given up.
 */
#include "web/password_memory.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "base/str.h"

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

struct password_memory *password_memory_new(void)
{
	struct password_memory *memory = xcalloc(1, sizeof(*memory));

	if (RAND_bytes(memory->secret, sizeof(memory->secret)) != 1)
		abort();
	return memory;
}

void password_memory_free(struct password_memory *memory)
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

void password_memory_key(const struct password_memory *memory, const char *user,
			 const char *password, unsigned char key[PASSWORD_KEY_SIZE])
{
	AUTO_STR struct str text = STR_INIT;

	/* At once, so that no copy stays behind where it grew. */
	str_reserve(&text, strlen(user) + 1 + strlen(password));
	str_addf(&text, "%s:%s", user, password);
	password_memory_digest(memory, &text, key);
	explicit_bzero(text.data, text.len);
}

size_t password_memory_pick(const struct password_memory *memory, const char *user,
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

bool password_memory_know(const struct password_memory *memory,
			  const unsigned char key[PASSWORD_KEY_SIZE], int64_t now_ms,
			  bool *is_good)
{
	*is_good = password_memory_has_key(&memory->good, key, now_ms);
	return *is_good || password_memory_has_key(&memory->wrong, key, now_ms);
}

void password_memory_note(struct password_memory *memory,
			  const unsigned char key[PASSWORD_KEY_SIZE], int64_t now_ms,
			  bool is_good)
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

void password_memory_forget(struct password_memory *memory)
{
	memory->good = (struct table){ 0 };
	memory->wrong = (struct table){ 0 };
}
