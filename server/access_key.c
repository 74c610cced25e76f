#include "access_key.h"

#include <sodium.h>
#include <string.h>

#include "status.h"

#define BOTH_LEN (ACCESS_KEY_LEN + 4) /* a key and its checksum, in base64 behind the prefix */

static bool begins(struct text word, const char *with)
{
	size_t len = strlen(with);

	return word.len >= len && memcmp(word.data, with, len) == 0;
}

bool access_key_is(struct text word)
{
	return begins(word, "leased-");
}

/* Over what it is, too. */
static bool has_checksum(const uint8_t both[static BOTH_LEN])
{
	uint8_t hash[crypto_generichash_blake2b_BYTES_MIN];
	crypto_generichash_blake2b_state state;

	crypto_generichash_blake2b_init(&state, NULL, 0, sizeof hash);
	crypto_generichash_blake2b_update(&state, (const uint8_t *)ACCESS_KEY_PREFIX, strlen(ACCESS_KEY_PREFIX));
	crypto_generichash_blake2b_update(&state, both, ACCESS_KEY_LEN);
	crypto_generichash_blake2b_final(&state, hash, sizeof hash);
	return memcmp(hash, both + ACCESS_KEY_LEN, BOTH_LEN - ACCESS_KEY_LEN) == 0;
}

int access_key_decode(uint8_t ret_key[static ACCESS_KEY_LEN], struct text word, struct leased_error *err)
{
	uint8_t both[BOTH_LEN];
	size_t skip = strlen(ACCESS_KEY_PREFIX), len;

	if (begins(word, "leased-client-key:") || begins(word, "leased-server-key:"))
		return fail(err, LEASED_ECONFIG,
			"a private key stands here: it is known to whoever reads this file, make a new one");
	if (!begins(word, ACCESS_KEY_PREFIX))
		return fail(err, LEASED_ECONFIG, "the public key of a client begins with " ACCESS_KEY_PREFIX);
	if (sodium_base642bin(both, sizeof both, word.data + skip, word.len - skip, NULL, &len, NULL,
		    sodium_base64_VARIANT_URLSAFE_NO_PADDING) != 0 || len != sizeof both ||
		!has_checksum(both))
		return fail(err, LEASED_ECONFIG, "this is no public key: copy it again");
	memcpy(ret_key, both, ACCESS_KEY_LEN);
	return 0;
}
