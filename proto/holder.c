#include "holder.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sodium.h>

#include "status.h"

#define NONCE_DIGITS 16

/* The host's own name, made fit for a holder. */
static void own_host(char host[static HOST_MAX_LEN + 1])
{
	if (gethostname(host, HOST_MAX_LEN) < 0)
		host[0] = '\0';
	host[HOST_MAX_LEN] = '\0';
	for (char *c = host; *c; c++)
		if ((unsigned char)*c <= ' ' || *c == ':' || *c == 0x7f)
			*c = '-';
	if (host[0] == '\0')
		strcpy(host, "localhost");
	if (host_check((const uint8_t *)host, strlen(host), NULL) == 0)
		return;
	for (char *c = host; *c; c++) /* not UTF-8, or a control character above ASCII */
		if ((unsigned char)*c >= 0x80)
			*c = '-';
}

void holder_new(struct holder *ret_holder)
{
	memset(ret_holder, 0, sizeof *ret_holder);
	own_host(ret_holder->host);
	ret_holder->host_len = (uint8_t)strlen(ret_holder->host);
	ret_holder->pid = (int32_t)getpid();
	randombytes_buf(&ret_holder->nonce, sizeof ret_holder->nonce);
}

/* Decimal without sign or leading zero, so that each holder has one text form. */
static int parse_pid(int32_t *ret_pid, const char *text, size_t len, struct leased_error *err)
{
	int64_t pid = 0;

	if (len == 0 || len > 10 || strspn(text, "0123456789") != len || text[0] == '0')
		return fail(err, LEASED_EUSAGE, "the pid of the holder is not a positive number");
	for (size_t i = 0; i < len; i++)
		pid = pid * 10 + (text[i] - '0');
	if (pid > INT32_MAX)
		return fail(err, LEASED_EUSAGE, "the pid of the holder is over %d", INT32_MAX);
	*ret_pid = (int32_t)pid;
	return 0;
}

static int parse_nonce(uint64_t *ret_nonce, const char *text, struct leased_error *err)
{
	static const char digits[] = "0123456789abcdef";
	uint64_t nonce = 0;

	if (strlen(text) != NONCE_DIGITS || strspn(text, digits) != NONCE_DIGITS)
		return fail(err, LEASED_EUSAGE,
			"the nonce of the holder is not 16 lower-case hex digits");
	for (size_t i = 0; i < NONCE_DIGITS; i++)
		nonce = nonce << 4 | (uint64_t)(strchr(digits, text[i]) - digits);
	*ret_nonce = nonce;
	return 0;
}

static const char *find_back(const char *from, const char *end, char wanted)
{
	while (end > from)
		if (*--end == wanted)
			return end;
	return NULL;
}

int holder_parse(struct holder *ret_holder, const char *text, struct leased_error *err)
{
	const char *nonce = strrchr(text, ':');
	const char *pid = nonce ? find_back(text, nonce, ':') : NULL;
	struct holder holder = { 0 };
	size_t host_len;
	int rc;

	if (!pid)
		return fail(err, LEASED_EUSAGE, "a holder is written host:pid:nonce");
	host_len = (size_t)(pid - text);
	if (host_check((const uint8_t *)text, host_len, err) < 0) {
		if (err)
			err->status = LEASED_EUSAGE;
		return LEASED_EUSAGE;
	}
	memcpy(holder.host, text, host_len);
	holder.host_len = (uint8_t)host_len;
	rc = parse_pid(&holder.pid, pid + 1, (size_t)(nonce - pid - 1), err);
	if (rc < 0)
		return rc;
	rc = parse_nonce(&holder.nonce, nonce + 1, err);
	if (rc < 0)
		return rc;
	*ret_holder = holder;
	return 0;
}

size_t holder_format(char out[static HOLDER_TEXT_SIZE], const struct holder *holder)
{
	return (size_t)snprintf(out, HOLDER_TEXT_SIZE, "%.*s:%" PRId32 ":%016" PRIx64,
		holder->host_len, holder->host, holder->pid, holder->nonce);
}
