#include "handshake.h"

#include <sodium.h>
#include <string.h>

#include "leased_status.h"

void handshake_mac_key(uint8_t ret_key[static NOISE_KEY_LEN], const uint8_t server[static NOISE_KEY_LEN])
{
	crypto_generichash_blake2b_state state;

	crypto_generichash_blake2b_init(&state, NULL, 0, NOISE_KEY_LEN);
	crypto_generichash_blake2b_update(
		&state, (const uint8_t *)HANDSHAKE_MAC_LABEL, strlen(HANDSHAKE_MAC_LABEL));
	crypto_generichash_blake2b_update(&state, server, NOISE_KEY_LEN);
	crypto_generichash_blake2b_final(&state, ret_key, NOISE_KEY_LEN);
}

/* Over the message that stands behind it. */
static void make_mac(uint8_t ret_mac[static HANDSHAKE_MAC_LEN], const uint8_t mac_key[static NOISE_KEY_LEN],
	const uint8_t packet[static HANDSHAKE_FIRST_LEN])
{
	crypto_generichash_blake2b(ret_mac, HANDSHAKE_MAC_LEN, packet + HANDSHAKE_MAC_LEN, NOISE_FIRST_LEN,
		mac_key, NOISE_KEY_LEN);
}

int handshake_ask(struct noise_handshake *hs, const struct noise_keypair *own,
	const struct noise_keypair *ephemeral, const uint8_t server[static NOISE_KEY_LEN],
	uint8_t out[static HANDSHAKE_FIRST_LEN])
{
	uint8_t mac_key[NOISE_KEY_LEN];
	int used;

	noise_init_initiator(hs, HANDSHAKE_PROLOGUE, strlen(HANDSHAKE_PROLOGUE), own, server);
	used = noise_write_first(hs, ephemeral, NULL, 0, out + HANDSHAKE_MAC_LEN);
	if (used < 0)
		return used;
	handshake_mac_key(mac_key, server);
	make_mac(out, mac_key, out);
	return 0;
}

bool handshake_is_for(const uint8_t mac_key[static NOISE_KEY_LEN], const uint8_t packet[static HANDSHAKE_FIRST_LEN])
{
	uint8_t mac[HANDSHAKE_MAC_LEN];

	make_mac(mac, mac_key, packet);
	return sodium_memcmp(mac, packet, sizeof mac) == 0;
}

int handshake_answer(const struct noise_keypair *own, const struct noise_keypair *ephemeral,
	const uint8_t packet[static HANDSHAKE_FIRST_LEN], uint8_t out[static HANDSHAKE_SECOND_LEN],
	uint8_t ret_client[static NOISE_KEY_LEN], struct handshake_keys *ret_keys)
{
	uint8_t payload[1], client[NOISE_KEY_LEN];
	struct noise_handshake hs;
	int rc;

	noise_init_responder(&hs, HANDSHAKE_PROLOGUE, strlen(HANDSHAKE_PROLOGUE), own);
	rc = noise_read_first(&hs, packet + HANDSHAKE_MAC_LEN, NOISE_FIRST_LEN, payload);
	if (rc < 0)
		return rc;
	memcpy(client, hs.their_static, sizeof client);
	rc = noise_write_second(&hs, ephemeral, NULL, 0, out);
	if (rc < 0)
		return rc;
	noise_split(&hs, &ret_keys->from_client, &ret_keys->from_server);
	memcpy(ret_client, client, sizeof client);
	return 0;
}

int handshake_finish(struct noise_handshake *hs, const uint8_t packet[static HANDSHAKE_SECOND_LEN],
	struct handshake_keys *ret_keys)
{
	uint8_t payload[1];
	int rc = noise_read_second(hs, packet, HANDSHAKE_SECOND_LEN, payload);

	if (rc < 0)
		return rc;
	noise_split(hs, &ret_keys->from_client, &ret_keys->from_server);
	return 0;
}
