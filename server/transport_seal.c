#include "transport_seal.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "leased_status.h"

struct transport_seal *transport_seal_new(const struct handshake_keys *keys)
{
	struct transport_seal *ts = calloc(1, sizeof *ts);

	if (!ts)
		return NULL;
	sealer_init(&ts->sealer, &keys->from_server, clock_ms());
	ts->opener = keys->from_client;
	return ts;
}

/* Appends to what has come of a record; its room grows with what has really come. */
static bool append(struct transport_seal *ts, const uint8_t *data, size_t len)
{
	if (ts->raw_len + len > ts->raw_size) {
		size_t size = 2 * (ts->raw_len + len);
		uint8_t *raw = realloc(ts->raw, size);

		if (!raw)
			return false;
		ts->raw = raw;
		ts->raw_size = size;
	}
	if (len > 0)
		memcpy(ts->raw + ts->raw_len, data, len);
	ts->raw_len += len;
	return true;
}

/* Of the record that has begun, what it still wants: its header, then the rest. */
static size_t wants(const struct transport_seal *ts)
{
	if (ts->raw_len < SEALED_HEADER_LEN)
		return SEALED_HEADER_LEN - ts->raw_len;
	return SEALED_HEADER_LEN + ((size_t)ts->raw[0] << 8 | ts->raw[1]) - ts->raw_len;
}

static int open_record(struct transport_seal *ts, uint8_t *record, size_t len, const uint8_t **ret_text)
{
	int n = sealed_open(&ts->opener, record, len);

	if (n > 0)
		*ret_text = record + SEALED_HEADER_LEN + SEALED_PREFIX_LEN;
	return n;
}

/* Of a record that came in parts: 0 when it is still not whole. */
static int open_parts(struct transport_seal *ts, size_t max, uint8_t **data, size_t *len, const uint8_t **ret_text)
{
	int used = 0;

	while (*len > 0 && used == 0) {
		size_t take = wants(ts) < *len ? wants(ts) : *len;

		if (!append(ts, *data, take))
			return LEASED_ENOMEM;
		*data += take;
		*len -= take;
		used = sealed_parse(ts->raw, ts->raw_len, max);
	}
	if (used <= 0)
		return used;
	ts->raw_len = 0; /* the text stays where it is until the next call */
	return open_record(ts, ts->raw, (size_t)used, ret_text);
}

int transport_seal_open(struct transport_seal *ts, size_t data_max, uint8_t **data, size_t *len,
	const uint8_t **ret_text)
{
	size_t max = sealed_size(data_max < SEALED_DATA_MAX ? data_max : SEALED_DATA_MAX);
	uint8_t *record = *data;
	int used;

	if (ts->raw_len > 0)
		return open_parts(ts, max, data, len, ret_text);
	used = sealed_parse(*data, *len, max);
	if (used < 0)
		return used;
	if (used == 0) {
		if (!append(ts, *data, *len))
			return LEASED_ENOMEM;
		*len = 0;
		return 0;
	}
	*data += used;
	*len -= (size_t)used;
	return open_record(ts, record, (size_t)used, ret_text);
}

static void drop_raw(struct transport_seal *ts)
{
	if (ts->raw) /* it held a text */
		sodium_memzero(ts->raw, ts->raw_size);
	free(ts->raw);
	ts->raw = NULL;
	ts->raw_len = ts->raw_size = 0;
}

void transport_seal_forget(struct transport_seal *ts)
{
	if (ts->raw_len == 0)
		drop_raw(ts);
}

/* The bytes of all records that len bytes make. */
static size_t size_of_all(size_t len)
{
	size_t size = len / SEALED_DATA_MAX * SEALED_MAX;

	return len % SEALED_DATA_MAX ? size + sealed_size(len % SEALED_DATA_MAX) : size;
}

uint8_t *transport_seal_close(struct transport_seal *ts, const uint8_t *data, size_t len, size_t *ret_len)
{
	size_t size = size_of_all(len), at = 0;
	uint8_t *out = malloc(size);

	while (out && len > 0) {
		size_t part = len < SEALED_DATA_MAX ? len : SEALED_DATA_MAX;
		int used = seal(&ts->sealer, clock_ms(), data, part, out + at);

		if (used < 0) {
			free(out);
			return NULL;
		}
		at += (size_t)used;
		data += part;
		len -= part;
	}
	*ret_len = at;
	return out;
}

void transport_seal_free(struct transport_seal *ts)
{
	if (!ts)
		return;
	drop_raw(ts);
	sodium_memzero(ts, sizeof *ts);
	free(ts);
}
