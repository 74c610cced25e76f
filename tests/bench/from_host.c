#include "from_host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

int connect_from_host(const struct address *to, uint32_t host, int flags)
{
	struct sockaddr_in from = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f010001 + host) };
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(to->port) };
	struct linger reset = { .l_onoff = 1 };
	int fd = socket(AF_INET, SOCK_STREAM | flags, 0), one = 1;

	inet_pton(AF_INET, to->host, &in.sin_addr);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset); /* no port is kept in TIME_WAIT */
	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
	if (fd >= 0 && bind(fd, (struct sockaddr *)&from, sizeof from) == 0 &&
		(connect(fd, (struct sockaddr *)&in, sizeof in) == 0 || errno == EINPROGRESS))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}
