/*
 * The row is read before the disk, and the file that is opened is compared with it. A
 * print that was taken right after a write may belong to more than one content, as the
 * clock of files stands still for a while: where no checksum would tell, such a file is
 * waited for.
 */
#include "web/blob_reading.h"

#include "base/clock.h"

enum { TRIES = 4, SETTLE_PAUSE_MS = 10, SETTLE_MS = 3000 };

int blob_source_open(struct blob_source *source, const struct web_services *services,
		     const struct blob_kind *kind, const struct stop *stop,
		     struct err *err)
{
	*source = (struct blob_source){ services, kind, stop, -1 };
	source->root = blob_root_open(kind, err);
	return source->root < 0 ? -1 : 0;
}

void blob_source_close(struct blob_source *source)
{
	if (source->root >= 0)
		close(TAKE_FD(source->root));
}

static void blob_reading_close_file(struct blob_reading *reading)
{
	if (reading->fd >= 0)
		close(TAKE_FD(reading->fd));
}

void blob_reading_clear(struct blob_reading *reading)
{
	blob_reading_close_file(reading);
	origin_row_clear(&reading->row);
}

struct rows {
	const char *kind;
	const char *const *ids;
	size_t count;
	struct blob_reading *readings;
};

static int blob_reading_read_rows(struct store_tx *tx, void *arg, struct err *err)
{
	const struct rows *rows = arg;

	for (size_t i = 0; i < rows->count; i++) {
		struct origin_row *row = &rows->readings[i].row;
		origin_row_clear(row); /* of a run before */
		if (origin_row_get(tx, rows->kind, rows->ids[i], row, err) < 0)
			return -1;
	}
	return 0;
}

int blob_readings_prepare(const struct blob_source *source, const char *const *ids,
			  size_t count, struct blob_reading *readings, struct err *err)
{
	struct rows rows = { source->kind->type, ids, count, readings };

	for (size_t i = 0; i < count; i++)
		readings[i] = (struct blob_reading)BLOB_READING_INIT;
	return store_read(source->services->store, blob_reading_read_rows, &rows, err);
}

static bool blob_reading_is_as_recorded(const struct blob_reading *reading)
{
	char text[BLOB_PRINT_SIZE];

	blob_print_format(&reading->print, text);
	return reading->row.print && strcmp(reading->row.print, text) == 0;
}

/* 1: it is open, and as its row says; 0: it is to be noticed. */
static int try_open(const struct blob_source *source, const char *id,
		    struct blob_reading *reading, struct err *err)
{
	blob_reading_close_file(reading);
	if (blob_open(source->root, id, &reading->fd, &reading->stat, err) != 0)
		return err->class == ERR_MISSING && !reading->row.name ? -1 : 0;
	blob_print_of(&reading->stat, &reading->print);
	return blob_reading_is_as_recorded(reading);
}

/* The row becomes what the disk says now. */
static int notice(const struct blob_source *source, const char *id,
		  struct blob_reading *reading, struct err *err)
{
	struct blob_look look = { .id = id };
	int result = blob_notice_compare_one(source->services->blob_notice, source->kind,
					     &look, err);

	origin_row_clear(&reading->row);
	reading->row = look.row;
	return result;
}

static int check_content(const struct origin_row *row, struct err *err)
{
	if (!blob_row_is_damaged(row))
		return 0;
	err_set(err, ERR_CORRUPT, "%s", row->failure);
	return err_remedy(err, "%s", row->remedy ? row->remedy : "");
}

/* A checksum tells whoever receives it. */
static bool blob_reading_is_settled(const struct blob_reading *reading)
{
	return reading->row.checksum ||
	       blob_print_is_settled(&reading->print, clock_wall_ns());
}

/* A time in the future is not waited for for ever. */
static int blob_reading_wait_until_settled(const struct blob_source *source,
					   const struct blob_reading *reading,
					   struct err *err)
{
	int64_t until = clock_boot_ms() + SETTLE_MS;

	while (!blob_reading_is_settled(reading) && clock_boot_ms() < until)
		if (stop_wait(source->stop, SETTLE_PAUSE_MS))
			return err_set(err, ERR_CANCELED, "this node is ending");
	return 0;
}

/* 1: it is as recorded, and rests; 0: not. */
static int open_settled(const struct blob_source *source, const char *id,
			struct blob_reading *reading, struct err *err)
{
	int found = try_open(source, id, reading, err);

	if (found <= 0)
		return found;
	if (check_content(&reading->row, err) != 0 ||
	    blob_reading_wait_until_settled(source, reading, err) != 0)
		return -1;
	return blob_reading_holds(reading);
}

int blob_reading_open(const struct blob_source *source, const char *id,
		      struct blob_reading *reading, struct err *err)
{
	if (blob_id_check(source->kind, id, err) != 0)
		return -1;
	if (!reading->row.name &&
	    blob_readings_prepare(source, &id, 1, reading, err) != 0)
		return -1;
	for (int i = 0; i < TRIES; i++) {
		int found = open_settled(source, id, reading, err);
		if (found != 0)
			return found < 0 ? -1 : 0;
		if (notice(source, id, reading, err) != 0)
			return -1;
	}
	err_set(err, ERR_CONFLICT, "%s changes all the time", id);
	return err_remedy(err, "try again in a moment");
}

/* Of a file that is not there any more the time of change is that of its removal. */
bool blob_reading_holds(const struct blob_reading *reading)
{
	struct blob_print now;
	struct stat stat;

	if (fstat(reading->fd, &stat) != 0)
		return false;
	blob_print_of(&stat, &now);
	return blob_print_same(&reading->print, &now) &&
	       (reading->print.ctime_ns == now.ctime_ns || stat.st_nlink == 0);
}
