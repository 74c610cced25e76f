#include "frame.h"

#include "leased_status.h"
#include "table.h"

static uint8_t wire[FRAME_HEADER_LEN + FRAME_BODY_MAX + 16];

static struct frame_case {
	const char *name;
	uint32_t length; /* in the header */
	size_t len;      /* bytes there, header included */
	size_t max;
	int want;
} cases[] = {
	{ "nothing needs more", 1, 0, FRAME_BODY_MAX, FRAME_MORE },
	{ "three bytes of a header need more", 1, 3, FRAME_BODY_MAX, FRAME_MORE },
	{ "a header alone needs more", 1, 4, FRAME_BODY_MAX, FRAME_MORE },
	{ "a body cut short needs more", 3, 6, FRAME_BODY_MAX, FRAME_MORE },
	{ "one byte is a whole body", 1, 5, FRAME_BODY_MAX, 5 },
	{ "the next frame is left alone", 1, 10, FRAME_BODY_MAX, 5 },
	{ "a body one below the limit comes out", FRAME_BODY_MAX - 1, sizeof wire, FRAME_BODY_MAX,
		FRAME_HEADER_LEN + FRAME_BODY_MAX - 1 },
	{ "a body at the limit comes out", FRAME_BODY_MAX, sizeof wire, FRAME_BODY_MAX,
		FRAME_HEADER_LEN + FRAME_BODY_MAX },
	{ "a body at the limit needs its last byte", FRAME_BODY_MAX,
		FRAME_HEADER_LEN + FRAME_BODY_MAX - 1, FRAME_BODY_MAX, FRAME_MORE },
	{ "length 0 is refused by the header alone", 0, 4, FRAME_BODY_MAX, LEASED_EPROTO },
	{ "one over the limit is refused by the header alone", FRAME_BODY_MAX + 1, 4,
		FRAME_BODY_MAX, LEASED_EPROTO },
	{ "a hello at its limit comes out", FRAME_HELLO_MAX, sizeof wire, FRAME_HELLO_MAX,
		FRAME_HEADER_LEN + FRAME_HELLO_MAX },
	{ "a hello over its limit is refused", FRAME_HELLO_MAX + 1, 4, FRAME_HELLO_MAX,
		LEASED_EPROTO },
	{ "a caller's limit does not lift the general one", FRAME_BODY_MAX + 1, sizeof wire,
		SIZE_MAX, LEASED_EPROTO },
	{ "2^31 - 1 is refused", 0x7fffffff, sizeof wire, FRAME_BODY_MAX, LEASED_EPROTO },
	{ "2^31 is refused", 0x80000000, sizeof wire, FRAME_BODY_MAX, LEASED_EPROTO },
	{ "2^32 - 1 is refused", 0xffffffff, sizeof wire, FRAME_BODY_MAX, LEASED_EPROTO },
};

static void check_case(void **state)
{
	const struct frame_case *c = *state;
	struct frame f = { 0 };

	wire[0] = (uint8_t)(c->length >> 24);
	wire[1] = (uint8_t)(c->length >> 16);
	wire[2] = (uint8_t)(c->length >> 8);
	wire[3] = (uint8_t)c->length;
	assert_int_equal(frame_parse(wire, c->len, c->max, &f), c->want);
	if (c->want > 0) {
		assert_ptr_equal(f.body, wire + FRAME_HEADER_LEN);
		assert_int_equal(f.len, c->length);
	} else {
		assert_null(f.body); /* untouched unless a frame came out */
		assert_int_equal(f.len, 0);
	}
}

static void header_is_read_back(void **state)
{
	static const size_t lengths[] = { 1, 255, 256, 65535 / 2, FRAME_BODY_MAX };
	struct frame f;

	(void)state;
	for (size_t i = 0; i < TABLE_LEN(lengths); i++) {
		frame_put_header(wire, lengths[i]);
		assert_int_equal(frame_parse(wire, sizeof wire, FRAME_BODY_MAX, &f),
			FRAME_HEADER_LEN + lengths[i]);
		assert_int_equal(f.len, lengths[i]);
	}
}

static void header_is_big_endian(void **state)
{
	static const uint8_t want[] = { 0, 0, 0xef, 0x01 };

	(void)state;
	frame_put_header(wire, 0xef01);
	assert_memory_equal(wire, want, sizeof want);
}

int main(void)
{
	struct table table = { 0 };

	for (size_t i = 0; i < TABLE_LEN(cases); i++)
		table_add(&table, cases[i].name, check_case, &cases[i]);
	table_add(&table, "a written header is read back", header_is_read_back, NULL);
	table_add(&table, "the length is big-endian", header_is_big_endian, NULL);
	return table_run(&table, "frame");
}
