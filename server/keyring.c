#include "keyring.h"

#include "key.h"
#include "log.h"
#include "status.h"

static int add(struct keyring *ring, const char *option, const char *path, struct leased_error *err)
{
	struct leased_error why;
	int rc;

	if (!*path)
		return 0;
	rc = key_load(&ring->keys[ring->n].pair, KEY_SERVER_SECRET, path, &why);
	if (rc < 0)
		return fail(err, rc, "%s: %s", option, why.text);
	handshake_mac_key(ring->keys[ring->n].mac_key, ring->keys[ring->n].pair->public);
	ring->n++;
	return 0;
}

int keyring_load(struct keyring *ret_ring, const struct config *config, struct leased_error *err)
{
	struct keyring ring = { 0 };
	int rc = add(&ring, "key", config->key, err);

	if (rc == 0)
		rc = add(&ring, "key_next", config->key_next, err);
	if (rc == 0)
		*ret_ring = ring;
	else
		keyring_fini(&ring);
	return rc;
}

const struct noise_keypair *keyring_find(
	const struct keyring *ring, const uint8_t packet[static HANDSHAKE_FIRST_LEN])
{
	for (size_t i = 0; i < ring->n; i++)
		if (handshake_is_for(ring->keys[i].mac_key, packet))
			return ring->keys[i].pair;
	return NULL;
}

void keyring_log(const struct keyring *ring)
{
	char text[KEY_TEXT_SIZE];

	for (size_t i = 0; i < ring->n; i++) {
		key_format(text, KEY_SERVER_PUBLIC, ring->keys[i].pair->public);
		log_event(LOG_INFO, i == 0 ? "key" : "key_next", "public", 's', text, NULL);
	}
}

void keyring_fini(struct keyring *ring)
{
	for (size_t i = 0; i < ring->n; i++)
		key_free(ring->keys[i].pair);
	*ring = (struct keyring){ 0 };
}
