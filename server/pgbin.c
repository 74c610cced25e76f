#include "pgbin.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

void params_begin(struct params *p)
{
	p->n = 0;
	p->len = 0;
	p->failed = false;
}

/* Only now, since the buffer may have moved. */
int params_finish(struct params *p)
{
	if (p->failed)
		return LEASED_ENOMEM;
	for (int i = 0; i < p->n; i++) {
		size_t end = i + 1 < p->n ? p->offset[i + 1] : p->len;

		p->values[i] = (const char *)p->data + p->offset[i];
		p->lengths[i] = (int)(end - p->offset[i]);
		p->formats[i] = 1;
	}
	return 0;
}

void params_fini(struct params *p)
{
	free(p->data);
	*p = (struct params){ 0 };
}

void begin_param(struct params *p)
{
	p->offset[p->n++] = p->len;
}

static uint8_t *reserve(struct params *p, size_t len)
{
	uint8_t *at;

	if (p->len + len > p->size) {
		size_t size = 2 * (p->len + len);
		uint8_t *data = realloc(p->data, size);

		if (!data) {
			p->failed = true;
			return NULL;
		}
		p->data = data;
		p->size = size;
	}
	at = p->data + p->len;
	p->len += len;
	return at;
}

void put_bytes(struct params *p, const void *data, size_t len)
{
	uint8_t *at = reserve(p, len);

	if (at && len > 0)
		memcpy(at, data, len);
}

void put_i32(struct params *p, int32_t value)
{
	uint32_t wire = htobe32((uint32_t)value);

	put_bytes(p, &wire, sizeof wire);
}

void put_i64(struct params *p, int64_t value)
{
	uint64_t wire = htobe64((uint64_t)value);

	put_bytes(p, &wire, sizeof wire);
}

void put_flag(struct params *p, bool flag)
{
	uint8_t wire = flag;

	begin_param(p);
	put_bytes(p, &wire, sizeof wire);
}

void put_text_param(struct params *p, struct text text)
{
	begin_param(p);
	put_bytes(p, text.data, text.len);
}

void put_i32_param(struct params *p, int32_t value)
{
	begin_param(p);
	put_i32(p, value);
}

void put_i64_param(struct params *p, int64_t value)
{
	begin_param(p);
	put_i64(p, value);
}

void put_null(struct params *p)
{
	put_i32(p, -1);
}

void put_text_element(struct params *p, struct text text)
{
	put_i32(p, (int32_t)text.len);
	put_bytes(p, text.data, text.len);
}

void put_i64_element(struct params *p, int64_t value)
{
	put_i32(p, 8);
	put_i64(p, value);
}

void put_i32_element(struct params *p, int32_t value)
{
	put_i32(p, 4);
	put_i32(p, value);
}

void put_bool_element(struct params *p, bool value)
{
	uint8_t wire = value;

	put_i32(p, 1);
	put_bytes(p, &wire, sizeof wire);
}

bool get_i64(const PGresult *result, int row, int column, int64_t *ret_value)
{
	uint64_t wire;

	if (PQgetisnull(result, row, column) || PQgetlength(result, row, column) != 8)
		return false;
	memcpy(&wire, PQgetvalue(result, row, column), sizeof wire);
	*ret_value = (int64_t)be64toh(wire);
	return true;
}

bool get_i32(const PGresult *result, int row, int column, int32_t *ret_value)
{
	uint32_t wire;

	if (PQgetisnull(result, row, column) || PQgetlength(result, row, column) != 4)
		return false;
	memcpy(&wire, PQgetvalue(result, row, column), sizeof wire);
	*ret_value = (int32_t)be32toh(wire);
	return true;
}

bool get_bool(const PGresult *result, int row, int column, bool *ret_value)
{
	if (PQgetisnull(result, row, column) || PQgetlength(result, row, column) != 1)
		return false;
	*ret_value = *PQgetvalue(result, row, column) != 0;
	return true;
}

struct text get_text(const PGresult *result, int row, int column)
{
	return (struct text){ PQgetvalue(result, row, column),
		(size_t)PQgetlength(result, row, column) };
}

struct text copy_text(char **at, struct text text)
{
	struct text copy = { *at, text.len };

	if (text.len > 0) /* of no text there may be no memory */
		memcpy(*at, text.data, text.len);
	*at += text.len;
	return copy;
}
