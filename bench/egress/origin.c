// The origin servers, in one thread: `origin` prints `<kind> <port>…` for each kind, then `ready`, and serves until stdin ends.
//   echo    sends back all data               source  sends endless data
//   sink    sends a byte for each 16 MiB      http    sends 1 KiB for each request
//   reset   resets after the first bytes      half    sends 1 KiB, shuts down its side, then reads to the end
#include "tcp.h"

enum kind { ECHO, SOURCE, SINK, HTTP, RESET, HALF, KINDS, LISTENER, INPUT };
static const char *const names[KINDS] = {"echo", "source", "sink", "http", "reset", "half"};
// One port would soon run out of TIME_WAIT slots; sixteen are enough.
static const int ports_of[KINDS] = {16, 1, 1, 4, 4, 4};

#define SINK_UNIT (16u << 20)
#define CHUNK (256 * KIB)
#define BURSTS 4
#define MAX_FILES 65536

static int poll_fd;
static char chunk[CHUNK];
static char answer[KIB + 128];
static size_t answer_length;
static uint64_t got[MAX_FILES];

static uint64_t tag(int fd, enum kind kind, enum kind of) { return (uint64_t)fd | (uint64_t)kind << 32 | (uint64_t)of << 40; }

static int bind_one(int family, int port) {
  int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
  if (fd < 0) return -1;
  struct sockaddr_in four = loopback(1, port);
  struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  int isSix = family == AF_INET6;
  if (isSix) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  if (bind(fd, isSix ? (void *)&six : (void *)&four, isSix ? sizeof six : sizeof four) || listen(fd, BACKLOG)) {
    close(fd);
    return -1;
  }
  return fd;
}

/** `localhost` may be IPv4 or IPv6, so listen on both if available. */
static int open_port(enum kind kind) {
  int fd = bind_one(AF_INET, 0);
  if (fd < 0) die("listen");
  struct sockaddr_in at;
  socklen_t length = sizeof at;
  if (getsockname(fd, (struct sockaddr *)&at, &length)) die("getsockname");
  watch(poll_fd, fd, EPOLLIN, tag(fd, LISTENER, kind));
  int port = ntohs(at.sin_port), six = bind_one(AF_INET6, port);
  if (six >= 0) watch(poll_fd, six, EPOLLIN, tag(six, LISTENER, kind));
  return port;
}

static void accept_all(int listener, enum kind kind) {
  int fd, on = 1;
  while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    got[fd] = 0;
    if (kind == HALF && (send(fd, chunk, KIB, MSG_NOSIGNAL) != KIB || shutdown(fd, SHUT_WR))) close(fd);
    else watch(poll_fd, fd, kind == SOURCE ? EPOLLIN | EPOLLOUT : EPOLLIN, tag(fd, kind, kind));
  }
}

/** Sends less than a socket buffer, which never blocks. */
static int say(int fd, const char *bytes, size_t length) {
  return send(fd, bytes, length, MSG_NOSIGNAL) == (ssize_t)length;
}

static int serve_sink(int fd) {
  for (int burst = 0; burst < BURSTS; burst++) {
    // With MSG_TRUNC, TCP discards the data without copying it.
    ssize_t length = recv(fd, NULL, 16 * CHUNK, MSG_TRUNC);
    if (length < 0) return errno == EAGAIN;
    if (length == 0) return 0;
    uint64_t before = got[fd] / SINK_UNIT;
    got[fd] += (uint64_t)length;
    for (uint64_t unit = before; unit < got[fd] / SINK_UNIT; unit++)
      if (!say(fd, "!", 1)) return 0;
  }
  return 1;
}

static int serve_source(int fd, uint32_t events) {
  static char heard[KIB];
  if (events & EPOLLIN && recv(fd, heard, sizeof heard, 0) == 0) return 0;
  for (int burst = 0; burst < BURSTS; burst++)
    if (send(fd, chunk, CHUNK, MSG_NOSIGNAL) < 0) return errno == EAGAIN;
  return 1;
}

/** Sends a response for each end of a head. Requests have no bodies and keep the connection open. */
static int serve_http(int fd, const char *heard, ssize_t length) {
  static const char end[] = "\r\n\r\n";
  for (ssize_t at = 0; at < length; at++) {
    got[fd] = heard[at] == end[got[fd]] ? got[fd] + 1 : heard[at] == '\r';
    if (got[fd] < 4) continue;
    got[fd] = 0;
    if (!say(fd, answer, answer_length)) return 0;
  }
  return 1;
}

static int serve_small(int fd, enum kind kind) {
  static char heard[16 * KIB];
  ssize_t length = recv(fd, heard, sizeof heard, 0);
  if (length <= 0) return length < 0 && errno == EAGAIN;
  if (kind == HTTP) return serve_http(fd, heard, length);
  return kind == HALF || say(fd, heard, (size_t)length);
}

static void serve(int fd, enum kind kind, uint32_t events) {
  if (kind == RESET) {
    reset(fd);
    return;
  }
  int stays = kind == SINK ? serve_sink(fd) : kind == SOURCE ? serve_source(fd, events) : serve_small(fd, kind);
  if (!stays || events & (EPOLLERR | EPOLLHUP)) close(fd);
}

int main(void) {
  allow_many_files();
  poll_fd = epoll_create1(EPOLL_CLOEXEC);
  memset(chunk, 'x', sizeof chunk);
  int head = snprintf(answer, 128, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n", KIB);
  memset(answer + head, 'x', KIB);
  answer_length = (size_t)head + KIB;
  for (enum kind kind = ECHO; kind < KINDS; kind++) {
    printf("%s", names[kind]);
    for (int port = 0; port < ports_of[kind]; port++) printf(" %d", open_port(kind));
    printf("\n");
  }
  printf("ready\n");
  fflush(stdout);
  watch(poll_fd, STDIN_FILENO, EPOLLIN, tag(STDIN_FILENO, INPUT, INPUT));
  struct epoll_event events[256];
  for (;;) {
    int count = epoll_wait(poll_fd, events, 256, -1);
    for (int index = 0; index < count; index++) {
      int fd = (int)(events[index].data.u64 & 0xffffffffu);
      enum kind kind = (enum kind)(events[index].data.u64 >> 32 & 0xff);
      if (kind == INPUT) return 0;
      if (kind == LISTENER) accept_all(fd, (enum kind)(events[index].data.u64 >> 40));
      else serve(fd, kind, events[index].events);
    }
  }
}
