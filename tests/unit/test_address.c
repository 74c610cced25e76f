#include "address.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/un.h>

#include "table.h"

#define L50  "llllllllllllllllllllllllllllllllllllllllllllllllll"
#define L100 L50 L50

#define KEY   "leased-server-pub:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh-xn8E9" /* of the bytes 0 to 31 */
#define WRONG "leased-server-pub:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh-An8E9"

enum { BAD, UNIX, TCP, LOOPBACK };

static struct address_case {
	const char *name, *text;
	int want;
	const char *host; /* the path of a Unix address */
	uint16_t port;
} cases[] = {
	{ "a Unix path", "unix:/run/leased/leased.sock", UNIX, "/run/leased/leased.sock", 0 },
	{ "a path with colons and spaces", "unix:/tmp/a b:c", UNIX, "/tmp/a b:c", 0 },
	{ "a path of 107 bytes fits", "unix:/" L100 "123456", UNIX, "/" L100 "123456", 0 },
	{ "a path of 108 bytes does not", "unix:/" L100 "1234567", BAD, NULL, 0 },
	{ "a relative path is refused", "unix:leased.sock", BAD, NULL, 0 },
	{ "an abstract name is refused", "unix:@leased", BAD, NULL, 0 },
	{ "no path is refused", "unix:", BAD, NULL, 0 },
	{ "127.0.0.1 is loopback", "tcp:127.0.0.1:7420", LOOPBACK, "127.0.0.1", 7420 },
	{ "all of 127/8 is loopback", "tcp:127.255.3.4:1", LOOPBACK, "127.255.3.4", 1 },
	{ "[::1] is loopback, brackets off", "tcp:[::1]:7420", LOOPBACK, "::1", 7420 },
	{ "::1 written out is loopback", "tcp:[0:0:0:0:0:0:0:1]:1", LOOPBACK, "0:0:0:0:0:0:0:1",
		1 },
	{ "port 0 is left to the kernel", "tcp:127.0.0.1:0", LOOPBACK, "127.0.0.1", 0 },
	{ "the highest port", "tcp:127.0.0.1:65535", LOOPBACK, "127.0.0.1", 65535 },
	{ "a name is not a loopback literal", "tcp:localhost:7420", TCP, "localhost", 7420 },
	{ "127.1 is a name", "tcp:127.1:7420", TCP, "127.1", 7420 },
	{ "0.0.0.0 is not loopback", "tcp:0.0.0.0:7420", TCP, "0.0.0.0", 7420 },
	{ "128.0.0.1 is not loopback", "tcp:128.0.0.1:7420", TCP, "128.0.0.1", 7420 },
	{ "[::] is not loopback", "tcp:[::]:7420", TCP, "::", 7420 },
	{ "a mapped address is not loopback", "tcp:[::ffff:127.0.0.1]:1", TCP, "::ffff:127.0.0.1",
		1 },
	{ "a host of 253 bytes", "tcp:" L100 L100 L50 "123:1", TCP, L100 L100 L50 "123", 1 },
	{ "a host of 254 bytes is refused", "tcp:" L100 L100 L50 "1234:1", BAD, NULL, 0 },
	{ "empty is refused", "", BAD, NULL, 0 },
	{ "no kind is refused", "127.0.0.1:7420", BAD, NULL, 0 },
	{ "an unknown kind is refused", "udp:127.0.0.1:7420", BAD, NULL, 0 },
	{ "an upper-case kind is refused", "TCP:127.0.0.1:7420", BAD, NULL, 0 },
	{ "no port is refused", "tcp:127.0.0.1", BAD, NULL, 0 },
	{ "an empty port is refused", "tcp:127.0.0.1:", BAD, NULL, 0 },
	{ "brackets without port are refused", "tcp:[::1]", BAD, NULL, 0 },
	{ "brackets with an empty port are refused", "tcp:[::1]:", BAD, NULL, 0 },
	{ "port 65536 is refused", "tcp:h:65536", BAD, NULL, 0 },
	{ "a port that wraps is refused", "tcp:h:4294974716", BAD, NULL, 0 },
	{ "a negative port is refused", "tcp:h:-1", BAD, NULL, 0 },
	{ "a port by name is refused", "tcp:h:http", BAD, NULL, 0 },
	{ "text behind the port is refused", "tcp:h:1 ", BAD, NULL, 0 },
	{ "no host is refused", "tcp::7420", BAD, NULL, 0 },
	{ "empty brackets are refused", "tcp:[]:7420", BAD, NULL, 0 },
	{ "IPv6 without brackets is refused", "tcp:::1:7420", BAD, NULL, 0 },
	{ "a name in brackets is refused", "tcp:[localhost]:7420", BAD, NULL, 0 },
	{ "half a bracket is refused", "tcp:[::1:7420", BAD, NULL, 0 },
	{ "a space in the host is refused", "tcp:a b:7420", BAD, NULL, 0 },
	{ "a comma in the host is refused", "tcp:a,b:7420", BAD, NULL, 0 },
	{ "a place with its key", "leased://10.0.0.5:7420/" KEY, TCP, "10.0.0.5", 7420 },
	{ "an IPv6 place with its key", "leased://[::1]:7420/" KEY, LOOPBACK, "::1", 7420 },
	{ "the longest host with a key", "leased://" L100 L100 L50 "123:65535/" KEY, TCP, L100 L100 L50 "123", 65535 },
	{ "a longer host with a key is refused", "leased://" L100 L100 L50 "1234:1/" KEY, BAD, NULL, 0 },
	{ "a much longer host with a key is refused", "leased://" L100 L100 L100 ":1/" KEY, BAD, NULL, 0 },
	{ "a place without the key is refused", "leased://10.0.0.5:7420", BAD, NULL, 0 },
	{ "an empty key is refused", "leased://10.0.0.5:7420/", BAD, NULL, 0 },
	{ "a key that does not fit its checksum is refused", "leased://10.0.0.5:7420/" WRONG, BAD, NULL, 0 },
	{ "text behind the key is refused", "leased://10.0.0.5:7420/" KEY "/", BAD, NULL, 0 },
	{ "a key behind a tcp: address is refused", "tcp:10.0.0.5:7420/" KEY, BAD, NULL, 0 },
	{ "a key without a port is refused", "leased://10.0.0.5/" KEY, BAD, NULL, 0 },
};

