#include "server.h"

#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <uv.h>

#include "access.h"
#include "admit.h"
#include "clock.h"
#include "confine.h"
#include "devpg.h"
#include "engine.h"
#include "holdings.h"
#include "keyring.h"
#include "listener.h"
#include "log.h"
#include "notices.h"
#include "notify_ready.h"
#include "schema.h"
#include "session.h"
#include "status.h"
#include "strangers.h"
#include "trim.h"
#include "watch.h"

#define TICK_MS 1000

enum { SIGNAL_TERM, SIGNAL_INT, SIGNAL_HUP, SIGNAL_COUNT };

struct server {
	uv_loop_t loop;
	struct config *config;
	int argc;
	char *const *argv;
	struct devpg devpg;
	struct engine *engine;
	struct holdings *holdings;
	struct watches *watches;
	struct notices notices;
	struct trim trim;
	struct keyring ring;
	struct strangers strangers;
	struct sessions sessions;
	struct listener listeners[CONFIG_LISTEN_MAX];
	uv_signal_t signals[SIGNAL_COUNT];
	uv_prepare_t prepare;
	uv_check_t check;
	uv_timer_t tick;
	uv_timer_t drain;
	int64_t drain_until_ms;
	bool stopping;
};

static void stop(struct server *srv);

static void flush(struct server *srv)
{
	if (srv->engine)
		engine_flush(srv->engine);
	sessions_flush(&srv->sessions);
}

/* After all input of a turn was read, and once more after its timers: what has gathered goes out. */
static void on_prepare(uv_prepare_t *handle)
{
	flush(handle->data);
}

static void on_check(uv_check_t *handle)
{
	flush(handle->data);
}

static void on_tick(uv_timer_t *timer)
{
	struct server *srv = timer->data;

	strangers_tick(&srv->strangers);
	sessions_tick(&srv->sessions);
	for (size_t i = 0; i < CONFIG_LISTEN_MAX; i++)
		listener_retry(&srv->listeners[i]);
	holdings_tick(srv->holdings);
	watches_tick(srv->watches);
	notify_watchdog();
}

/* --dev brings its own database and, unless one was named, an address beside it. */
static int take_devpg(const struct devpg *devpg, struct config *config, struct leased_error *err)
{
	struct address *a = &config->listen[0];

	free(config->database);
	config->database = strdup(devpg->conninfo);
	if (!config->database)
		return fail(err, LEASED_ENOMEM, "out of memory");
	if (config->n_listen > 0)
		return 0;
	config->n_listen = 1;
	a->kind = ADDRESS_UNIX;
	if ((size_t)snprintf(a->path, sizeof a->path, "%s/leased.sock", devpg->dir) >= sizeof a->path)
		return fail(err, LEASED_ECONFIG, "listen on %s/leased.sock: the path is too long", devpg->dir);
	return 0;
}

/* Both files, or neither: our keys, and who may do what. */
static int load_files(struct keyring *ret_ring, struct access **ret_access, const struct config *config,
	struct leased_error *err)
{
	int rc = keyring_load(ret_ring, config, err);

	if (rc < 0)
		return rc;
	if (*config->authorized_clients)
		rc = access_load(ret_access, config->authorized_clients, err);
	else
		rc = access_new_default(ret_access, err);
	if (rc < 0)
		keyring_fini(ret_ring);
	return rc;
}

/* New keys count for connections that come from now on. */
static void change_keys(struct server *srv, const struct keyring *fresh)
{
	keyring_fini(&srv->ring);
	srv->ring = *fresh;
	keyring_log(fresh);
}

static void reload(struct server *srv)
{
	char kept[CONFIG_KEPT_SIZE];
	struct access *access;
	struct keyring ring;
	struct leased_error err;
	struct config fresh;
	int rc = config_load(&fresh, srv->argc, srv->argv, &err);
	bool loaded = rc == 0;

	if (rc == 0 && fresh.dev)
		rc = take_devpg(&srv->devpg, &fresh, &err);
	if (rc == 0 && !*fresh.key != !srv->ring.n)
		rc = fail(&err, LEASED_ECONFIG, "key: whether TCP is encrypted changes at a restart only");
	if (rc == 0)
		rc = load_files(&ring, &access, &fresh, &err);
	if (rc < 0) {
		if (loaded)
			config_fini(&fresh);
		log_event(LOG_ERROR, "reload_failed", "why", 's', err.text, NULL);
		return;
	}
	config_take_over(srv->config, &fresh, kept);
	log_init(srv->config->log_level, srv->config->log_json);
	if (*kept)
		log_event(LOG_WARN, "reload_incomplete", "unchanged", 's', kept, "why", 's',
			"these change at a restart only", NULL);
	change_keys(srv, &ring);
	admit_reload(&srv->sessions, access);
	trim_reload(&srv->trim);
	log_event(LOG_INFO, "reloaded", NULL);
}

static void on_signal(uv_signal_t *handle, int signo)
{
	struct server *srv = handle->data;

	if (signo == SIGHUP)
		reload(srv);
	else
		stop(srv);
}

