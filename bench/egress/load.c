// Loads a proxy on loopback from one thread and prints the figures as one line of JSON: `load <mode> name=value…`.
//   bulk     tunnels= bytes= up=    transfers `bytes` through tunnels, down or up
//   tunnels  count= flight=         connect, CONNECT, 1 KiB each way, close; `flight` at a time
//   paced    count= rate=           the same at a fixed rate, and the latency of each CONNECT
//   idle     count= flight=         the same without the close; prints `held` and keeps them open until standard input ends
//   http     flight= ms=            absolute-form GETs of 1 KiB, one after the other on `flight` connections
// All take proxy=<port> origin=<port>,… sources=<number of client addresses>, and pid=<of the proxy>, whose processor time
// it reads. It exits at the first unexpected result, because figures of a failing proxy are useless.
#include "hello.h"
#include "tcp.h"
#include <sys/timerfd.h>

#define MAX_PORTS 16
#define MAX_FLIGHT 16384
#define MAX_COUNT 1000000
#define SINK_UNIT (16u << 20)
#define CHUNK (256 * KIB)
#define LIMIT_S 100
#define TIMER UINT64_MAX

enum mode { BULK, TUNNELS, PACED, IDLE, HTTP, MODES };
static const char *const names[MODES] = {"bulk", "tunnels", "paced", "idle", "http"};

/** One connection to the proxy. In mode `http` it is reused. */
struct connection {
  int fd;
  enum { REQUESTED, OPEN, HELD } phase;
  char head[4 * KIB];
  size_t head_length;
  uint64_t began;
  uint64_t sent, got, expected;
  int closes;
};

static enum mode mode;
static int poll_fd, timer_fd, proxy, sources, up;
static int ports[MAX_PORTS], port_count;
static long count, flight, begun, done, timed;
static uint64_t bytes_each, deadline;
static struct connection connections[MAX_FLIGHT];
static double *latencies_ms;
static unsigned char hello[HELLO_BYTES];
static char chunk[CHUNK];

static void begin(struct connection *conn, uint64_t at) {
  *conn = (struct connection){.fd = dial(1 + (int)(begun % sources), proxy), .began = at, .phase = REQUESTED};
  begun++;
  watch(poll_fd, conn->fd, EPOLLIN | EPOLLOUT | EPOLLET, (uint64_t)(conn - connections));
}

static void send_all(struct connection *conn, const void *bytes, size_t length) {
  if (send(conn->fd, bytes, length, MSG_NOSIGNAL) != (ssize_t)length) die("send");
}

static void send_request(struct connection *conn) {
  char head[256];
  int port = ports[(conn - connections + done) % port_count];
  int length = mode == HTTP ? snprintf(head, sizeof head,
                                       "GET http://localhost:%d/ HTTP/1.1\r\nHost: localhost:%d\r\n"
                                       "User-Agent: load\r\nAccept: */*\r\n\r\n", port, port)
                            : snprintf(head, sizeof head,
                                       "CONNECT localhost:%d HTTP/1.1\r\nHost: localhost:%d\r\n"
                                       "User-Agent: load\r\n\r\n", port, port);
  send_all(conn, head, (size_t)length);
  conn->sent = 1;
}

static void finish(struct connection *conn) {
  close(conn->fd);
  conn->fd = -1;
  done++;
  if (mode == HTTP ? now_ns() < deadline : mode == TUNNELS && begun < count) begin(conn, now_ns());
}

/** Called when the response head is complete: the tunnel is open, or a body follows. */
static void on_response(struct connection *conn, const char *end) {
  if (strncmp(conn->head, "HTTP/1.", 7) || strncmp(conn->head + 8, " 200", 4)) {
    fprintf(stderr, "%.*s\n", (int)(end - conn->head), conn->head);
    exit(1);
  }
  conn->got = (uint64_t)(conn->head + conn->head_length - end);
  conn->phase = OPEN;
  if (mode == HTTP) {
    conn->expected = KIB;
    conn->closes = strcasestr(conn->head, "\r\nconnection: close\r\n") != NULL;
    return;
  }
  if (mode == PACED) latencies_ms[timed++] = (double)(now_ns() - conn->began) / 1e6;
  send_all(conn, hello, HELLO_BYTES);
  conn->sent = HELLO_BYTES;
  conn->expected = mode == BULK ? (up ? bytes_each / SINK_UNIT : bytes_each) : HELLO_BYTES;
}

