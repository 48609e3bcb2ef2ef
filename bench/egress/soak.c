// Many thousands of tunnels that end in every possible way: `soak count= flight= silent= seed= proxy= sources=
// echo=<port>,… reset=<port>,… half=<port>,…` (ports of `origin`). Checks what the client of each must receive; prints one
// line of JSON with the number of each kind, or exits at the first wrong one. `silent` more connections never send a
// complete head and wait for the proxy's timeout.
#include "hello.h"
#include "tcp.h"

#define MAX_PORTS 16
#define MAX_CONNECTIONS 4096
#define STUCK_MS 40000

/** How a connection ends. In the first five the client closes early, each at another point. */
enum fate {
  AT_ONCE, IN_HEAD, SENT_HEAD, OPENED, SENT_HELLO, WHOLE, CLIENT_ENDS, ORIGIN_ENDS, ORIGIN_RESETS, DENIED, SILENT, FATES
};
static const char *const names[FATES] = {"at once",     "in the head",  "asked",         "opened", "said",  "whole",
                                         "client ends", "origin ends", "origin resets", "denied", "silent"};
/** In percent. */
static const int shares[SILENT] = {3, 3, 3, 3, 3, 60, 8, 6, 6, 5};

/** A slot, reused for one connection after another; each connection has a number. */
struct connection {
  int fd;
  long number;
  enum fate fate;
  int has_sent, open;
  char head[2 * KIB];
  size_t head_length, got;
};

static int poll_fd, proxy, sources;
static int ports[FATES][MAX_PORTS], port_counts[FATES];
static long count, begun, done, silent, numbers, ended[FATES];
static uint64_t random_state;
static struct connection connections[MAX_CONNECTIONS];
static unsigned char hello[HELLO_BYTES];

static unsigned draw(unsigned below) {
  random_state ^= random_state << 13, random_state ^= random_state >> 7, random_state ^= random_state << 17;
  return (unsigned)(random_state >> 11) % below;
}

static void fail(const struct connection *conn, const char *what) {
  fprintf(stderr, "a tunnel of the kind '%s': %s (%zu bytes received)\n%.*s\n", names[conn->fate], what, conn->got,
          (int)conn->head_length, conn->head);
  exit(1);
}

static enum fate draw_fate(void) {
  unsigned at = draw(100);
  enum fate fate = AT_ONCE;
  for (int sum = shares[fate]; (int)at >= sum; sum += shares[++fate]) continue;
  return fate;
}

static void begin(struct connection *conn, enum fate fate) {
  *conn = (struct connection){.fd = dial(1 + (int)draw((unsigned)sources), proxy), .number = ++numbers, .fate = fate};
  watch(poll_fd, conn->fd, EPOLLIN | EPOLLOUT | EPOLLET, (uint64_t)(conn - connections));
}

static void finish(struct connection *conn, int with_reset) {
  if (with_reset) reset(conn->fd);
  else close(conn->fd);
  conn->fd = -1;
  ended[conn->fate]++;
  done++;
  if (conn->fate == SILENT || begun >= count) return;
  begun++;
  begin(conn, draw_fate());
}

/** True if the client closes at this point, half of the time with a reset. */
static int closes_at(struct connection *conn, enum fate at) {
  if (conn->fate != at) return 0;
  finish(conn, (int)draw(2));
  return 1;
}

static int send_all(struct connection *conn, const void *bytes, size_t length) {
  return send(conn->fd, bytes, length, MSG_NOSIGNAL) == (ssize_t)length;
}

static void send_request(struct connection *conn) {
  char head[256];
  enum fate kind = conn->fate == ORIGIN_ENDS || conn->fate == ORIGIN_RESETS ? conn->fate : WHOLE;
  const char *host = conn->fate == DENIED ? "denied.example" : "localhost";
  int port = ports[kind][draw((unsigned)port_counts[kind])];
  int length = snprintf(head, sizeof head, "CONNECT %s:%d HTTP/1.1\r\nHost: %s:%d\r\n\r\n", host, port, host, port);
  int part = conn->fate == IN_HEAD || (conn->fate == SILENT && draw(2)) ? 1 + (int)draw((unsigned)length - 1) : length;
  conn->has_sent = 1;
  if (closes_at(conn, AT_ONCE)) return;
  if (conn->fate == SILENT && part == length) return;
  if (!send_all(conn, head, (size_t)part)) fail(conn, "could not send the head");
  if (!closes_at(conn, IN_HEAD)) closes_at(conn, SENT_HEAD);
}

