// Opens many thousands of tunnels that end in every possible way: `soak count= flight= silent= seed= proxy= sources=
// echo=<port>,… reset=<port>,… half=<port>,…` (ports of `origin`). It checks what the client of each one sees and prints the
// counts as one line of JSON, or exits with the first error. `silent` more connections never send a complete head and wait for
// the timeout of the proxy.
#include "hello.h"
#include "tcp.h"

#define MAX_PORTS 16
#define MAX_LINES 4096
#define STUCK_MS 40000

/** How a connection ends. In the first five, the client disconnects early, each at another moment. */
enum fate { AT_ONCE, IN_HEAD, ASKED, OPENED, SAID, WHOLE, CLIENT_ENDS, ORIGIN_ENDS, ORIGIN_RESETS, DENIED, SILENT, FATES };
static const char *const names[FATES] = {"at once",     "in the head",  "asked",         "opened", "said",  "whole",
                                         "client ends", "origin ends", "origin resets", "denied", "silent"};
/** Percentages. */
static const int shares[SILENT] = {3, 3, 3, 3, 3, 60, 8, 6, 6, 5};

/** A slot that is reused for successive connections, each with a number. */
struct line {
  int fd;
  long number;
  enum fate fate;
  int asked, open;
  char head[2 * KIB];
  size_t head_length, got;
};

static int poll_fd, proxy, sources;
static int ports[FATES][MAX_PORTS], port_counts[FATES];
static long count, begun, done, silent, numbers, ended[FATES];
static uint64_t chance;
static struct line lines[MAX_LINES];
static unsigned char hello[HELLO_BYTES];

static unsigned draw(unsigned below) {
  chance ^= chance << 13, chance ^= chance >> 7, chance ^= chance << 17;
  return (unsigned)(chance >> 11) % below;
}

static void wrong(const struct line *line, const char *what) {
  fprintf(stderr, "tunnel of kind '%s': %s (%zu bytes received)\n%.*s\n", names[line->fate], what, line->got,
          (int)line->head_length, line->head);
  exit(1);
}

static enum fate draw_fate(void) {
  unsigned at = draw(100);
  enum fate fate = AT_ONCE;
  for (int sum = shares[fate]; (int)at >= sum; sum += shares[++fate]) continue;
  return fate;
}

static void begin(struct line *line, enum fate fate) {
  *line = (struct line){.fd = dial(1 + (int)draw((unsigned)sources), proxy), .number = ++numbers, .fate = fate};
  watch(poll_fd, line->fd, EPOLLIN | EPOLLOUT | EPOLLET, (uint64_t)(line - lines));
}

static void finish(struct line *line, int rudely) {
  if (rudely) reset(line->fd);
  else close(line->fd);
  line->fd = -1;
  ended[line->fate]++;
  done++;
  if (line->fate == SILENT || begun >= count) return;
  begun++;
  begin(line, draw_fate());
}

/** Returns true if the client disconnects at this moment; every other time with a reset. */
static int leaves(struct line *line, enum fate at) {
  if (line->fate != at) return 0;
  finish(line, (int)draw(2));
  return 1;
}

static int say(struct line *line, const void *bytes, size_t length) {
  return send(line->fd, bytes, length, MSG_NOSIGNAL) == (ssize_t)length;
}

static void ask(struct line *line) {
  char head[256];
  enum fate kind = line->fate == ORIGIN_ENDS || line->fate == ORIGIN_RESETS ? line->fate : WHOLE;
  const char *host = line->fate == DENIED ? "denied.example" : "localhost";
  int port = ports[kind][draw((unsigned)port_counts[kind])];
  int length = snprintf(head, sizeof head, "CONNECT %s:%d HTTP/1.1\r\nHost: %s:%d\r\n\r\n", host, port, host, port);
  int part = line->fate == IN_HEAD || (line->fate == SILENT && draw(2)) ? 1 + (int)draw((unsigned)length - 1) : length;
  line->asked = 1;
  if (leaves(line, AT_ONCE)) return;
  if (line->fate == SILENT && part == length) return;
  if (!say(line, head, (size_t)part)) wrong(line, "send of the head failed");
  if (!leaves(line, IN_HEAD)) leaves(line, ASKED);
}

