/* Holds the example of PROTOCOL.md's chapter on sealed connections to the code: blocks that start with ```bytes NAME. */
#include <ctype.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handshake.h"
#include "key.h"
#include "sealed.h"
#include "table.h"

#define BLOCK_MAX 512

static char *doc;

static const char *find_block(const char *name)
{
	char fence[64];
	const char *at;

	snprintf(fence, sizeof fence, "\n```bytes %s\n", name);
	at = strstr(doc, fence);
	if (!at)
		fail_msg("no block %s", name);
	return at + strlen(fence);
}

/* The bytes of a block; what stands behind a # tells what they are. */
static size_t read_block(uint8_t out[static BLOCK_MAX], const char *name)
{
	const char *at = find_block(name);
	unsigned byte;
	size_t n = 0;

	while (strncmp(at, "```", 3) != 0) {
		if (*at == '#') {
			at += strcspn(at, "\n");
		} else if (isspace((unsigned char)*at)) {
			at++;
		} else {
			assert_true(n < BLOCK_MAX && sscanf(at, "%2x", &byte) == 1);
			out[n++] = (uint8_t)byte;
			at += 2;
		}
	}
	return n;
}

static void check_block(const char *name, const uint8_t *want, size_t len)
{
	uint8_t found[BLOCK_MAX];

	assert_int_equal(read_block(found, name), len);
	assert_memory_equal(found, want, len);
}

static struct noise_keypair client, client_ephemeral, server, server_ephemeral;
static struct handshake_keys keys;

static void the_public_keys(void **state)
{
	char text[KEY_TEXT_SIZE];

	(void)state;
	check_block("client-public", client.public, NOISE_KEY_LEN);
	check_block("server-public", server.public, NOISE_KEY_LEN);
	key_format(text, KEY_CLIENT_PUBLIC, client.public);
	assert_non_null(strstr(doc, text));
	key_format(text, KEY_SERVER_PUBLIC, server.public);
	assert_non_null(strstr(doc, text));
}

static void the_packets_and_keys(void **state)
{
	uint8_t first[HANDSHAKE_FIRST_LEN], second[HANDSHAKE_SECOND_LEN], who[NOISE_KEY_LEN];
	struct noise_handshake hs;

	(void)state;
	assert_int_equal(handshake_ask(&hs, &client, &client_ephemeral, server.public, first), 0);
	check_block("first-packet", first, sizeof first);
	assert_int_equal(handshake_answer(&server, &server_ephemeral, first, second, who, &keys), 0);
	check_block("second-packet", second, sizeof second);
	assert_int_equal(handshake_finish(&hs, second, &keys), 0);
	check_block("key-from-client", keys.from_client.key, NOISE_KEY_LEN);
	check_block("key-from-daemon", keys.from_server.key, NOISE_KEY_LEN);
}

static void the_first_record(void **state)
{
	static const uint8_t hello[] = "\x00\x00\x00\x18\x08\x01\x12\x14\x08\x01\x10\x01\x22\x0eleasectl 0.1.0";
	uint8_t record[SEALED_FIRST_MAX];
	struct sealer sealer;
	int size;

	(void)state;
	sealer_init(&sealer, &keys.from_client, 0);
	size = seal(&sealer, 0, hello, sizeof hello - 1, record);
	check_block("first-record", record, (size_t)size);
}

/* Numbers and names that the text tells. */
static void the_text_is_that_of_the_code(void **state)
{
	char text[200];

	(void)state;
	assert_non_null(strstr(doc, "the 8 bytes `" HANDSHAKE_PROLOGUE "`"));
	assert_non_null(strstr(doc, "\n12 bytes `" HANDSHAKE_MAC_LABEL "`"));
	snprintf(text, sizeof text, "\n%d bytes, the daemon answers with %d:", HANDSHAKE_FIRST_LEN, HANDSHAKE_SECOND_LEN);
	assert_non_null(strstr(doc, text));
	snprintf(text, sizeof text, "at most %d bytes long, so n is at most %d.", SEALED_TEXT_MAX, SEALED_DATA_MAX);
	assert_non_null(strstr(doc, text));
	snprintf(text, sizeof text, "first record is at most %d bytes long", SEALED_FIRST_MAX);
	assert_non_null(strstr(doc, text));
}

static char *read_doc(void)
{
	FILE *file = fopen(PROTOCOL_MD, "re");
	char *all = NULL;
	size_t size = 0;

	if (file && getdelim(&all, &size, '\0', file) < 0)
		perror(PROTOCOL_MD);
	if (file)
		fclose(file);
	return all;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_public_keys),
		cmocka_unit_test(the_packets_and_keys),
		cmocka_unit_test(the_first_record),
		cmocka_unit_test(the_text_is_that_of_the_code),
	};
	struct noise_keypair *pairs[] = { &client, &client_ephemeral, &server, &server_ephemeral };
	int failed;

	doc = read_doc();
	if (!doc || sodium_init() < 0)
		return 1;
	for (int i = 0; i < 4; i++) {
		memset(pairs[i]->secret, i + 1, NOISE_KEY_LEN);
		noise_complete_keypair(pairs[i]);
	}
	failed = cmocka_run_group_tests_name("sealed_doc", tests, NULL, NULL);
	free(doc);
	return failed;
}