static void check_case(void **state)
{
	const struct address_case *c = *state;
	struct address address = { .port = 42 }, back;
	struct leased_error err = { 0 };
	char out[ADDRESS_TEXT_SIZE];

	if (c->want == BAD) {
		assert_int_equal(address_parse(&address, c->text, &err), LEASED_EUSAGE);
		assert_int_equal(err.status, LEASED_EUSAGE);
		assert_int_equal(address.port, 42); /* untouched */
		return;
	}
	assert_int_equal(address_parse(&address, c->text, &err), 0);
	assert_int_equal(address.kind, c->want == UNIX ? ADDRESS_UNIX : ADDRESS_TCP);
	assert_string_equal(c->want == UNIX ? address.path : address.host, c->host);
	assert_int_equal(address.port, c->port);
	assert_int_equal(address.has_key, strncmp(c->text, "leased:", 7) == 0);
	assert_int_equal(address_is_loopback_literal(&address), c->want == LOOPBACK);
	address_format(out, &address);
	assert_string_equal(out, c->text);
	assert_int_equal(address_parse(&back, out, NULL), 0);
	assert_memory_equal(&back, &address, sizeof back);
}

static struct socket_case {
	const char *name, *text;
	int want, family;
	const char *host;
} socket_cases[] = {
	{ "a path to connect to", "unix:/run/x.sock", 0, AF_UNIX, "/run/x.sock" },
	{ "an IPv4 address to connect to", "tcp:127.0.0.1:7420", 0, AF_INET, "127.0.0.1" },
	{ "an IPv6 address to connect to", "tcp:[::1]:7420", 0, AF_INET6, "::1" },
	{ "localhost is known without asking", "tcp:localhost:7420", 0, AF_INET, "127.0.0.1" },
	{ "another name is not looked up", "tcp:db2.example:7420", LEASED_EUSAGE, 0, NULL },
	{ "nor is a short form", "tcp:127.1:7420", LEASED_EUSAGE, 0, NULL },
};

static void check_socket(void **state)
{
	const struct socket_case *c = *state;
	struct sockaddr_storage socket = { 0 };
	struct sockaddr_in *v4 = (struct sockaddr_in *)&socket;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&socket;
	socklen_t len = 42;
	struct address address;
	char host[INET6_ADDRSTRLEN];

	assert_int_equal(address_parse(&address, c->text, NULL), 0);
	assert_int_equal(address_to_socket(&socket, &len, &address, NULL), c->want);
	assert_int_equal(socket.ss_family, c->family);
	if (c->want < 0) {
		assert_int_equal(len, 42); /* untouched */
	} else if (c->family == AF_UNIX) {
		assert_string_equal(((struct sockaddr_un *)&socket)->sun_path, c->host);
		assert_int_equal(len, sizeof(struct sockaddr_un));
	} else {
		inet_ntop(c->family, c->family == AF_INET ? (void *)&v4->sin_addr : (void *)&v6->sin6_addr,
			host, sizeof host);
		assert_string_equal(host, c->host);
		assert_int_equal(ntohs(c->family == AF_INET ? v4->sin_port : v6->sin6_port), 7420);
		assert_int_equal(len, c->family == AF_INET ? sizeof *v4 : sizeof *v6);
	}
}

int main(void)
{
	struct table table = { 0 };

	for (size_t i = 0; i < TABLE_LEN(cases); i++)
		table_add(&table, cases[i].name, check_case, &cases[i]);
	for (size_t i = 0; i < TABLE_LEN(socket_cases); i++)
		table_add(&table, socket_cases[i].name, check_socket, &socket_cases[i]);
	return table_run(&table, "address");
}
