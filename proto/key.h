/*
 * key.h - long-term keys: their text forms, their files, and the memory that they live in. The one module here
 * that opens files; blocking; any thread.
 *
 * A text says what it is, and has a checksum over that and the key: leased-client-pub:KEY, leased-client-key:KEY,
 * leased-server-pub:KEY, leased-server-key:KEY, KEY being 48 characters. So a secret key where a public one
 * belongs, a client's for a server's, and a slip of the pen are refused.
 */
#ifndef KEY_H
#define KEY_H

#include "leased_status.h"
#include "noise.h"

enum key_kind { KEY_CLIENT_PUBLIC, KEY_CLIENT_SECRET, KEY_SERVER_PUBLIC, KEY_SERVER_SECRET };

#define KEY_TEXT_SIZE 67 /* "leased-client-pub:", 48 characters, NUL */

void key_format(char out[static KEY_TEXT_SIZE], enum key_kind kind, const uint8_t key[static NOISE_KEY_LEN]);

/*
 * Reads the text of a key of this kind. 0, or LEASED_EDATA with a sentence that says what it is instead; it
 * quotes nothing of the text.
 */
int key_parse(uint8_t ret_key[static NOISE_KEY_LEN], enum key_kind kind, const char *text,
	struct leased_error *err);

/*
 * Reads a file with one secret key of this kind (KEY_CLIENT_SECRET or KEY_SERVER_SECRET). A file that anybody
 * but its owner can read or write, or that belongs to neither root nor this user, is refused. What it returns
 * lies in memory of its own, locked, read-only, and between guard pages; for key_free.
 * LEASED_ECONFIG with a sentence, LEASED_ENOMEM.
 */
int key_load(const struct noise_keypair **ret_key, enum key_kind kind, const char *path,
	struct leased_error *err);

/*
 * Makes a new key and a file of mode 0600 for it, which must not exist and is on the disk when this returns.
 * LEASED_ECONFIG with a sentence, LEASED_ENOMEM; then no file was left.
 */
int key_create(const struct noise_keypair **ret_key, enum key_kind kind, const char *path,
	struct leased_error *err);

/* Wipes and frees; NULL is fine. */
void key_free(const struct noise_keypair *key);

#endif
