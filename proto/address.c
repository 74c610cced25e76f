#include "address.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "key.h"
#include "status.h"

static int parse_unix(struct address *ret_address, const char *path, struct leased_error *err)
{
	if (path[0] != '/')
		return fail(
			err, LEASED_EUSAGE, "the path of a unix: address does not start with /");
	if (strlen(path) >= sizeof ret_address->path)
		return fail(err, LEASED_EUSAGE,
			"the path of a unix: address is over %zu bytes long",
			sizeof ret_address->path - 1);
	*ret_address = (struct address){ .kind = ADDRESS_UNIX };
	strcpy(ret_address->path, path);
	return 0;
}

static bool is_ipv6(const char *host)
{
	struct in6_addr addr;

	return inet_pton(AF_INET6, host, &addr) == 1;
}

static bool is_host_name(const char *host)
{
	for (const char *c = host; *c; c++)
		if (!isascii(*c) || !(isalnum((unsigned char)*c) || strchr("-._", *c)))
			return false;
	return true;
}

static int parse_port(uint16_t *ret_port, const char *text, struct leased_error *err)
{
	size_t digits = strspn(text, "0123456789");
	unsigned long port = 0;

	if (digits == 0 || digits > 5 || text[digits] != '\0')
		return fail(err, LEASED_EUSAGE, "the port of the address is not a number");
	for (size_t i = 0; i < digits; i++)
		port = port * 10 + (unsigned long)(text[i] - '0');
	if (port > UINT16_MAX)
		return fail(err, LEASED_EUSAGE, "the port of the address is over 65535");
	*ret_port = (uint16_t)port;
	return 0;
}

static int parse_tcp(struct address *ret_address, const char *text, struct leased_error *err)
{
	struct address address = { .kind = ADDRESS_TCP };
	const char *colon = strrchr(text, ':');
	bool has_brackets;
	size_t len;
	int rc;

	if (!colon || strchr(colon, ']')) /* the last colon may be the address's own */
		return fail(err, LEASED_EUSAGE, "the address has no port (host:port)");
	len = (size_t)(colon - text);
	has_brackets = len >= 2 && text[0] == '[' && colon[-1] == ']';
	if (has_brackets) {
		text++;
		len -= 2;
	}
	if (len == 0)
		return fail(err, LEASED_EUSAGE, "the address has no host (host:port)");
	if (len >= sizeof address.host)
		return fail(err, LEASED_EUSAGE, "the host of the address is over %zu bytes long",
			sizeof address.host - 1);
	memcpy(address.host, text, len);
	if (has_brackets && !is_ipv6(address.host))
		return fail(err, LEASED_EUSAGE, "what stands in brackets is not an IPv6 address");
	if (!has_brackets && !is_host_name(address.host))
		return fail(err, LEASED_EUSAGE,
			"the host of the address is neither a name nor an IPv6 address in brackets");
	rc = parse_port(&address.port, colon + 1, err);
	if (rc < 0)
		return rc;
	*ret_address = address;
	return 0;
}

/* host:port/KEY: TCP to a daemon that proves to have the key. */
static int parse_leased(struct address *ret_address, const char *text, struct leased_error *err)
{
	const char *slash = strchr(text, '/');
	char place[sizeof ret_address->host + sizeof "[]:65535"];
	struct address address;
	struct leased_error why;
	int rc;

	if (!slash)
		return fail(err, LEASED_EUSAGE,
			"a leased: address has no key (leased://host:port/leased-server-pub:...)");
	if ((size_t)(slash - text) >= sizeof place)
		return fail(err, LEASED_EUSAGE, "the host of the address is too long");
	memcpy(place, text, (size_t)(slash - text));
	place[slash - text] = '\0';
	rc = parse_tcp(&address, place, err);
	if (rc < 0)
		return rc;
	if (key_parse(address.key, KEY_SERVER_PUBLIC, slash + 1, &why) < 0)
		return fail(err, LEASED_EUSAGE, "the key in the address: %s", why.text);
	address.has_key = true;
	*ret_address = address;
	return 0;
}

int address_parse(struct address *ret_address, const char *text, struct leased_error *err)
{
	if (strncmp(text, "unix:", 5) == 0)
		return parse_unix(ret_address, text + 5, err);
	if (strncmp(text, "tcp:", 4) == 0)
		return parse_tcp(ret_address, text + 4, err);
	if (strncmp(text, "leased://", 9) == 0)
		return parse_leased(ret_address, text + 9, err);
	return fail(err, LEASED_EUSAGE,
		"an address is unix:/path, tcp:host:port, tcp:[IPv6 address]:port or leased://host:port/KEY");
}

void address_format(char out[static ADDRESS_TEXT_SIZE], const struct address *address)
{
	bool is_ipv6_literal = strchr(address->host, ':');
	char key[1 + KEY_TEXT_SIZE] = "/";

	if (address->kind == ADDRESS_UNIX) {
		snprintf(out, ADDRESS_TEXT_SIZE, "unix:%s", address->path);
		return;
	}
	if (address->has_key)
		key_format(key + 1, KEY_SERVER_PUBLIC, address->key);
	snprintf(out, ADDRESS_TEXT_SIZE, "%s%s%s%s:%u%s", address->has_key ? "leased://" : "tcp:",
		is_ipv6_literal ? "[" : "", address->host, is_ipv6_literal ? "]" : "", address->port,
		address->has_key ? key : "");
}

int address_to_socket(struct sockaddr_storage *ret_socket, socklen_t *ret_len,
	const struct address *address, struct leased_error *err)
{
	const char *host = strcmp(address->host, "localhost") == 0 ? "127.0.0.1" : address->host;
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(address->port) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(address->port) };

	if (address->kind == ADDRESS_UNIX) {
		strcpy(un.sun_path, address->path);
		*ret_len = sizeof un;
		memcpy(ret_socket, &un, sizeof un);
	} else if (inet_pton(AF_INET, host, &v4.sin_addr) == 1) {
		*ret_len = sizeof v4;
		memcpy(ret_socket, &v4, sizeof v4);
	} else if (inet_pton(AF_INET6, host, &v6.sin6_addr) == 1) {
		*ret_len = sizeof v6;
		memcpy(ret_socket, &v6, sizeof v6);
	} else {
		return fail(err, LEASED_EUSAGE,
			"%s: host names are not looked up: use the IP address, or localhost", host);
	}
	return 0;
}

bool address_is_loopback_literal(const struct address *address)
{
	struct in6_addr v6;
	struct in_addr v4;

	if (address->kind != ADDRESS_TCP)
		return false;
	if (inet_pton(AF_INET, address->host, &v4) == 1)
		return ntohl(v4.s_addr) >> 24 == 127;
	return inet_pton(AF_INET6, address->host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}
