/*
 * What the tests of git/publish share: publishing a line of refs, and comparing what
 * stock git then says.
 */
#ifndef UNIT_PUBLISH_TEST_H
#define UNIT_PUBLISH_TEST_H

#include "git_test.h"

#include "git/publish.h"

#define WAIT_MS 200

/* From what is there now to these refs, under fence 1. */
static inline int publish_snapshot(const struct ref_snapshot *to)
{
	AUTO_SNAPSHOT struct ref_snapshot from = REF_SNAPSHOT_INIT;

	read_refs(&from);
	return publish(&(struct publish_request){ .dir = repo_fd,
						  .oid_len = 20,
						  .from = &from,
						  .to = to,
						  .fence = 1,
						  .lock_wait_ms = WAIT_MS },
		       &err);
}

static inline int try_publish(const char *line)
{
	AUTO_SNAPSHOT struct ref_snapshot to = REF_SNAPSHOT_INIT;

	refs_of(line, &to);
	return publish_snapshot(&to);
}

/* What `git for-each-ref` should print: object, name, what a tag finally names. */
static inline char *listing_of(const struct ref_snapshot *snapshot)
{
	AUTO_STR struct str text = STR_INIT;

	for (size_t i = 0; i < snapshot->refs.count; i++) {
		const struct ref *named = &snapshot->refs.items[i];
		const struct ref *ref = ref_snapshot_resolve(snapshot, named->name);
		if (!ref)
			continue;
		oid_add_text(&ref->oid, &text);
		str_addf(&text, " %s", named->name);
		if (ref->peel == REF_PEEL_TAG) {
			str_add_char(&text, '\n');
			oid_add_text(&ref->peeled, &text);
			str_addf(&text, " %s^{}", named->name);
		}
		str_add_char(&text, '\n');
	}
	return str_take(&text);
}

/* Stock git agrees: names, objects, peeled values, HEAD, and a clean bill of health. */
static inline void assert_git_sees(const char *line)
{
	AUTO_SNAPSHOT struct ref_snapshot wanted = REF_SNAPSHOT_INIT;
	AUTO_FREE char *listed = output_of("git -C r.git show-ref -d 2>&1 || true");
	AUTO_FREE char *each = output_of("git -C r.git for-each-ref "
					 "--format='%%(objectname) %%(refname)' "
					 "2>/dev/null | sort");
	AUTO_FREE char *shown = output_of("git -C r.git show-ref 2>/dev/null | sort");
	AUTO_FREE char *head = output_of("sed -n 's/^ref: //p' r.git/HEAD | tr -d '\\n'");

	refs_of(line, &wanted);
	AUTO_FREE char *expected = listing_of(&wanted);
	assert_string_equal(listed, expected);
	assert_string_equal(each, shown);
	assert_string_equal(head, wanted.head_target ? wanted.head_target : "");
	must("git -C r.git fsck --connectivity-only --no-dangling >/dev/null 2>&1");
}

/* Publishes, and looks at everything that must be so afterwards. */
static inline void assert_publishes(const char *line)
{
	assert_ok(try_publish(line));
	assert_refs(line);
	assert_git_sees(line);
	assert_nothing_left();
}

/* For a helper: how publish ended, as an exit status. */
static inline int publish_as_helper(const char *line)
{
	return try_publish(line) == 0 ? 0 : 10 + (int)err.class;
}

/* Each word "heads/a=3" becomes a loose ref, as real git would leave it. */
static inline void set_loose(const char *line)
{
	AUTO_FREE char *text = xstrdup(line);
	char *rest = text, *word;

	while ((word = strsep(&rest, " ")) != NULL) {
		char *value = strchr(word, '=');
		*value++ = '\0';
		AUTO_FREE char *name = xasprintf("refs/%s", word);
		AUTO_STR struct str content = STR_INIT;
		struct oid oid = object_of(value);
		oid_add_text(&oid, &content);
		str_add_char(&content, '\n');
		assert_ok(dir_make_parents(repo_fd, name, &err));
		assert_ok(file_replace(repo_fd, name, content.data, content.len,
				       FILE_NO_SYNC, &err));
	}
}

#endif