/** Called when the response head is complete, with the data after it. */
static void on_response(struct connection *conn, const char *end) {
  size_t rest = conn->head_length - (size_t)(end - conn->head);
  const char *expected = conn->fate == DENIED ? " 403" : conn->fate == SILENT ? " 408" : " 200";
  if (strncmp(conn->head + 8, expected, 4)) fail(conn, "unexpected status");
  conn->open = 1;
  conn->got = rest;
  if (conn->fate == DENIED) {
    finish(conn, 0);
    return;
  }
  if (conn->fate == SILENT || conn->fate == ORIGIN_ENDS || closes_at(conn, OPENED)) return;
  if (!send_all(conn, hello, HELLO_BYTES)) fail(conn, "could not send");
  if (closes_at(conn, SENT_HELLO)) return;
  if (conn->fate == CLIENT_ENDS && shutdown(conn->fd, SHUT_WR)) fail(conn, "could not shut down");
}

/** Called when the peer has closed or reset the connection. */
static void on_close(struct connection *conn, int is_reset) {
  enum fate fate = conn->fate;
  int is_full = conn->got == HELLO_BYTES && !is_reset;
  if (fate == ORIGIN_ENDS && is_full && !send_all(conn, hello, HELLO_BYTES))
    fail(conn, "could not send after the origin closed");
  if (!(fate == SILENT || fate == ORIGIN_RESETS || ((fate == ORIGIN_ENDS || fate == CLIENT_ENDS) && is_full)))
    fail(conn, is_reset ? "it is_reset off" : "it ended too early");
  finish(conn, 0);
}

/** Returns false when no more data is available. */
static int receive(struct connection *conn) {
  char buffer[2 * KIB];
  char *to = conn->open ? buffer : conn->head + conn->head_length;
  size_t room = conn->open ? sizeof buffer : sizeof conn->head - 1 - conn->head_length;
  ssize_t length = recv(conn->fd, to, room, 0);
  if (length < 0 && errno == EAGAIN) return 0;
  if (length <= 0) {
    on_close(conn, length < 0);
    return 0;
  }
  if (!conn->open) {
    conn->head_length += (size_t)length;
    const char *end = memmem(conn->head, conn->head_length, "\r\n\r\n", 4);
    const long number = conn->number;
    if (!end) return 1;
    on_response(conn, end + 4);
    if (conn->number != number || conn->fd < 0) return 0;
  } else {
    int is_echo = conn->fate == WHOLE || conn->fate == CLIENT_ENDS;
    if (is_echo && (conn->got + (size_t)length > HELLO_BYTES || memcmp(buffer, hello + conn->got, (size_t)length)))
      fail(conn, "wrong bytes received");
    conn->got += (size_t)length;
  }
  if (conn->fate == WHOLE && conn->got == HELLO_BYTES) {
    finish(conn, 0);
    return 0;
  }
  return 1;
}

static void advance(struct connection *conn, uint32_t events) {
  const long number = conn->number;
  if (conn->fd < 0) return;
  if (events & EPOLLOUT && !conn->has_sent) send_request(conn);
  if (events & ~EPOLLOUT)
    while (conn->number == number && conn->fd >= 0 && receive(conn)) continue;
}

static void run(void) {
  struct epoll_event events[512];
  while (done < count + silent) {
    int ready = epoll_wait(poll_fd, events, 512, STUCK_MS);
    if (ready == 0)
      for (long index = 0; index < MAX_CONNECTIONS; index++)
        if (connections[index].fd > 0) fail(&connections[index], "no progress");
    for (int index = 0; index < ready; index++) advance(&connections[events[index].data.u64], events[index].events);
  }
}

static void read_ports(char **args, const char *name, enum fate kind) {
  for (const char *at = text_of(args, name, NULL); at && port_counts[kind] < MAX_PORTS; at = strchr(at, ',')) {
    if (*at == ',') at++;
    ports[kind][port_counts[kind]++] = atoi(at);
  }
}

int main(int argc, char **args) {
  (void)argc;
  allow_many_files();
  write_hello(hello);
  proxy = (int)number_of(args, "proxy", NULL);
  sources = (int)number_of(args, "sources", "1");
  count = number_of(args, "count", NULL);
  silent = number_of(args, "silent", "0");
  random_state = (uint64_t)number_of(args, "seed", "1") * 2654435761u + 1;
  long flight = number_of(args, "flight", "64");
  read_ports(args, "echo", WHOLE);
  read_ports(args, "reset", ORIGIN_RESETS);
  read_ports(args, "half", ORIGIN_ENDS);
  poll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (flight < 1 || flight + silent > MAX_CONNECTIONS) errno = ERANGE, die("flight");
  for (long index = 0; index < silent; index++) begin(&connections[flight + index], SILENT);
  for (long index = 0; index < flight && begun < count; index++, begun++) begin(&connections[index], draw_fate());
  run();
  printf("{");
  for (enum fate fate = AT_ONCE; fate < FATES; fate++) printf("%s\"%s\":%ld", fate ? "," : "", names[fate], ended[fate]);
  printf("}\n");
}
