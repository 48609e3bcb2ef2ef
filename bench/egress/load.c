// Loads a proxy on loopback from one thread and prints the figures as one line of JSON: `load <mode> name=value…`.
//   bulk     tunnels= bytes= up=    transfers bytes through tunnels, down or up
//   tunnels  count= flight=         for each: connect, CONNECT, 1 KiB each way, close; `flight` at a time
//   paced    count= rate=           the same at a fixed rate, measuring the latency of each CONNECT
//   idle     count= flight=         the same without closing; prints `held` and keeps the tunnels open until stdin ends
//   http     flight= ms=            absolute-form GETs of 1 KiB, one after the other on `flight` connections
// All modes take proxy=<port> origin=<port>,… sources=<number of source addresses> and pid=<of the proxy>, to read its CPU time.
// It exits on anything unexpected: figures of a failing proxy are worthless.
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

/** One connection to the proxy. Mode `http` reuses it. */
struct line {
  int fd;
  enum { ASKING, OPEN, HELD } phase;
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
static struct line lines[MAX_FLIGHT];
static double *took_ms;
static unsigned char hello[HELLO_BYTES];
static char chunk[CHUNK];

static void begin(struct line *line, uint64_t at) {
  *line = (struct line){.fd = dial(1 + (int)(begun % sources), proxy), .began = at, .phase = ASKING};
  begun++;
  watch(poll_fd, line->fd, EPOLLIN | EPOLLOUT | EPOLLET, (uint64_t)(line - lines));
}

static void say(struct line *line, const void *bytes, size_t length) {
  if (send(line->fd, bytes, length, MSG_NOSIGNAL) != (ssize_t)length) die("send");
}

static void ask(struct line *line) {
  char head[256];
  int port = ports[(line - lines + done) % port_count];
  int length = mode == HTTP ? snprintf(head, sizeof head,
                                       "GET http://localhost:%d/ HTTP/1.1\r\nHost: localhost:%d\r\n"
                                       "User-Agent: load\r\nAccept: */*\r\n\r\n", port, port)
                            : snprintf(head, sizeof head,
                                       "CONNECT localhost:%d HTTP/1.1\r\nHost: localhost:%d\r\n"
                                       "User-Agent: load\r\n\r\n", port, port);
  say(line, head, (size_t)length);
  line->sent = 1;
}

static void finish(struct line *line) {
  close(line->fd);
  line->fd = -1;
  done++;
  if (mode == HTTP ? now_ns() < deadline : mode == TUNNELS && begun < count) begin(line, now_ns());
}

/** Handles a complete response head: the tunnel is open, or a body follows. */
static void opened(struct line *line, const char *end) {
  if (strncmp(line->head, "HTTP/1.", 7) || strncmp(line->head + 8, " 200", 4)) {
    fprintf(stderr, "%.*s\n", (int)(end - line->head), line->head);
    exit(1);
  }
  line->got = (uint64_t)(line->head + line->head_length - end);
  line->phase = OPEN;
  if (mode == HTTP) {
    line->expected = KIB;
    line->closes = strcasestr(line->head, "\r\nconnection: close\r\n") != NULL;
    return;
  }
  if (mode == PACED) took_ms[timed++] = (double)(now_ns() - line->began) / 1e6;
  say(line, hello, HELLO_BYTES);
  line->sent = HELLO_BYTES;
  line->expected = mode == BULK ? (up ? bytes_each / SINK_UNIT : bytes_each) : HELLO_BYTES;
}

static void complete(struct line *line) {
  if (mode == HTTP && !line->closes) {
    done++;
    line->phase = ASKING;
    line->head_length = 0;
    if (now_ns() < deadline) ask(line);
  } else if (mode == IDLE) {
    done++;
    line->phase = HELD;
    if (begun < count) begin(&lines[begun], now_ns());
  } else finish(line);
}

/** Returns false if no more data is available. */
static int take(struct line *line) {
  if (line->phase == HELD) return 0;
  if (line->phase == ASKING) {
    ssize_t length = recv(line->fd, line->head + line->head_length, sizeof line->head - 1 - line->head_length, 0);
    if (length < 0 && errno == EAGAIN) return 0;
    if (length <= 0) die("answer");
    line->head_length += (size_t)length;
    line->head[line->head_length] = 0;
    const char *end = strstr(line->head, "\r\n\r\n");
    if (end) opened(line, end + 4);
  } else {
    static char heard[64 * KIB];
    // With MSG_TRUNC, TCP discards the data without copying it.
    ssize_t length = mode == BULK ? recv(line->fd, NULL, 16 * CHUNK, MSG_TRUNC) : recv(line->fd, heard, sizeof heard, 0);
    if (length < 0 && errno == EAGAIN) return 0;
    if (length <= 0) die("tunnel");
    line->got += (uint64_t)length;
  }
  if (line->phase == OPEN && line->got >= line->expected) complete(line);
  return line->fd >= 0;
}

static void upload(struct line *line) {
  while (line->sent < bytes_each) {
    uint64_t left = bytes_each - line->sent;
    ssize_t length = send(line->fd, chunk, left < CHUNK ? left : CHUNK, MSG_NOSIGNAL);
    if (length < 0 && errno == EAGAIN) return;
    if (length < 0) die("upload");
    line->sent += (uint64_t)length;
  }
}

static void advance(struct line *line, uint32_t events) {
  if (line->fd < 0) return;
  if (events & EPOLLOUT && line->phase == ASKING && !line->sent) {
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(line->fd, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error) errno = error, die("connect");
    ask(line);
  }
  if (!(events & ~EPOLLOUT)) {
    if (up && line->phase == OPEN) upload(line);
    return;
  }
  int fd = line->fd;
  while (line->fd == fd && take(line)) continue;
  if (up && line->fd == fd && line->phase == OPEN) upload(line);
}

/** Starts all connections that are due. */
static void begin_due(void) {
  uint64_t ticks;
  static uint64_t first;
  if (read(timer_fd, &ticks, sizeof ticks) != sizeof ticks) return;
  if (!first) first = now_ns();
  const uint64_t every = 1000000000u / (uint64_t)flight;
  while (ticks-- && begun < count) begin(&lines[begun % MAX_FLIGHT], first + (uint64_t)begun * every);
}

static void start(void) {
  if (mode == PACED) {
    long every = 1000000000 / flight;
    struct itimerspec clock = {.it_interval = {every / 1000000000, every % 1000000000}, .it_value = {0, 1}};
    if (timerfd_settime(timer_fd, 0, &clock, NULL)) die("timerfd");
    watch(poll_fd, timer_fd, EPOLLIN, TIMER);
    return;
  }
  for (long index = 0; index < flight && (mode == HTTP || index < count); index++) begin(&lines[index], now_ns());
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
      else advance(&lines[events[index].data.u64], events[index].events);
    }
  }
}

