/*
 * pgbin.h - PostgreSQL's binary form: values of ours into the parameters of a statement, columns of a
 * row back into values. Pure; no connection.
 */
#ifndef PGBIN_H
#define PGBIN_H

#include <libpq-fe.h>

#include "request.h"

#define PARAMS_MAX 17

/* Microseconds from 1970 to 2000, where PostgreSQL's timestamps begin. */
#define PG_EPOCH_US INT64_C(946684800000000)

/* The parameters of one statement. The buffer is kept for the next one. */
struct params {
	uint8_t *data;
	size_t len, size;
	int n;
	size_t offset[PARAMS_MAX];
	const char *values[PARAMS_MAX]; /* set by params_finish */
	int lengths[PARAMS_MAX], formats[PARAMS_MAX];
	bool failed; /* out of memory; sticks */
};

/* Begins a statement's parameters. */
void params_begin(struct params *params);

/* 0 or LEASED_ENOMEM. */
int params_finish(struct params *params);

void params_fini(struct params *params);

/* The next parameter: what is put until the next one is its value. */
void begin_param(struct params *params);

void put_bytes(struct params *params, const void *data, size_t len);
void put_i32(struct params *params, int32_t value);
void put_i64(struct params *params, int64_t value);

/* Whole parameters. */
void put_flag(struct params *params, bool flag);
void put_text_param(struct params *params, struct text text);
void put_i32_param(struct params *params, int32_t value);
void put_i64_param(struct params *params, int64_t value);

/* Elements of an array. */
void put_null(struct params *params);
void put_text_element(struct params *params, struct text text);
void put_i64_element(struct params *params, int64_t value);
void put_i32_element(struct params *params, int32_t value);
void put_bool_element(struct params *params, bool value);

/* false: NULL, or not such a value. Every value is checked: what answers is not always what we expect. */
bool get_i64(const PGresult *result, int row, int column, int64_t *ret_value);
bool get_i32(const PGresult *result, int row, int column, int32_t *ret_value);
bool get_bool(const PGresult *result, int row, int column, bool *ret_value);

/* Empty for NULL. It lives as long as result. */
struct text get_text(const PGresult *result, int row, int column);

/* Copies text to *at, which moves on behind it. */
struct text copy_text(char **at, struct text text);

#endif
