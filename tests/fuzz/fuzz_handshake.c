/*
 * The two packets of a handshake, to both sides: a packet that was not made by the other side is refused and
 * leaves no key; one that was and then changed is refused, too. The first byte chooses, so that the fuzzer gets
 * behind the mac, which it could never guess.
 */
#include <sodium.h>

#include "fuzz.h"
#include "handshake.h"
#include "leased_status.h"

static struct noise_keypair client, server, ephemeral;
static uint8_t mac_key[NOISE_KEY_LEN], good[HANDSHAKE_FIRST_LEN];

static void begin(void)
{
	struct noise_handshake hs;

	assert(sodium_init() >= 0);
	client.secret[0] = 1;
	server.secret[0] = 2;
	ephemeral.secret[0] = 3;
	noise_complete_keypair(&client);
	noise_complete_keypair(&server);
	noise_complete_keypair(&ephemeral);
	handshake_mac_key(mac_key, server.public);
	assert(handshake_ask(&hs, &client, &ephemeral, server.public, good) == 0);
}

static void to_server(const uint8_t *packet, bool is_good)
{
	uint8_t answer[HANDSHAKE_SECOND_LEN], who[NOISE_KEY_LEN];
	struct handshake_keys keys = { 0 };
	int rc = handshake_answer(&server, &ephemeral, packet, answer, who, &keys);

	assert(rc == 0 || rc == LEASED_EPROTO);
	assert((rc == 0) == is_good);
	assert(keys.from_client.has_key == (rc == 0));
	assert(rc < 0 || memcmp(who, client.public, sizeof who) == 0);
}

static void to_client(const uint8_t *packet)
{
	uint8_t first[HANDSHAKE_FIRST_LEN];
	struct handshake_keys keys = { 0 };
	struct noise_handshake hs;

	assert(handshake_ask(&hs, &client, &ephemeral, server.public, first) == 0);
	assert(handshake_finish(&hs, packet, &keys) == LEASED_EPROTO && !keys.from_server.has_key);
}

/* The input laid over a good packet: few bytes change. */
static void changed(const uint8_t *data, size_t size)
{
	uint8_t packet[HANDSHAKE_FIRST_LEN];
	bool is_same = true;

	memcpy(packet, good, sizeof packet);
	for (size_t i = 0; i < size && i < sizeof packet; i++) {
		packet[i] ^= data[i];
		is_same = is_same && (data[i] == 0 || i < HANDSHAKE_MAC_LEN);
	}
	assert(handshake_is_for(mac_key, packet) == (memcmp(packet, good, sizeof packet) == 0));
	to_server(packet, is_same);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool begun;
	uint8_t packet[HANDSHAKE_FIRST_LEN] = { 0 };

	if (!begun)
		begin();
	begun = true;
	if (size == 0)
		return 0;
	memcpy(packet, data + 1, size - 1 < sizeof packet ? size - 1 : sizeof packet);
	if (data[0] % 3 == 0)
		to_server(packet, memcmp(packet + HANDSHAKE_MAC_LEN, good + HANDSHAKE_MAC_LEN, NOISE_FIRST_LEN) == 0);
	else if (data[0] % 3 == 1)
		to_client(packet);
	else
		changed(data + 1, size - 1);
	return 0;
}
