/*
 * Holds the handshake to vectors that others have published (the files in vectors/, with their sources): every
 * byte of every message, as both roles, and every hash and key on the way; and to what must be refused.
 */
#include "noise.h"

#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "leased_status.h"
#include "table.h"

#define PACKET_MAX  512
#define FILES_MAX   3
#define VECTORS_MAX 16

static json_t *files[FILES_MAX], *steps, *points;

/* A hexadecimal field of a vector, any length; one that is not there is empty. */
static size_t hex(uint8_t *out, size_t size, const json_t *object, const char *field)
{
	const char *text = json_string_value(json_object_get(object, field));
	size_t len = 0;

	if (text)
		assert_int_equal(sodium_hex2bin(out, size, text, strlen(text), NULL, &len, NULL), 0);
	return len;
}

static void check_bytes(const json_t *object, const char *field, const uint8_t *found, size_t len)
{
	uint8_t want[PACKET_MAX];

	assert_int_equal(hex(want, sizeof want, object, field), len);
	assert_memory_equal(found, want, len);
}

static void keypair(struct noise_keypair *ret, const json_t *vector, const char *field)
{
	assert_int_equal(hex(ret->secret, sizeof ret->secret, vector, field), NOISE_KEY_LEN);
	noise_complete_keypair(ret);
}

/* Both sides of one connection, with the keys of a vector. */
struct pair {
	struct noise_keypair initiator, responder, initiator_ephemeral, responder_ephemeral;
	struct noise_handshake one, other;
};

static void pair_init(struct pair *p, const json_t *vector)
{
	uint8_t prologue[PACKET_MAX], remote[NOISE_KEY_LEN];
	size_t len;

	keypair(&p->initiator, vector, "init_static");
	keypair(&p->responder, vector, "resp_static");
	keypair(&p->initiator_ephemeral, vector, "init_ephemeral");
	keypair(&p->responder_ephemeral, vector, "resp_ephemeral");
	assert_int_equal(hex(remote, sizeof remote, vector, "init_remote_static"), NOISE_KEY_LEN);
	assert_memory_equal(remote, p->responder.public, NOISE_KEY_LEN);
	len = hex(prologue, sizeof prologue, vector, "init_prologue");
	noise_init_initiator(&p->one, prologue, len, &p->initiator, remote);
	len = hex(prologue, sizeof prologue, vector, "resp_prologue");
	noise_init_responder(&p->other, prologue, len, &p->responder);
}

static size_t message(const json_t *vector, size_t index, const json_t **ret, uint8_t payload[static PACKET_MAX])
{
	*ret = json_array_get(json_object_get(vector, "messages"), index);
	return hex(payload, PACKET_MAX, *ret, "payload");
}

static void check_handshake(struct pair *p, const json_t *vector)
{
	uint8_t payload[PACKET_MAX], packet[PACKET_MAX], read[PACKET_MAX];
	const json_t *m;
	size_t len = message(vector, 0, &m, payload);
	int used = noise_write_first(&p->one, &p->initiator_ephemeral, payload, len, packet);

	check_bytes(m, "ciphertext", packet, (size_t)used);
	assert_int_equal(noise_read_first(&p->other, packet, (size_t)used, read), len);
	assert_memory_equal(read, payload, len);
	assert_memory_equal(p->other.their_static, p->initiator.public, NOISE_KEY_LEN);

	len = message(vector, 1, &m, payload);
	used = noise_write_second(&p->other, &p->responder_ephemeral, payload, len, packet);
	check_bytes(m, "ciphertext", packet, (size_t)used);
	assert_int_equal(noise_read_second(&p->one, packet, (size_t)used, read), len);
	assert_memory_equal(read, payload, len);
	assert_memory_equal(p->one.symmetric.h, p->other.symmetric.h, NOISE_HASH_LEN);
	if (json_object_get(vector, "handshake_hash"))
		check_bytes(vector, "handshake_hash", p->one.symmetric.h, NOISE_HASH_LEN);
}