static int on_connection(void *owner, uv_stream_t *stream)
{
	struct server *srv = owner;

	/* With keys there is no plain TCP, on loopback neither: other users, containers and forwarders are there too. */
	if (stream->type == UV_TCP && srv->ring.n > 0)
		return strangers_accept(&srv->strangers, stream);
	return session_accept(&srv->sessions, stream);
}

/* A client has shown that it has the secret of arrival->key; whether that is a known one, session_adopt asks. */
static bool on_known(void *owner, uv_loop_t *loop, const struct arrival *arrival)
{
	struct server *srv = owner;

	return session_adopt(&srv->sessions, loop, arrival);
}

static void on_turn(void *owner, int64_t daemon, struct text name)
{
	struct server *srv = owner;

	engine_notified(srv->engine, daemon, name);
}

static void on_stolen(void *owner, const struct notice *notice)
{
	struct server *srv = owner;
	struct change stolen = { .kind = CHANGE_STOLEN,
		.claim = { .name = notice->name, .token = (uint64_t)notice->number } };

	sessions_tell_lost(&srv->sessions, notice->principal, notice->name, (uint64_t)notice->number,
		notice->why);
	watches_take(srv->watches, &stolen);
}

static void on_listening(void *owner, bool listening)
{
	struct server *srv = owner;

	engine_set_listening(srv->engine, listening);
	watches_set_listening(srv->watches, listening);
}

static void on_change(void *owner, const struct change *change)
{
	struct server *srv = owner;

	watches_take(srv->watches, change);
}

static void on_notices_closed(void *owner);

static const struct notices_events notices_events = {
	.on_turn = on_turn,
	.on_stolen = on_stolen,
	.on_change = on_change,
	.on_state = on_listening,
	.on_closed = on_notices_closed,
};

static void watch_signal(struct server *srv, int index, int signo)
{
	uv_signal_init(&srv->loop, &srv->signals[index]);
	srv->signals[index].data = srv;
	uv_signal_start(&srv->signals[index], on_signal, signo);
}

/* Everything but the engine and the listeners: what cannot fail. */
static void start_loop(struct server *srv)
{
	uv_loop_init(&srv->loop);
	watch_signal(srv, SIGNAL_TERM, SIGTERM);
	watch_signal(srv, SIGNAL_INT, SIGINT);
	watch_signal(srv, SIGNAL_HUP, SIGHUP);
	uv_prepare_init(&srv->loop, &srv->prepare);
	srv->prepare.data = srv;
	uv_prepare_start(&srv->prepare, on_prepare);
	uv_check_init(&srv->loop, &srv->check);
	srv->check.data = srv;
	uv_check_start(&srv->check, on_check);
	uv_timer_init(&srv->loop, &srv->tick);
	srv->tick.data = srv;
	uv_timer_start(&srv->tick, on_tick, TICK_MS, TICK_MS);
	uv_timer_init(&srv->loop, &srv->drain);
	srv->drain.data = srv;
}

static int start_listeners(struct server *srv, struct leased_error *err)
{
	for (size_t i = 0; i < srv->config->n_listen; i++) {
		int rc = listener_start(&srv->listeners[i], &srv->loop, &srv->config->listen[i],
			srv->config->socket_mode, on_connection, srv, err);

		if (rc < 0)
			return rc;
	}
	return 0;
}

static void log_ready(const struct server *srv)
{
	char all[CONFIG_LISTEN_MAX * ADDRESS_TEXT_SIZE] = "", one[ADDRESS_TEXT_SIZE];

	for (size_t i = 0; i < srv->config->n_listen; i++) {
		address_format(one, &srv->listeners[i].bound);
		if (i > 0)
			strcat(all, ",");
		strcat(all, one);
	}
	keyring_log(&srv->ring);
	log_event(LOG_INFO, "ready", "version", 's', LEASED_VERSION, "listen", 's', all, NULL);
	notify_ready();
}

/* A password there works; but whoever sets it up is told that there are better places. */
static void warn_of_environment(void)
{
	if (getenv("PGPASSWORD"))
		log_event(LOG_WARN, "password_in_environment", "why", 's',
			"PGPASSWORD is seen by root, by child processes and often by unit files: use .pgpass or a service file",
			NULL);
}

/* A private PostgreSQL, and a socket beside it that only this user may use. */
static int start_dev(struct server *srv, struct leased_error *err)
{
	struct config *config = srv->config;
	int rc;

	if (!config->dev)
		return 0;
	rc = devpg_start(&srv->devpg, config->data_dir, err);
	if (rc == 0)
		rc = schema_prepare_dev(srv->devpg.admin, err);
	if (rc < 0)
		return rc;
	return take_devpg(&srv->devpg, config, err);
}

/* A connection is a descriptor; the soft limit is often 1,024. */
static void raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static void close_handle(uv_handle_t *handle, void *arg)
{
	(void)arg;
	if (!uv_is_closing(handle))
		uv_close(handle, NULL);
}

