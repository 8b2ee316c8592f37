/*
 * libFuzzer: of anything that a receive-pack may say of a push, with bands or without,
 * what counts as taken is in order, each once, and stands in it; what is no whole report
 * takes nothing, and of the beginning of a report nothing is taken.
 */
#include <assert.h>

#include "git/push_answer.h"

static void check_taken(const text_list *taken)
{
	for (size_t i = 0; i < taken->count; i++) {
		assert(taken->items[i][0] != '\0');
		assert(i == 0 || strcmp(taken->items[i - 1], taken->items[i]) < 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	for (int has_bands = 0; has_bands < 2; has_bands++) {
		text_list taken = { 0 };
		struct err err = { 0 };
		int result = push_answer_read((const char *)data, len, has_bands, &taken,
					      &err);
		check_taken(&taken);
		if (result != 0) {
			assert(taken.count == 0 && err.class != ERR_NONE && err.text[0]);
			continue;
		}
		for (size_t i = 0; !has_bands && i < taken.count; i++)
			assert(memmem(data, len, taken.items[i], strlen(taken.items[i])));
		text_list_clear(&taken);
		assert(push_answer_read((const char *)data, len - 1, has_bands, &taken,
					&err) != 0);
		assert(taken.count == 0);
	}
	return 0;
}