/** Handles a complete response head and the bytes after it. */
static void opened(struct line *line, const char *end) {
  size_t rest = line->head_length - (size_t)(end - line->head);
  const char *expected = line->fate == DENIED ? " 403" : line->fate == SILENT ? " 408" : " 200";
  if (strncmp(line->head + 8, expected, 4)) wrong(line, "unexpected status");
  line->open = 1;
  line->got = rest;
  if (line->fate == DENIED) {
    finish(line, 0);
    return;
  }
  if (line->fate == SILENT || line->fate == ORIGIN_ENDS || leaves(line, OPENED)) return;
  if (!say(line, hello, HELLO_BYTES)) wrong(line, "send failed");
  if (leaves(line, SAID)) return;
  if (line->fate == CLIENT_ENDS && shutdown(line->fd, SHUT_WR)) wrong(line, "shutdown failed");
}

/** The other side has shut down or reset the connection. */
static void over(struct line *line, int broke) {
  enum fate fate = line->fate;
  int is_full = line->got == HELLO_BYTES && !broke;
  if (fate == ORIGIN_ENDS && is_full && !say(line, hello, HELLO_BYTES)) wrong(line, "send failed after the end of the origin");
  if (!(fate == SILENT || fate == ORIGIN_RESETS || ((fate == ORIGIN_ENDS || fate == CLIENT_ENDS) && is_full)))
    wrong(line, broke ? "it was reset" : "it ended too early");
  finish(line, 0);
}

/** Returns false if no more data is available. */
static int take(struct line *line) {
  char heard[2 * KIB];
  char *to = line->open ? heard : line->head + line->head_length;
  size_t room = line->open ? sizeof heard : sizeof line->head - 1 - line->head_length;
  ssize_t length = recv(line->fd, to, room, 0);
  if (length < 0 && errno == EAGAIN) return 0;
  if (length <= 0) {
    over(line, length < 0);
    return 0;
  }
  if (!line->open) {
    line->head_length += (size_t)length;
    const char *end = memmem(line->head, line->head_length, "\r\n\r\n", 4);
    const long number = line->number;
    if (!end) return 1;
    opened(line, end + 4);
    if (line->number != number || line->fd < 0) return 0;
  } else {
    int is_echo = line->fate == WHOLE || line->fate == CLIENT_ENDS;
    if (is_echo && (line->got + (size_t)length > HELLO_BYTES || memcmp(heard, hello + line->got, (size_t)length)))
      wrong(line, "wrong bytes were echoed");
    line->got += (size_t)length;
  }
  if (line->fate == WHOLE && line->got == HELLO_BYTES) {
    finish(line, 0);
    return 0;
  }
  return 1;
}

static void advance(struct line *line, uint32_t events) {
  const long number = line->number;
  if (line->fd < 0) return;
  if (events & EPOLLOUT && !line->asked) ask(line);
  if (events & ~EPOLLOUT)
    while (line->number == number && line->fd >= 0 && take(line)) continue;
}

static void run(void) {
  struct epoll_event events[512];
  while (done < count + silent) {
    int ready = epoll_wait(poll_fd, events, 512, STUCK_MS);
    if (ready == 0)
      for (long index = 0; index < MAX_LINES; index++)
        if (lines[index].fd > 0) wrong(&lines[index], "no progress");
    for (int index = 0; index < ready; index++) advance(&lines[events[index].data.u64], events[index].events);
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
  chance = (uint64_t)number_of(args, "seed", "1") * 2654435761u + 1;
  long flight = number_of(args, "flight", "64");
  read_ports(args, "echo", WHOLE);
  read_ports(args, "reset", ORIGIN_RESETS);
  read_ports(args, "half", ORIGIN_ENDS);
  poll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (flight < 1 || flight + silent > MAX_LINES) errno = ERANGE, die("flight");
  for (long index = 0; index < silent; index++) begin(&lines[flight + index], SILENT);
  for (long index = 0; index < flight && begun < count; index++, begun++) begin(&lines[index], draw_fate());
  run();
  printf("{");
  for (enum fate fate = AT_ONCE; fate < FATES; fate++) printf("%s\"%s\":%ld", fate ? "," : "", names[fate], ended[fate]);
  printf("}\n");
}
