/*
 * change.h - one change of one lease, as a watch tells it, and the line of a notification in which the
 * database tells of it (leased.change_line in schema/0002_functions.sql). Pure.
 */
#ifndef CHANGE_H
#define CHANGE_H

#include "name.h"
#include "request.h"

enum change_kind {
	CHANGE_SNAPSHOT, /* one begins: what was told before counts no more. Nothing else is set */
	CHANGE_HELD,     /* a grant in the snapshot */
	CHANGE_READY,    /* the snapshot is complete. Nothing else is set */
	CHANGE_GRANTED,
	CHANGE_VALUE,    /* the holder has changed the value */
	CHANGE_RELEASED,
	CHANGE_EXPIRED,
	CHANGE_STOLEN,
};

struct change {
	enum change_kind kind;
	struct claim claim;     /* without principal; of STOLEN name and token only */
	struct text value;      /* HELD, GRANTED, VALUE */
	bool has_value;
	int64_t expires_in_ms;  /* HELD, GRANTED */
	int64_t value_changes;  /* HELD, VALUE: of this grant, up to this one */
};

/*
 * Takes a line apart; its texts point into it, but for the value, which is written to value. False: it is
 * none of ours.
 */
bool change_parse(struct change *ret_change, const char *line, size_t len,
	uint8_t value[static VALUE_MAX_LEN]);

#endif
