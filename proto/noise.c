/*
 * The two messages of IK, each written token by token in the order of the pattern; what is mixed into hash and
 * keys by a token stands in section 5.3 of the Noise text.
 */
#include "noise.h"

#include <sodium.h>
#include <string.h>

#include "leased_status.h"

_Static_assert(NOISE_KEY_LEN == crypto_scalarmult_BYTES && NOISE_KEY_LEN == crypto_scalarmult_SCALARBYTES,
	"DHLEN of 25519, section 12.1");

#define PROTOCOL_NAME "Noise_IK_25519_ChaChaPoly_BLAKE2b"

void noise_complete_keypair(struct noise_keypair *ret)
{
	crypto_scalarmult_base(ret->public, ret->secret);
}

void noise_new_keypair(struct noise_keypair *ret)
{
	randombytes_buf(ret->secret, sizeof ret->secret);
	noise_complete_keypair(ret);
}

static int give_up(struct noise_handshake *hs)
{
	sodium_memzero(hs, sizeof *hs);
	return LEASED_EPROTO;
}

static void init(struct noise_handshake *hs, const void *prologue, size_t len, const struct noise_keypair *own,
	const uint8_t responder[static NOISE_KEY_LEN])
{
	*hs = (struct noise_handshake){ .own = own };
	noise_symmetric_init(&hs->symmetric, PROTOCOL_NAME);
	noise_mix_hash(&hs->symmetric, prologue, len);
	noise_mix_hash(&hs->symmetric, responder, NOISE_KEY_LEN); /* the pre-message "<- s" */
}

void noise_init_initiator(struct noise_handshake *hs, const void *prologue, size_t len,
	const struct noise_keypair *own, const uint8_t responder[static NOISE_KEY_LEN])
{
	init(hs, prologue, len, own, responder);
	memcpy(hs->their_static, responder, NOISE_KEY_LEN);
}

void noise_init_responder(struct noise_handshake *hs, const void *prologue, size_t len,
	const struct noise_keypair *own)
{
	init(hs, prologue, len, own, own->public);
}

/*
 * MixKey(DH(secret, public)). libsodium says -1 for a result of all zeros, which any secret gives with a key of
 * low order: then the other side would have agreed on nothing.
 */
static bool mix_dh(struct noise_handshake *hs, const uint8_t secret[static NOISE_KEY_LEN],
	const uint8_t public[static NOISE_KEY_LEN])
{
	uint8_t shared[NOISE_KEY_LEN];
	bool good = crypto_scalarmult(shared, secret, public) == 0;

	if (good)
		noise_mix_key(&hs->symmetric, shared, sizeof shared);
	sodium_memzero(shared, sizeof shared);
	return good;
}

/* Token "e" of our own message. */
static void write_ephemeral(struct noise_handshake *hs, const struct noise_keypair *ephemeral, uint8_t *out)
{
	memcpy(hs->ephemeral, ephemeral->secret, NOISE_KEY_LEN);
	memcpy(out, ephemeral->public, NOISE_KEY_LEN);
	noise_mix_hash(&hs->symmetric, out, NOISE_KEY_LEN);
}

/* Token "e" of theirs. */
static void read_ephemeral(struct noise_handshake *hs, const uint8_t *packet)
{
	memcpy(hs->their_ephemeral, packet, NOISE_KEY_LEN);
	noise_mix_hash(&hs->symmetric, packet, NOISE_KEY_LEN);
}

int noise_write_first(struct noise_handshake *hs, const struct noise_keypair *ephemeral,
	const uint8_t *payload, size_t len, uint8_t *out)
{
	uint8_t *at = out + NOISE_KEY_LEN;
	int used;

	if (len > NOISE_MESSAGE_MAX - NOISE_FIRST_LEN)
		return give_up(hs);
	write_ephemeral(hs, ephemeral, out);
	if (!mix_dh(hs, hs->ephemeral, hs->their_static)) /* es */
		return give_up(hs);
	used = noise_encrypt_and_hash(&hs->symmetric, hs->own->public, NOISE_KEY_LEN, at); /* s */
	if (used < 0 || !mix_dh(hs, hs->own->secret, hs->their_static)) /* ss */
		return give_up(hs);
	at += used;
	used = noise_encrypt_and_hash(&hs->symmetric, payload, len, at);
	return used < 0 ? give_up(hs) : (int)(at - out) + used;
}

int noise_read_first(struct noise_handshake *hs, const uint8_t *packet, size_t len, uint8_t *payload)
{
	const uint8_t *at = packet + NOISE_KEY_LEN;
	size_t sealed_key = NOISE_KEY_LEN + NOISE_TAG_LEN;
	int used;

	if (len < NOISE_FIRST_LEN || len > NOISE_MESSAGE_MAX)
		return give_up(hs);
	read_ephemeral(hs, packet);
	if (!mix_dh(hs, hs->own->secret, hs->their_ephemeral)) /* es */
		return give_up(hs);
	used = noise_decrypt_and_hash(&hs->symmetric, at, sealed_key, hs->their_static); /* s */
	if (used < 0 || !mix_dh(hs, hs->own->secret, hs->their_static)) /* ss */
		return give_up(hs);
	at += sealed_key;
	used = noise_decrypt_and_hash(&hs->symmetric, at, len - (size_t)(at - packet), payload);
	return used < 0 ? give_up(hs) : used;
}

int noise_write_second(struct noise_handshake *hs, const struct noise_keypair *ephemeral,
	const uint8_t *payload, size_t len, uint8_t *out)
{
	int used;

	if (len > NOISE_MESSAGE_MAX - NOISE_SECOND_LEN)
		return give_up(hs);
	write_ephemeral(hs, ephemeral, out);
	if (!mix_dh(hs, hs->ephemeral, hs->their_ephemeral) || /* ee */
		!mix_dh(hs, hs->ephemeral, hs->their_static))  /* se */
		return give_up(hs);
	used = noise_encrypt_and_hash(&hs->symmetric, payload, len, out + NOISE_KEY_LEN);
	return used < 0 ? give_up(hs) : NOISE_KEY_LEN + used;
}

int noise_read_second(struct noise_handshake *hs, const uint8_t *packet, size_t len, uint8_t *payload)
{
	int used;

	if (len < NOISE_SECOND_LEN || len > NOISE_MESSAGE_MAX)
		return give_up(hs);
	read_ephemeral(hs, packet);
	if (!mix_dh(hs, hs->ephemeral, hs->their_ephemeral) ||    /* ee */
		!mix_dh(hs, hs->own->secret, hs->their_ephemeral)) /* se */
		return give_up(hs);
	used = noise_decrypt_and_hash(
		&hs->symmetric, packet + NOISE_KEY_LEN, len - NOISE_KEY_LEN, payload);
	return used < 0 ? give_up(hs) : used;
}

void noise_split(struct noise_handshake *hs, struct noise_cipher *ret_initiator,
	struct noise_cipher *ret_responder)
{
	noise_symmetric_split(&hs->symmetric, ret_initiator, ret_responder);
	sodium_memzero(hs, sizeof *hs);
}
