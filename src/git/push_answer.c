#include "git/push_answer.h"

#include "base/str.h"
#include "git/pkt_line.h"
#include "git/side_band.h"

#define UNPACK "unpack "

static int answer_fail(struct err *err, const char *what)
{
	return err_set(err, ERR_CORRUPT, "the report of the push cannot be read: %s",
		       what);
}

/* The next line without its end, which the caller frees. 1; 0: the end; -1. */
static int next_line(struct pkt_reader *reader, char **text, struct err *err)
{
	const char *line;
	size_t len;
	enum pkt pkt = pkt_next(reader, &line, &len);

	*text = NULL;
	if (pkt == PKT_FLUSH && reader->left == 0)
		return 0;
	if (pkt != PKT_LINE)
		return answer_fail(err, "it was cut short, or goes on behind its end");
	if (len > 0 && line[len - 1] == '\n')
		len--;
	if (memchr(line, '\0', len))
		return answer_fail(err, "a line with a NUL byte");
	*text = xstrndup(line, len);
	return 1;
}

/* "ok <name>", "ng <name> <why>". */
static int take_line(const char *line, text_list *taken, text_list *told, struct err *err)
{
	const char *name = line + strlen("ok ");

	if (!text_starts_with(line, "ok ") && !text_starts_with(line, "ng "))
		return answer_fail(err, "a line that tells of no ref");
	if (*line == 'o' && *name != '\0') {
		vec_add(taken, xstrdup(name));
		vec_add(told, xstrdup(name));
		return 0;
	}
	const char *space = strchr(name, ' ');
	if (*line == 'o' || !space || space == name)
		return answer_fail(err, "a line that tells of no ref");
	vec_add(told, xstrndup(name, (size_t)(space - name)));
	return 0;
}

static int check_unpacked(struct pkt_reader *reader, struct err *err)
{
	AUTO_FREE char *line = NULL;
	int result = next_line(reader, &line, err);

	if (result < 0)
		return -1;
	if (result == 0 || !text_starts_with(line, UNPACK))
		return answer_fail(err, "it does not tell of the pack");
	if (strcmp(line + strlen(UNPACK), "ok") == 0)
		return 0;
	return err_set(err, ERR_CONFLICT, "the pack was refused: %.200s",
		       line + strlen(UNPACK));
}

static int take_lines(struct pkt_reader *reader, text_list *taken, text_list *told,
		      struct err *err)
{
	char *text;
	int result;

	while ((result = next_line(reader, &text, err)) > 0) {
		AUTO_FREE char *line = text;
		if (take_line(line, taken, told, err) != 0)
			return -1;
	}
	return result;
}

static int check_once(text_list *told, struct err *err)
{
	vec_sort(told, text_list_order);
	for (size_t i = 1; i < told->count; i++)
		if (strcmp(told->items[i - 1], told->items[i]) == 0)
			return answer_fail(err, "it tells of a ref twice");
	return 0;
}

int push_answer_read(const char *bytes, size_t len, bool has_bands, text_list *taken,
		     struct err *err)
{
	AUTO_STR struct str report = STR_INIT;
	AUTO_TEXT_LIST text_list told = { 0 };
	struct pkt_reader reader = { bytes, len };
	/* its packets are in packets of a band, which may cut them anywhere */
	int result = has_bands ? side_band_join(&reader, &report, err) : 0;

	*taken = (text_list){ 0 };
	if (has_bands)
		reader = (struct pkt_reader){ report.data, report.len };
	if (result == 0)
		result = check_unpacked(&reader, err);
	if (result == 0)
		result = take_lines(&reader, taken, &told, err);
	if (result == 0)
		result = check_once(&told, err);
	vec_sort(taken, text_list_order);
	if (result != 0)
		text_list_clear(taken);
	return result;
}