static int by_size(const void *a, const void *b) {
  return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static double quantile(double part) {
  long at = (long)((double)done * part);
  return mode == PACED ? took_ms[at < done ? at : done - 1] : 0;
}

/** CPU time of all threads of a process, including ended ones. */
static double cpu_ms(long pid) {
  clockid_t clock;
  if (!pid) return 0;
  if (clock_getcpuclockid((pid_t)pid, &clock)) die("pid");
  return (double)ns_of(clock) / 1e6;
}

/** Waits until the proxy is idle (less than 5 ms CPU time in 100 ms), so that its clean-up is counted too. */
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
  // The origin acknowledges uploads in units, so they are sent in units.
  if (up) bytes_each = (bytes_each + SINK_UNIT - 1) / SINK_UNIT * SINK_UNIT;
  if (flight < 1 || flight > MAX_FLIGHT || count > MAX_COUNT || (mode == IDLE && count > MAX_FLIGHT))
    errno = ERANGE, die("count");
  took_ms = calloc((size_t)count + 1, sizeof *took_ms);
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
    if (lines[index].fd > 0) close(lines[index].fd);
  qsort(took_ms, (size_t)(mode == PACED ? done : 0), sizeof *took_ms, by_size);
  printf("{\"count\":%ld,\"connections\":%ld,\"bytes\":%llu,\"ms\":%.3f,\"proxyMs\":%.3f,\"loadMs\":%.3f,"
         "\"p50Ms\":%.4f,\"p99Ms\":%.4f,\"maxMs\":%.4f}\n",
         done, begun, (unsigned long long)bytes_each * (unsigned long long)count, ms,
         settled_ms(pid) - proxy_before, own_ms, quantile(0.5), quantile(0.99), quantile(1));
}