static void complete(struct connection *conn) {
  if (mode == HTTP && !conn->closes) {
    done++;
    conn->phase = REQUESTED;
    conn->head_length = 0;
    if (now_ns() < deadline) send_request(conn);
  } else if (mode == IDLE) {
    done++;
    conn->phase = HELD;
    if (begun < count) begin(&connections[begun], now_ns());
  } else finish(conn);
}

/** Returns false when no more data is available. */
static int receive(struct connection *conn) {
  if (conn->phase == HELD) return 0;
  if (conn->phase == REQUESTED) {
    ssize_t length = recv(conn->fd, conn->head + conn->head_length, sizeof conn->head - 1 - conn->head_length, 0);
    if (length < 0 && errno == EAGAIN) return 0;
    if (length <= 0) die("answer");
    conn->head_length += (size_t)length;
    conn->head[conn->head_length] = 0;
    const char *end = strstr(conn->head, "\r\n\r\n");
    if (end) on_response(conn, end + 4);
  } else {
    static char buffer[64 * KIB];
    // With MSG_TRUNC, TCP discards the data without copying it.
    ssize_t length = mode == BULK ? recv(conn->fd, NULL, 16 * CHUNK, MSG_TRUNC) : recv(conn->fd, buffer, sizeof buffer, 0);
    if (length < 0 && errno == EAGAIN) return 0;
    if (length <= 0) die("tunnel");
    conn->got += (uint64_t)length;
  }
  if (conn->phase == OPEN && conn->got >= conn->expected) complete(conn);
  return conn->fd >= 0;
}

static void upload(struct connection *conn) {
  while (conn->sent < bytes_each) {
    uint64_t left = bytes_each - conn->sent;
    ssize_t length = send(conn->fd, chunk, left < CHUNK ? left : CHUNK, MSG_NOSIGNAL);
    if (length < 0 && errno == EAGAIN) return;
    if (length < 0) die("upload");
    conn->sent += (uint64_t)length;
  }
}

static void advance(struct connection *conn, uint32_t events) {
  if (conn->fd < 0) return;
  if (events & EPOLLOUT && conn->phase == REQUESTED && !conn->sent) {
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error) errno = error, die("connect");
    send_request(conn);
  }
  if (!(events & ~EPOLLOUT)) {
    if (up && conn->phase == OPEN) upload(conn);
    return;
  }
  int fd = conn->fd;
  while (conn->fd == fd && receive(conn)) continue;
  if (up && conn->fd == fd && conn->phase == OPEN) upload(conn);
}

/** Starts all tunnels that are due, even if late. */
static void begin_due(void) {
  uint64_t ticks;
  static uint64_t first;
  if (read(timer_fd, &ticks, sizeof ticks) != sizeof ticks) return;
  if (!first) first = now_ns();
  const uint64_t every = 1000000000u / (uint64_t)flight;
  while (ticks-- && begun < count) begin(&connections[begun % MAX_FLIGHT], first + (uint64_t)begun * every);
}

static void start(void) {
  if (mode == PACED) {
    long every = 1000000000 / flight;
    struct itimerspec clock = {.it_interval = {every / 1000000000, every % 1000000000}, .it_value = {0, 1}};
    if (timerfd_settime(timer_fd, 0, &clock, NULL)) die("timerfd");
    watch(poll_fd, timer_fd, EPOLLIN, TIMER);
    return;
  }
  for (long index = 0; index < flight && (mode == HTTP || index < count); index++) begin(&connections[index], now_ns());
}

static int is_over(void) {
  return mode == HTTP ? now_ns() >= deadline : done == count;
}

