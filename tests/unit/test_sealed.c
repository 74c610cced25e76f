/* The two packets that open a sealed connection, and the records on it. */
#include "sealed.h"

#include <sodium.h>
#include <string.h>

#include "handshake.h"
#include "leased_status.h"
#include "table.h"

static uint8_t data[SEALED_DATA_MAX], wire[SEALED_MAX], copy[SEALED_MAX];

struct rig {
	struct noise_keypair client, server, client_ephemeral, server_ephemeral;
	struct noise_handshake hs;
	uint8_t first[HANDSHAKE_FIRST_LEN], second[HANDSHAKE_SECOND_LEN], mac_key[NOISE_KEY_LEN];
	struct handshake_keys keys, other;
};

static void rig_init(struct rig *r)
{
	uint8_t claimed[NOISE_KEY_LEN];

	noise_new_keypair(&r->client);
	noise_new_keypair(&r->server);
	noise_new_keypair(&r->client_ephemeral);
	noise_new_keypair(&r->server_ephemeral);
	handshake_mac_key(r->mac_key, r->server.public);
	assert_int_equal(handshake_ask(&r->hs, &r->client, &r->client_ephemeral, r->server.public, r->first), 0);
	assert_true(handshake_is_for(r->mac_key, r->first));
	assert_int_equal(handshake_answer(&r->server, &r->server_ephemeral, r->first, r->second, claimed, &r->other), 0);
	assert_memory_equal(claimed, r->client.public, NOISE_KEY_LEN);
	assert_int_equal(handshake_finish(&r->hs, r->second, &r->keys), 0);
	assert_memory_equal(r->keys.from_client.key, r->other.from_client.key, NOISE_KEY_LEN);
	assert_memory_equal(r->keys.from_server.key, r->other.from_server.key, NOISE_KEY_LEN);
}

static void both_sides_get_the_same_keys_and_each_direction_its_own(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r);
	assert_memory_not_equal(r.keys.from_client.key, r.keys.from_server.key, NOISE_KEY_LEN);
}

static void an_answer_is_no_longer_than_the_question(void **state)
{
	(void)state;
	assert_true(HANDSHAKE_SECOND_LEN <= HANDSHAKE_FIRST_LEN);
}