/* The last steps, once sessions and engine are gone: the loop runs dry. */
static void close_rest(void *data)
{
	struct server *srv = data;

	srv->engine = NULL;
	if (srv->holdings)
		holdings_free(srv->holdings); /* until here the tick looks at them */
	srv->holdings = NULL;
	for (size_t i = 0; i < SIGNAL_COUNT; i++)
		close_handle((uv_handle_t *)&srv->signals[i], NULL);
	close_handle((uv_handle_t *)&srv->prepare, NULL);
	close_handle((uv_handle_t *)&srv->check, NULL);
	close_handle((uv_handle_t *)&srv->tick, NULL);
	close_handle((uv_handle_t *)&srv->drain, NULL);
	trim_close(&srv->trim);
}

static void on_notices_closed(void *owner)
{
	struct server *srv = owner;

	watches_close(srv->watches);
	engine_close(srv->engine, close_rest, srv);
}

static void on_sessions_gone(void *data)
{
	struct server *srv = data;

	srv->sessions.on_empty = NULL;
	if (srv->notices.open)
		notices_close(&srv->notices);
	else
		on_notices_closed(srv);
}

static void leave(struct server *srv)
{
	uv_timer_stop(&srv->drain);
	srv->sessions.on_empty = on_sessions_gone;
	srv->sessions.data = srv;
	sessions_close(&srv->sessions);
}

/* Leaves as soon as nothing is in flight, waiters aside: they go on elsewhere. */
static void on_drain(uv_timer_t *timer)
{
	struct server *srv = timer->data;
	size_t ours = srv->trim.in_flight; /* nobody waits for that */

	if (engine_unanswered(srv->engine) <= ours || clock_ms() >= srv->drain_until_ms)
		leave(srv);
}

static void stop(struct server *srv)
{
	if (srv->stopping) {
		if (uv_is_active((uv_handle_t *)&srv->drain))
			leave(srv); /* asked twice: at once */
		return;
	}
	srv->stopping = true;
	trim_stop(&srv->trim);
	log_event(LOG_INFO, "stopping", NULL);
	notify_stopping();
	holdings_leave(srv->holdings);
	watches_leave(srv->watches);
	for (size_t i = 0; i < srv->config->n_listen; i++)
		listener_close(&srv->listeners[i]);
	strangers_close(&srv->strangers);
	sessions_pause(&srv->sessions);
	srv->drain_until_ms = clock_ms() + srv->config->drain_timeout_ms;
	uv_timer_start(&srv->drain, on_drain, 0, 20);
}

int server_check(const struct config *config, struct leased_error *err)
{
	struct keyring ring;
	struct access *access;
	int rc = load_files(&ring, &access, config, err);

	if (rc < 0)
		return rc;
	keyring_fini(&ring);
	access_free(access);
	return 0;
}

int server_run(struct config *config, int argc, char *const argv[], struct leased_error *err)
{
	static struct server srv;
	struct access *access;
	int rc;

	if (sodium_init() < 0)
		return fail(err, LEASED_EINTERNAL, "libsodium does not start");
	rc = confine(config->user, err);
	if (rc < 0)
		return rc;
	log_init(config->log_level, config->log_json);
	signal(SIGPIPE, SIG_IGN);
	warn_of_environment();
	raise_limit();
	srv = (struct server){ .config = config, .argc = argc, .argv = argv };
	rc = load_files(&srv.ring, &access, config, err);
	if (rc < 0)
		return rc;
	rc = start_dev(&srv, err);
	if (rc < 0)
		goto stop_dev;
	start_loop(&srv);
	rc = engine_new(&srv.engine, &srv.loop, config, err);
	if (rc == 0 && (holdings_new(&srv.holdings, &srv.loop, srv.engine) < 0 ||
			       watches_new(&srv.watches, &srv.loop, config, srv.engine, &srv.notices) < 0))
		rc = fail(err, LEASED_ENOMEM, "out of memory");
	if (rc < 0) {
		close_rest(&srv);
		goto run_dry;
	}
	trim_start(&srv.trim, &srv.loop, srv.engine, config);
	strangers_init(&srv.strangers, &srv.loop, config, &srv.ring, on_known, &srv);
	sessions_init(&srv.sessions, config, srv.engine, srv.holdings, srv.watches, access);
	access = NULL;
	srv.sessions.notices_problem = srv.notices.why;
	rc = notices_start(&srv.notices, &srv.loop, config, store_daemon(engine_store(srv.engine)),
		&notices_events, &srv, err);
	if (rc == 0)
		rc = start_listeners(&srv, err);
	if (rc == 0)
		log_ready(&srv);
	else
		stop(&srv);
run_dry:
	uv_run(&srv.loop, UV_RUN_DEFAULT);
	uv_loop_close(&srv.loop);
	sessions_fini(&srv.sessions);
	log_event(LOG_INFO, "stopped", NULL);
stop_dev:
	devpg_stop(&srv.devpg);
	access_free(access);
	keyring_fini(&srv.ring);
	return rc;
}
