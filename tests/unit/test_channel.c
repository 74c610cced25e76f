/* A channel and a daemon that closes: what it said before is not lost. */
#include "channel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "table.h"

static void last_words_are_heard_after_a_send_that_failed(void **state)
{
	static const uint8_t words[] = { 0, 0, 0, 2, 'h', 'i' };
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	char directory[] = "/tmp/channel.XXXXXX";
	struct address address;
	struct leased_error err;
	struct channel ch;
	struct frame frame;
	int listener = socket(AF_UNIX, SOCK_STREAM, 0), peer;
	char text[64];

	(void)state;
	assert_non_null(mkdtemp(directory));
	snprintf(at.sun_path, sizeof at.sun_path, "%s/s", directory);
	snprintf(text, sizeof text, "unix:%s", at.sun_path);
	assert_int_equal(address_parse(&address, text, &err), 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
	assert_int_equal(listen(listener, 1), 0);
	channel_init(&ch);
	assert_int_equal(channel_connect(&ch, &address, NULL, &err), 0);
	assert_int_equal(channel_finish_connect(&ch, &err), 0);
	peer = accept(listener, NULL, NULL);
	assert_int_equal(write(peer, words, sizeof words), sizeof words);
	close(peer);

	memset(channel_reserve(&ch, 5), 1, 5);
	channel_commit(&ch, 5);
	assert_int_equal(channel_flush(&ch, &err), 0);
	assert_int_equal(channel_read(&ch, &err), 0);
	assert_int_equal(channel_next(&ch, &frame), 1);
	assert_int_equal(frame.len, 2);
	assert_memory_equal(frame.body, "hi", 2);
	assert_int_equal(channel_read(&ch, &err), LEASED_EUNAVAILABLE);
	channel_close(&ch);
	close(listener);
	unlink(at.sun_path);
	rmdir(directory);
}

int main(void)
{
	static struct table table;

	table_add(&table, "last words are heard after a send that failed", last_words_are_heard_after_a_send_that_failed, NULL);
	return table_run(&table, "channel");
}
