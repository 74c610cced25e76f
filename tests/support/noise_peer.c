/*
 * noise_peer: our handshake and records behind a pipe, for a test in another language to talk to. Each line is a
 * command with arguments in hex ("-" is empty), and is answered with a line of hex, or "refused".
 *
 *   initiator PROLOGUE OWN EPHEMERAL REMOTE    begins anew; secret keys, but for REMOTE
 *   responder PROLOGUE OWN EPHEMERAL
 *   write PAYLOAD | read PACKET                the handshake messages, each in its turn
 *   split
 *   encrypt TEXT | decrypt SEALED              transport messages
 *   rekey-out | rekey-in
 *   record MS DATA | open RECORD               records; MS is the time, in decimal
 *   key KIND KEY | mac SERVER MESSAGE          KIND as its text begins: client-pub
 */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handshake.h"
#include "key.h"
#include "leased_status.h"
#include "sealed.h"

#define BYTES_MAX 70000

struct arg {
	uint8_t bytes[BYTES_MAX];
	size_t len;
};

static struct noise_handshake hs;
static struct noise_keypair own, ephemeral;
static struct noise_cipher out, in;
static struct sealer sealer;
static bool is_initiator;
static struct arg args[4], answer;

static void take_hex(struct arg *arg, const char *word)
{
	arg->len = 0;
	if (!word || (strcmp(word, "-") != 0 &&
			     sodium_hex2bin(arg->bytes, BYTES_MAX, word, strlen(word), NULL, &arg->len, NULL) < 0))
		exit(64);
}

static void take_keypair(struct noise_keypair *pair, const struct arg *arg)
{
	if (arg->len != NOISE_KEY_LEN)
		exit(64);
	memcpy(pair->secret, arg->bytes, NOISE_KEY_LEN);
	noise_complete_keypair(pair);
}

static int begin(bool initiator)
{
	is_initiator = initiator;
	take_keypair(&own, &args[1]);
	take_keypair(&ephemeral, &args[2]);
	if (initiator)
		noise_init_initiator(&hs, args[0].bytes, args[0].len, &own, args[3].bytes);
	else
		noise_init_responder(&hs, args[0].bytes, args[0].len, &own);
	return 0;
}

static int split(void)
{
	noise_split(&hs, is_initiator ? &out : &in, is_initiator ? &in : &out);
	sealer_init(&sealer, &out, 0);
	return 0;
}

static int open_record(void)
{
	int n = sealed_parse(args[0].bytes, args[0].len, SEALED_MAX);

	if (n <= 0 || (size_t)n != args[0].len)
		return LEASED_EPROTO;
	n = sealed_open(&in, args[0].bytes, args[0].len);
	if (n > 0)
		memcpy(answer.bytes, args[0].bytes + SEALED_HEADER_LEN + SEALED_PREFIX_LEN, (size_t)n);
	return n;
}

static int format_key(const char *kind)
{
	static const char *const kinds[] = { "client-pub", "client-key", "server-pub", "server-key" };

	for (int i = 0; i < 4; i++)
		if (strcmp(kind, kinds[i]) == 0)
			key_format((char *)answer.bytes, (enum key_kind)i, args[1].bytes);
	return (int)strlen((char *)answer.bytes);
}

static int mac(void)
{
	uint8_t key[NOISE_KEY_LEN];

	handshake_mac_key(key, args[0].bytes);
	crypto_generichash_blake2b(answer.bytes, HANDSHAKE_MAC_LEN, args[1].bytes, args[1].len, key, sizeof key);
	return HANDSHAKE_MAC_LEN;
}

/* The length of answer, or a failure. words[0] is not hex where the table above says so. */
static int run(const char *command, char *words[])
{
	bool first_is_word = strcmp(command, "record") == 0 || strcmp(command, "key") == 0;

	for (int i = 0; i < 4 && words[i]; i++)
		if (i > 0 || !first_is_word)
			take_hex(&args[i], words[i]);
	if (strcmp(command, "initiator") == 0 || strcmp(command, "responder") == 0)
		return begin(*command == 'i');
	if (strcmp(command, "write") == 0)
		return (is_initiator ? noise_write_first : noise_write_second)(
			&hs, &ephemeral, args[0].bytes, args[0].len, answer.bytes);
	if (strcmp(command, "read") == 0)
		return (is_initiator ? noise_read_second : noise_read_first)(
			&hs, args[0].bytes, args[0].len, answer.bytes);
	if (strcmp(command, "split") == 0)
		return split();
	if (strcmp(command, "encrypt") == 0)
		return noise_encrypt(&out, NULL, 0, args[0].bytes, args[0].len, answer.bytes);
	if (strcmp(command, "decrypt") == 0)
		return noise_decrypt(&in, NULL, 0, args[0].bytes, args[0].len, answer.bytes);
	if (strncmp(command, "rekey-", 6) == 0) {
		noise_rekey(strcmp(command, "rekey-out") == 0 ? &out : &in);
		return 0;
	}
	if (strcmp(command, "record") == 0)
		return seal(&sealer, atoll(words[0]), args[1].bytes, args[1].len, answer.bytes);
	if (strcmp(command, "open") == 0)
		return open_record();
	if (strcmp(command, "key") == 0)
		return format_key(words[0]);
	if (strcmp(command, "mac") == 0)
		return mac();
	exit(64);
}

int main(void)
{
	static char hex[2 * BYTES_MAX + 1];
	char *line = NULL;
	size_t size = 0;

	if (sodium_init() < 0)
		return 1;
	while (getline(&line, &size, stdin) > 0) {
		char *words[6] = { NULL };
		int n = 0, len;

		for (char *word = strtok(line, " \n"); word && n < 5; word = strtok(NULL, " \n"))
			words[n++] = word;
		if (n == 0)
			return 64;
		len = run(words[0], words + 1);
		if (len < 0)
			puts("refused");
		else
			puts(sodium_bin2hex(hex, sizeof hex, answer.bytes, (size_t)len));
		fflush(stdout);
	}
	free(line);
	return 0;
}