/* Messages alternate by their index, unless a vector begins anew with the initiator. */
static void check_transport(const json_t *vector, struct noise_cipher keys[2], struct noise_cipher other[2])
{
	size_t n = json_array_size(json_object_get(vector, "messages"));
	uint8_t payload[PACKET_MAX], packet[PACKET_MAX], read[PACKET_MAX];
	const json_t *m;

	assert_true(n >= 4); /* both directions */
	for (size_t i = 2; i < n; i++) {
		size_t len = message(vector, i, &m, payload);
		int used = noise_encrypt(&keys[i % 2], NULL, 0, payload, len, packet);

		check_bytes(m, "ciphertext", packet, (size_t)used);
		assert_int_equal(noise_decrypt(&other[i % 2], NULL, 0, packet, (size_t)used, read), len);
		assert_memory_equal(read, payload, len);
	}
}

static void check_vector(void **state)
{
	const json_t *vector = *state;
	struct noise_cipher keys[2], other[2];
	struct noise_handshake wiped = { 0 };
	struct pair p;

	assert_string_equal(json_string_value(json_object_get(vector, "protocol_name")),
		"Noise_IK_25519_ChaChaPoly_BLAKE2b");
	pair_init(&p, vector);
	check_handshake(&p, vector);
	noise_split(&p.one, &keys[0], &keys[1]);
	noise_split(&p.other, &other[0], &other[1]);
	assert_memory_equal(&p.one, &wiped, sizeof wiped);
	assert_memory_equal(&p.other, &wiped, sizeof wiped);
	check_transport(vector, keys, other);
}

/* ---- every step of one vector ---- */

static void check_step(size_t index, const struct noise_symmetric *s)
{
	const json_t *step = json_array_get(json_object_get(steps, "steps"), index);
	uint8_t key[NOISE_KEY_LEN];

	assert_non_null(step);
	check_bytes(step, "h", s->h, NOISE_HASH_LEN);
	check_bytes(step, "ck", s->ck, NOISE_HASH_LEN);
	assert_int_equal(s->cipher.has_key, hex(key, sizeof key, step, "k") > 0);
	if (s->cipher.has_key)
		assert_memory_equal(s->cipher.key, key, sizeof key);
	assert_int_equal(s->cipher.n, json_integer_value(json_object_get(step, "n")));
}

static void mix_dh(struct noise_symmetric *s, const uint8_t *secret, const uint8_t *public)
{
	uint8_t shared[NOISE_KEY_LEN];

	assert_int_equal(crypto_scalarmult(shared, secret, public), 0);
	noise_mix_key(s, shared, sizeof shared);
}

/* The tokens by hand, so that a wrong vector above can be traced to its first wrong step. */
static void every_intermediate_value_is_right(void **state)
{
	const json_t *vector = json_array_get(json_object_get(files[0], "vectors"), 0), *m;
	uint8_t payload[PACKET_MAX], packet[PACKET_MAX];
	struct noise_symmetric s;
	struct noise_cipher first, second;
	struct pair p;
	size_t len;

	(void)state;
	pair_init(&p, vector);
	noise_symmetric_init(&s, "Noise_IK_25519_ChaChaPoly_BLAKE2b");
	len = hex(packet, sizeof packet, vector, "init_prologue");
	noise_mix_hash(&s, packet, len);
	check_step(0, &s);
	noise_mix_hash(&s, p.responder.public, NOISE_KEY_LEN);
	check_step(1, &s);
	check_step(1, &p.one.symmetric);
	check_step(1, &p.other.symmetric);
	noise_mix_hash(&s, p.initiator_ephemeral.public, NOISE_KEY_LEN);
	check_step(2, &s);
	mix_dh(&s, p.initiator_ephemeral.secret, p.responder.public);
	check_step(3, &s);
	noise_encrypt_and_hash(&s, p.initiator.public, NOISE_KEY_LEN, packet);
	check_step(4, &s);
	mix_dh(&s, p.initiator.secret, p.responder.public);
	check_step(5, &s);
	len = message(vector, 0, &m, payload);
	noise_encrypt_and_hash(&s, payload, len, packet);
	check_step(6, &s);
	noise_mix_hash(&s, p.responder_ephemeral.public, NOISE_KEY_LEN);
	check_step(7, &s);
	mix_dh(&s, p.responder_ephemeral.secret, p.initiator_ephemeral.public);
	check_step(8, &s);
	mix_dh(&s, p.responder_ephemeral.secret, p.initiator.public);
	check_step(9, &s);
	len = message(vector, 1, &m, payload);
	noise_encrypt_and_hash(&s, payload, len, packet);
	check_step(10, &s);
	noise_symmetric_split(&s, &first, &second);
	check_bytes(json_object_get(steps, "split"), "initiator_to_responder", first.key, NOISE_KEY_LEN);
	check_bytes(json_object_get(steps, "split"), "responder_to_initiator", second.key, NOISE_KEY_LEN);
}

