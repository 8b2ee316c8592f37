/*
 * libFuzzer: any file of a replication task is refused with an error, or read; what was
 * read is whole, and reads the same when it is written down again, in order or not.
 *	clang -std=gnu17 -D_GNU_SOURCE -g -O1 -fsanitize=fuzzer,address,undefined -Isrc \
 *		tests/fuzz/fuzz_task.c src/push/{java_order,task,task_json}.c \
 *		src/base/{clock,err,hash,json,log,map,mem,str,thread}.c -ljansson -lcrypto
 */
#include <assert.h>

#include "push/task.h"

static void assert_same(const struct task *one, const struct task *two)
{
	assert(strcmp(one->project, two->project) == 0);
	assert(strcmp(one->uri, two->uri) == 0);
	assert(strcmp(one->remote, two->remote) == 0);
	assert(one->refs.count == two->refs.count);
	for (size_t i = 0; i < one->refs.count; i++)
		assert(strcmp(one->refs.items[i], two->refs.items[i]) == 0);
}

static void assert_reads_the_same(const struct task *task)
{
	AUTO_TASK struct task again = { 0 };
	AUTO_STR struct str text = STR_INIT;
	struct err err;

	task_write(task, &text);
	assert(text.len > 0 && text.data[text.len - 1] == '\n');
	int result = task_read(text.data, text.len, &again, &err);
	assert(result == 0);
	assert_same(task, &again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	AUTO_TASK struct task task = { 0 };
	char key[TASK_KEY_SIZE], again[TASK_KEY_SIZE];
	struct err err = { 0 };

	if (task_read((const char *)data, len, &task, &err) != 0) {
		assert(err.class == ERR_CORRUPT && !task.project && task.refs.count == 0);
		return 0;
	}
	assert(task.project[0] && task.uri[0] && task.remote[0] && task.refs.count > 0);
	assert_reads_the_same(&task);
	task_order(&task);
	assert(task.refs.count > 0);
	task_key(&task, key);
	task_key(&task, again);
	assert(strlen(key) == 40 && strcmp(key, again) == 0);
	assert_reads_the_same(&task);
	return 0;
}