static void run(void) {
  struct epoll_event events[512];
  while (!is_over()) {
    int ready = epoll_wait(poll_fd, events, 512, 100);
    for (int index = 0; index < ready; index++) {
      if (events[index].data.u64 == TIMER) begin_due();
      else advance(&connections[events[index].data.u64], events[index].events);
    }
  }
}

static int by_size(const void *a, const void *b) {
  return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static double quantile(double part) {
  long at = (long)((double)done * part);
  return mode == PACED ? latencies_ms[at < done ? at : done - 1] : 0;
}

/** Processor time of all threads of a process, including ended ones. */
static double cpu_ms(long pid) {
  clockid_t clock;
  if (!pid) return 0;
  if (clock_getcpuclockid((pid_t)pid, &clock)) die("pid");
  return (double)ns_of(clock) / 1e6;
}

/** Waits for work after the last answer, which counts too: until the proxy uses less than 5 ms in a tenth of a second. */
static double settled_ms(long pid) {
  double before = cpu_ms(pid);
  for (int look = 0; pid && look < 100; look++) {
    usleep(100000);
    double after = cpu_ms(pid);
    if (after - before < 5) return after;
    before = after;
  }
  return before;
}

static void configure(char **args) {
  for (mode = BULK; mode < MODES && strcmp(names[mode], args[1] ? args[1] : ""); mode++) continue;
  if (mode == MODES) errno = EINVAL, die("mode");
  proxy = (int)number_of(args, "proxy", NULL);
  sources = (int)number_of(args, "sources", "1");
  up = mode == BULK && number_of(args, "up", "0");
  count = mode == BULK ? number_of(args, "tunnels", "1") : mode == HTTP ? 0 : number_of(args, "count", NULL);
  flight = mode == BULK ? count : number_of(args, mode == PACED ? "rate" : "flight", NULL);
  bytes_each = mode == BULK ? strtoull(text_of(args, "bytes", NULL), NULL, 10) / (uint64_t)count : 0;
  // Uploads are acknowledged per unit, so they are sent per unit.
  if (up) bytes_each = (bytes_each + SINK_UNIT - 1) / SINK_UNIT * SINK_UNIT;
  if (flight < 1 || flight > MAX_FLIGHT || count > MAX_COUNT || (mode == IDLE && count > MAX_FLIGHT))
    errno = ERANGE, die("count");
  latencies_ms = calloc((size_t)count + 1, sizeof *latencies_ms);
  for (const char *at = text_of(args, "origin", NULL); at && port_count < MAX_PORTS; at = strchr(at, ',')) {
    if (*at == ',') at++;
    ports[port_count++] = atoi(at);
  }
}

int main(int argc, char **args) {
  (void)argc;
  configure(args);
  allow_many_files();
  alarm(LIMIT_S);
  write_hello(hello);
  memset(chunk, 'x', sizeof chunk);
  poll_fd = epoll_create1(EPOLL_CLOEXEC);
  timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  const long pid = number_of(args, "pid", "0");
  const double proxy_before = cpu_ms(pid);
  const uint64_t before = now_ns();
  deadline = before + (uint64_t)number_of(args, "ms", "0") * 1000000u;
  start();
  run();
  const double ms = (double)(now_ns() - before) / 1e6;
  const double own_ms = (double)ns_of(CLOCK_PROCESS_CPUTIME_ID) / 1e6;
  if (mode == IDLE) {
    printf("held\n");
    fflush(stdout);
    while (getchar() != EOF) continue;
  }
  for (long index = 0; index < MAX_FLIGHT; index++)
    if (connections[index].fd > 0) close(connections[index].fd);
  qsort(latencies_ms, (size_t)(mode == PACED ? done : 0), sizeof *latencies_ms, by_size);
  printf("{\"count\":%ld,\"connections\":%ld,\"bytes\":%llu,\"ms\":%.3f,\"proxyMs\":%.3f,\"loadMs\":%.3f,"
         "\"p50Ms\":%.4f,\"p99Ms\":%.4f,\"maxMs\":%.4f}\n",
         done, begun, (unsigned long long)bytes_each * (unsigned long long)count, ms,
         settled_ms(pid) - proxy_before, own_ms, quantile(0.5), quantile(0.99), quantile(1));
}