/* ---- what is refused ---- */

static const char prologue[] = "a test";

/* Keys that nobody has published. */
static void pair_random(struct pair *p)
{
	noise_new_keypair(&p->initiator);
	noise_new_keypair(&p->responder);
	noise_new_keypair(&p->initiator_ephemeral);
	noise_new_keypair(&p->responder_ephemeral);
	noise_init_initiator(&p->one, prologue, sizeof prologue, &p->initiator, p->responder.public);
	noise_init_responder(&p->other, prologue, sizeof prologue, &p->responder);
}

static void refuses_first(struct pair *p, const uint8_t *packet, size_t len)
{
	static const struct noise_handshake wiped;
	uint8_t read[PACKET_MAX];

	assert_int_equal(noise_read_first(&p->other, packet, len, read), LEASED_EPROTO);
	assert_memory_equal(&p->other, &wiped, sizeof wiped);
}

static void a_change_of_any_bit_is_refused(void **state)
{
	uint8_t first[NOISE_FIRST_LEN], second[NOISE_SECOND_LEN], read[PACKET_MAX];
	struct pair p, copy;

	(void)state;
	pair_random(&p);
	assert_int_equal(noise_write_first(&p.one, &p.initiator_ephemeral, NULL, 0, first), NOISE_FIRST_LEN);
	for (size_t bit = 0; bit < 8 * NOISE_FIRST_LEN; bit++) {
		copy = p;
		first[bit / 8] ^= (uint8_t)(1 << bit % 8);
		refuses_first(&copy, first, sizeof first);
		first[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	for (size_t len = 0; len < sizeof first; len++) {
		copy = p;
		refuses_first(&copy, first, len);
	}
	assert_int_equal(noise_read_first(&p.other, first, sizeof first, read), 0);
	assert_int_equal(noise_write_second(&p.other, &p.responder_ephemeral, NULL, 0, second), NOISE_SECOND_LEN);
	for (size_t bit = 0; bit < 8 * NOISE_SECOND_LEN; bit++) {
		copy = p;
		second[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_equal(noise_read_second(&copy.one, second, sizeof second, read), LEASED_EPROTO);
		second[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	assert_int_equal(noise_read_second(&p.one, second, sizeof second, read), 0);
}

static void another_prologue_or_key_is_refused(void **state)
{
	uint8_t first[NOISE_FIRST_LEN];
	struct pair p;

	(void)state;
	pair_random(&p);
	noise_write_first(&p.one, &p.initiator_ephemeral, NULL, 0, first);
	noise_init_responder(&p.other, prologue, sizeof prologue - 1, &p.responder);
	refuses_first(&p, first, sizeof first);
	noise_init_responder(&p.other, prologue, sizeof prologue, &p.initiator);
	refuses_first(&p, first, sizeof first);
}

/*
 * A packet whose ephemeral key is of low order, or whose sealed static key is: made by hand, since our own
 * code writes none. All that follows the zero result is what an attacker, who knows it, would send.
 */
static void seal_first(struct pair *p, uint8_t packet[static NOISE_FIRST_LEN], const uint8_t *e, const uint8_t *es,
	const uint8_t *s, const uint8_t *ss)
{
	struct noise_symmetric symmetric = p->one.symmetric;

	memcpy(packet, e, NOISE_KEY_LEN);
	noise_mix_hash(&symmetric, e, NOISE_KEY_LEN);
	noise_mix_key(&symmetric, es, NOISE_KEY_LEN);
	noise_encrypt_and_hash(&symmetric, s, NOISE_KEY_LEN, packet + NOISE_KEY_LEN);
	noise_mix_key(&symmetric, ss, NOISE_KEY_LEN);
	noise_encrypt_and_hash(&symmetric, NULL, 0, packet + NOISE_FIRST_LEN - NOISE_TAG_LEN);
}

static void check_low_order_point(void **state)
{
	static const uint8_t zero[NOISE_KEY_LEN];
	uint8_t point[NOISE_KEY_LEN], packet[NOISE_FIRST_LEN], es[NOISE_KEY_LEN], read[PACKET_MAX];
	struct noise_handshake hs;
	struct pair p;

	assert_int_equal(hex(point, sizeof point, *state, "point"), NOISE_KEY_LEN);
	pair_random(&p);
	seal_first(&p, packet, point, zero, p.initiator.public, zero); /* as e: es is zero */
	refuses_first(&p, packet, sizeof packet);
	noise_init_responder(&p.other, prologue, sizeof prologue, &p.responder);
	assert_int_equal(crypto_scalarmult(es, p.initiator_ephemeral.secret, p.responder.public), 0);
	seal_first(&p, packet, p.initiator_ephemeral.public, es, point, zero); /* as s: ss is zero */
	refuses_first(&p, packet, sizeof packet);
	noise_init_initiator(&hs, prologue, sizeof prologue, &p.initiator, point); /* as the responder's */
	assert_int_equal(noise_write_first(&hs, &p.initiator_ephemeral, NULL, 0, packet), LEASED_EPROTO);
	noise_write_first(&p.one, &p.initiator_ephemeral, NULL, 0, packet);
	memcpy(packet, point, sizeof point); /* as the responder's e */
	assert_int_equal(noise_read_second(&p.one, packet, NOISE_SECOND_LEN, read), LEASED_EPROTO);
}

static void a_message_is_no_longer_than_65535_bytes(void **state)
{
	static uint8_t payload[NOISE_MESSAGE_MAX + 1], packet[NOISE_MESSAGE_MAX + 1], read[NOISE_MESSAGE_MAX];
	size_t most = NOISE_MESSAGE_MAX - NOISE_FIRST_LEN;
	struct pair p, copy;
	struct noise_cipher cipher;

	(void)state;
	pair_random(&p);
	copy = p;
	assert_int_equal(noise_write_first(&copy.one, &p.initiator_ephemeral, payload, most + 1, packet), LEASED_EPROTO);
	assert_int_equal(noise_write_first(&p.one, &p.initiator_ephemeral, payload, most, packet), NOISE_MESSAGE_MAX);
	copy = p;
	refuses_first(&copy, packet, sizeof packet);
	assert_int_equal(noise_read_first(&p.other, packet, NOISE_MESSAGE_MAX, read), most);
	noise_cipher_init(&cipher, payload);
	assert_int_equal(noise_encrypt(&cipher, NULL, 0, payload, NOISE_MESSAGE_MAX - NOISE_TAG_LEN + 1, packet),
		LEASED_EPROTO);
	assert_int_equal(cipher.n, 0);
	assert_int_equal(noise_encrypt(&cipher, NULL, 0, payload, NOISE_MESSAGE_MAX - NOISE_TAG_LEN, packet),
		NOISE_MESSAGE_MAX);
}

/* ---- the cipher ---- */

static const uint8_t some_key[NOISE_KEY_LEN] = { 1, 2, 3 };

static void the_counter_never_wraps(void **state)
{
	uint8_t text[4] = "abc", packet[sizeof text + NOISE_TAG_LEN], last[sizeof packet];
	struct noise_cipher c, d;

	(void)state;
	noise_cipher_init(&c, some_key);
	d = c;
	c.n = d.n = NOISE_COUNT_MAX - 1;
	assert_int_equal(noise_encrypt(&c, NULL, 0, text, sizeof text, last), sizeof last);
	assert_int_equal(noise_encrypt(&c, NULL, 0, text, sizeof text, packet), LEASED_EPROTO);
	assert_int_equal(c.n, NOISE_COUNT_MAX);
	assert_int_equal(noise_decrypt(&d, NULL, 0, last, sizeof last, text), sizeof text);
	assert_int_equal(noise_decrypt(&d, NULL, 0, last, sizeof last, text), LEASED_EPROTO);
	c.n = UINT64_MAX; /* the nonce of a rekey */
	assert_int_equal(noise_encrypt(&c, NULL, 0, text, sizeof text, packet), LEASED_EPROTO);
}

static void a_forged_message_shifts_no_counter_and_shows_no_text(void **state)
{
	uint8_t text[4] = "abc", packet[sizeof text + NOISE_TAG_LEN], out[sizeof text] = "";
	struct noise_cipher c, d;

	(void)state;
	noise_cipher_init(&c, some_key);
	d = c;
	noise_encrypt(&c, NULL, 0, text, sizeof text, packet);
	packet[0] ^= 1;
	assert_int_equal(noise_decrypt(&d, NULL, 0, packet, sizeof packet, out), LEASED_EPROTO);
	assert_int_equal(d.n, 0);
	assert_memory_not_equal(out, text, sizeof text);
	packet[0] ^= 1;
	assert_int_equal(noise_decrypt(&d, (const uint8_t *)"x", 1, packet, sizeof packet, out), LEASED_EPROTO);
	assert_int_equal(noise_decrypt(&d, NULL, 0, packet, NOISE_TAG_LEN - 1, out), LEASED_EPROTO);
	assert_int_equal(noise_decrypt(&d, NULL, 0, packet, sizeof packet, out), sizeof text);
	assert_int_equal(noise_decrypt(&d, NULL, 0, packet, sizeof packet, out), LEASED_EPROTO); /* a replay */
}

/* Against the definition in section 4.2, written out with libsodium alone. */
static void a_rekey_is_what_the_noise_text_says(void **state)
{
	static const uint8_t zeros[NOISE_KEY_LEN];
	const uint8_t nonce[12] = { 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255 };
	uint8_t want[NOISE_KEY_LEN + NOISE_TAG_LEN];
	struct noise_cipher c;

	(void)state;
	crypto_aead_chacha20poly1305_ietf_encrypt(want, NULL, zeros, sizeof zeros, NULL, 0, NULL, nonce, some_key);
	noise_cipher_init(&c, some_key);
	c.n = 7;
	noise_rekey(&c);
	assert_memory_equal(c.key, want, NOISE_KEY_LEN);
	assert_int_equal(c.n, 7);
}

/* ---- */

static json_t *load(const char *name)
{
	char path[512];
	json_error_t why;
	json_t *found;

	snprintf(path, sizeof path, "%s/%s", VECTORS, name);
	found = json_load_file(path, 0, &why);
	if (!found)
		fprintf(stderr, "%s: %s\n", path, why.text);
	return found;
}

static void add_vectors(struct table *table, const json_t *file, const char *name)
{
	static char claims[VECTORS_MAX][64];
	static size_t n;
	const json_t *vectors = json_object_get(file, "vectors");

	for (size_t i = 0; i < json_array_size(vectors) && n < VECTORS_MAX; i++) {
		snprintf(claims[n], sizeof claims[n], "%s %zu", name, i);
		table_add(table, claims[n++], check_vector, json_array_get(vectors, i));
	}
}

int main(void)
{
	struct table table = { 0 };
	size_t n_points;
	int failed;

	files[0] = load("noise-ik-25519-chachapoly-blake2b.json");
	files[1] = load("noise-ik-25519-chachapoly-blake2b-more.json");
	steps = load("noise-ik-intermediate.json");
	points = load("x25519-low-order-points.json");
	if (sodium_init() < 0 || !files[0] || !files[1] || !steps || !points)
		return 1;
	add_vectors(&table, files[0], "vector");
	add_vectors(&table, files[1], "further vector");
	if (table.n != 7)
		return 1;
	table_add(&table, "every intermediate value is right", every_intermediate_value_is_right, NULL);
	table_add(&table, "a change of any bit is refused", a_change_of_any_bit_is_refused, NULL);
	table_add(&table, "another prologue or key is refused", another_prologue_or_key_is_refused, NULL);
	n_points = json_array_size(json_object_get(points, "points"));
	if (n_points != 14)
		return 1;
	for (size_t i = 0; i < n_points; i++) {
		json_t *point = json_array_get(json_object_get(points, "points"), i);

		table_add(&table, json_string_value(json_object_get(point, "what")), check_low_order_point, point);
	}
	table_add(&table, "a message is no longer than 65,535 bytes", a_message_is_no_longer_than_65535_bytes, NULL);
	table_add(&table, "the counter never wraps", the_counter_never_wraps, NULL);
	table_add(&table, "a forged message shifts no counter and shows no text",
		a_forged_message_shifts_no_counter_and_shows_no_text, NULL);
	table_add(&table, "a rekey is what the Noise text says", a_rekey_is_what_the_noise_text_says, NULL);
	failed = table_run(&table, "noise");
	json_decref(files[0]);
	json_decref(files[1]);
	json_decref(steps);
	json_decref(points);
	return failed;
}
