/*
 * Which command a mistyped word was meant to be: the one that takes the fewest letters to
 * be put in, left out or exchanged.
 */
#include "cli/cli.h"

#define WORD_MOST 31
#define CHANGES_MOST 2

static size_t nearest_least_of(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Row by row of the usual table; `row` is of the letters of `word` so far. */
static size_t changes_between(const char *word, const char *other)
{
	size_t len = strlen(other), row[WORD_MOST + 1];

	for (size_t i = 0; i <= len; i++)
		row[i] = i;
	for (; *word; word++) {
		size_t before = row[0]++;
		for (size_t i = 1; i <= len; i++) {
			size_t exchanged = before + (*word != other[i - 1]);
			before = row[i];
			row[i] = nearest_least_of(
				exchanged, nearest_least_of(before, row[i - 1]) + 1);
		}
	}
	return row[len];
}

const char *cli_nearest_command(const char *word)
{
	const char *nearest = NULL;
	size_t fewest = CHANGES_MOST + 1;

	for (const struct command *command = commands; command->name; command++) {
		if (!command->run || strlen(command->name) > WORD_MOST)
			continue;
		size_t changes = changes_between(word, command->name);
		if (changes < fewest && changes < strlen(command->name) - 1) {
			fewest = changes;
			nearest = command->name;
		}
	}
	return nearest;
}