static void any_flipped_bit_is_caught_by_the_mac(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r);
	for (size_t bit = 0; bit < 8 * sizeof r.first; bit++) {
		r.first[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_false(handshake_is_for(r.mac_key, r.first));
		r.first[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

static void a_packet_for_another_server_is_not_for_us(void **state)
{
	struct rig r;
	uint8_t claimed[NOISE_KEY_LEN];

	(void)state;
	rig_init(&r);
	handshake_ask(&r.hs, &r.client, &r.client_ephemeral, r.client.public, r.first);
	assert_false(handshake_is_for(r.mac_key, r.first));
	/* With a mac that fits all the same, which anybody can make: */
	crypto_generichash_blake2b(r.first, HANDSHAKE_MAC_LEN, r.first + HANDSHAKE_MAC_LEN, NOISE_FIRST_LEN, r.mac_key,
		NOISE_KEY_LEN);
	assert_true(handshake_is_for(r.mac_key, r.first));
	memset(&r.other, 0, sizeof r.other);
	assert_int_equal(handshake_answer(&r.server, &r.server_ephemeral, r.first, r.second, claimed, &r.other), LEASED_EPROTO);
	assert_false(r.other.from_client.has_key);
}

static void a_changed_answer_is_refused(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r);
	handshake_ask(&r.hs, &r.client, &r.client_ephemeral, r.server.public, r.first);
	r.second[40] ^= 1;
	assert_int_equal(handshake_finish(&r.hs, r.second, &r.keys), LEASED_EPROTO);
}

/* ---- records ---- */

static void lengths_tell_little(void **state)
{
	size_t last = 0, n = 0;

	(void)state;
	for (size_t len = 1; len <= SEALED_DATA_MAX; len++) {
		size_t size = sealed_size(len);

		assert_true(size >= last && size <= SEALED_MAX);
		assert_true(size >= SEALED_HEADER_LEN + SEALED_PREFIX_LEN + len + NOISE_TAG_LEN);
		assert_true(len < 256 || size < len + len / 8 + 64);
		n += size != last;
		last = size;
	}
	assert_int_equal(last, SEALED_MAX);
	assert_true(n < 150); /* of 63,485 */
	assert_int_equal(sealed_size(1), sealed_size(SEALED_TEXT_MIN - SEALED_PREFIX_LEN));
	assert_int_equal(sealed_size(FRAME_HEADER_LEN + FRAME_HELLO_MAX), SEALED_FIRST_MAX);
	assert_true(sealed_size(FRAME_HEADER_LEN + FRAME_BODY_MAX) <= SEALED_MAX);
}

static void both(struct sealer *s, struct noise_cipher *other)
{
	static const uint8_t key[NOISE_KEY_LEN] = { 7 };

	noise_cipher_init(other, key);
	sealer_init(s, other, 1000);
}

static void what_is_sealed_can_be_opened(void **state)
{
	static const size_t lengths[] = { 1, 2, 253, 254, 516, 1000, 4096, FRAME_BODY_MAX, SEALED_DATA_MAX };
	struct noise_cipher other;
	struct sealer s;

	(void)state;
	randombytes_buf(data, sizeof data);
	both(&s, &other);
	for (size_t i = 0; i < TABLE_LEN(lengths); i++) {
		size_t size = sealed_size(lengths[i]);

		assert_int_equal(seal(&s, 1000, data, lengths[i], wire), size);
		for (size_t len = 0; len < size; len += 1 + size / 97)
			assert_int_equal(sealed_parse(wire, len, SEALED_MAX), 0);
		assert_int_equal(sealed_parse(wire, size, SEALED_MAX), size);
		assert_int_equal(sealed_parse(wire, sizeof wire, size), size);
		assert_int_equal(sealed_parse(wire, SEALED_HEADER_LEN, size - 1), LEASED_EPROTO);
		assert_int_equal(sealed_open(&other, wire, size), lengths[i]);
		assert_memory_equal(wire + SEALED_HEADER_LEN + SEALED_PREFIX_LEN, data, lengths[i]);
	}
}

static void impossible_lengths_are_known_from_the_header(void **state)
{
	(void)state;
	for (unsigned length = 0; length <= UINT16_MAX; length++) {
		const uint8_t header[] = { (uint8_t)(length >> 8), (uint8_t)length };
		int bad = length < SEALED_PREFIX_LEN + 1 + NOISE_TAG_LEN || length > SEALED_MAX - SEALED_HEADER_LEN;

		assert_int_equal(sealed_parse(header, sizeof header, SEALED_MAX), bad ? LEASED_EPROTO : 0);
	}
}

static void every_changed_bit_ends_it(void **state)
{
	struct noise_cipher other, fresh;
	struct sealer s;
	size_t size;

	(void)state;
	both(&s, &fresh);
	size = (size_t)seal(&s, 1000, data, 100, wire);
	for (size_t bit = 8 * SEALED_HEADER_LEN; bit < 8 * size; bit++) {
		other = fresh;
		memcpy(copy, wire, size);
		copy[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_equal(sealed_open(&other, copy, size), LEASED_EPROTO);
	}
}

static void a_repeated_or_missing_record_ends_it(void **state)
{
	struct noise_cipher other, fresh;
	struct sealer s;
	size_t size;

	(void)state;
	both(&s, &fresh);
	size = (size_t)seal(&s, 1000, data, 100, wire);
	other = fresh;
	memcpy(copy, wire, size);
	assert_int_equal(sealed_open(&other, copy, size), 100);
	memcpy(copy, wire, size);
	assert_int_equal(sealed_open(&other, copy, size), LEASED_EPROTO);
	seal(&s, 1000, data, 100, wire); /* without the first */
	assert_int_equal(sealed_open(&fresh, wire, size), LEASED_EPROTO);
}

/* What another program may put into a message that is sealed well. */
static void texts_that_make_no_sense_are_refused(void **state)
{
	static const struct {
		uint8_t text[5];
		size_t len;
		int want;
	} rows[] = {
		{ { 0, 0, 1, 9, 9 }, 5, 1 }, { { 0, 0, 2, 9, 9 }, 5, 2 }, { { 1, 0, 2, 9, 9 }, 5, 2 },
		{ { 0, 0, 3, 9, 9 }, 5, LEASED_EPROTO }, { { 0, 255, 255, 9, 9 }, 5, LEASED_EPROTO },
		{ { 0, 0, 0, 9, 9 }, 5, LEASED_EPROTO }, { { 2, 0, 1, 9, 9 }, 5, LEASED_EPROTO },
		{ { 129, 0, 1, 9, 9 }, 5, LEASED_EPROTO }, { { 0, 0, 1 }, 3, LEASED_EPROTO },
		{ { 0, 0 }, 2, LEASED_EPROTO }, { { 0 }, 0, LEASED_EPROTO },
	};
	uint8_t record[32];
	struct noise_cipher c, other;
	struct sealer s;

	(void)state;
	for (size_t i = 0; i < TABLE_LEN(rows); i++) {
		both(&s, &other);
		c = other;
		noise_encrypt(&c, NULL, 0, rows[i].text, rows[i].len, record + SEALED_HEADER_LEN);
		assert_int_equal(sealed_open(&other, record, SEALED_HEADER_LEN + rows[i].len + NOISE_TAG_LEN), rows[i].want);
	}
}

static int exchange(struct sealer *s, struct noise_cipher *other, int64_t now_ms)
{
	int size = seal(s, now_ms, data, 10, wire);

	return size < 0 ? size : sealed_open(other, wire, (size_t)size);
}

static void the_key_changes_each_hour_and_each_2_to_the_32_records(void **state)
{
	struct noise_cipher other, before;
	struct sealer s;

	(void)state;
	both(&s, &other);
	before = other;
	assert_int_equal(exchange(&s, &other, 1000 + SEALED_REKEY_MS - 1), 10);
	assert_memory_equal(other.key, before.key, NOISE_KEY_LEN);
	assert_int_equal(exchange(&s, &other, 1000 + SEALED_REKEY_MS), 10);
	assert_memory_not_equal(other.key, before.key, NOISE_KEY_LEN);
	assert_memory_equal(other.key, s.cipher.key, NOISE_KEY_LEN);
	assert_int_equal(other.n, 2);
	before = other;
	s.in_key = SEALED_REKEY_RECORDS - 2;
	assert_int_equal(exchange(&s, &other, 1000 + SEALED_REKEY_MS), 10);
	assert_memory_equal(other.key, before.key, NOISE_KEY_LEN);
	assert_int_equal(exchange(&s, &other, 1000 + SEALED_REKEY_MS), 10);
	assert_memory_not_equal(other.key, before.key, NOISE_KEY_LEN);
	assert_int_equal(exchange(&s, &other, 1000 + SEALED_REKEY_MS), 10);
	assert_int_equal(s.in_key, 1);
}

static void nothing_is_sealed_or_shown_when_the_counter_has_ended(void **state)
{
	struct noise_cipher other;
	struct sealer s;

	(void)state;
	memset(data, 'x', 100);
	both(&s, &other);
	s.cipher.n = NOISE_COUNT_MAX;
	assert_int_equal(seal(&s, 1000, data, 100, wire), LEASED_EPROTO);
	assert_null(memchr(wire, 'x', sealed_size(100)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_sides_get_the_same_keys_and_each_direction_its_own),
		cmocka_unit_test(an_answer_is_no_longer_than_the_question),
		cmocka_unit_test(any_flipped_bit_is_caught_by_the_mac),
		cmocka_unit_test(a_packet_for_another_server_is_not_for_us),
		cmocka_unit_test(a_changed_answer_is_refused),
		cmocka_unit_test(lengths_tell_little),
		cmocka_unit_test(what_is_sealed_can_be_opened),
		cmocka_unit_test(impossible_lengths_are_known_from_the_header),
		cmocka_unit_test(every_changed_bit_ends_it),
		cmocka_unit_test(a_repeated_or_missing_record_ends_it),
		cmocka_unit_test(texts_that_make_no_sense_are_refused),
		cmocka_unit_test(the_key_changes_each_hour_and_each_2_to_the_32_records),
		cmocka_unit_test(nothing_is_sealed_or_shown_when_the_counter_has_ended),
	};

	if (sodium_init() < 0)
		return 1;
	return cmocka_run_group_tests_name("sealed", tests, NULL, NULL);
}
