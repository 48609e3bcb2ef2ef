// Shared by the programs of this directory: non-blocking loopback sockets, clocks, arguments and fatal errors.
#pragma once
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BACKLOG 4096
#define KIB 1024

static void die(const char *what) {
  fprintf(stderr, "%s: %s\n", what, errno ? strerror(errno) : "not as expected");
  exit(1);
}

static inline uint64_t ns_of(clockid_t clock) {
  struct timespec at;
  if (clock_gettime(clock, &at)) die("clock");
  return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

static inline uint64_t now_ns(void) { return ns_of(CLOCK_MONOTONIC); }

/** Finds `name=value` in the arguments. */
static inline const char *text_of(char **args, const char *name, const char *otherwise) {
  size_t length = strlen(name);
  for (; *args; args++)
    if (!strncmp(*args, name, length) && (*args)[length] == '=') return *args + length + 1;
  if (!otherwise) errno = EINVAL, die(name);
  return otherwise;
}

static inline long number_of(char **args, const char *name, const char *otherwise) {
  return strtol(text_of(args, name, otherwise), NULL, 10);
}

/** Raises the limit of open files to the maximum. */
static inline void allow_many_files(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit)) die("getrlimit");
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit)) die("setrlimit");
}

static inline void watch(int poll, int fd, uint32_t events, uint64_t tag) {
  struct epoll_event event = {.events = events, .data.u64 = tag};
  if (epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event)) die("epoll_ctl");
}

static inline struct sockaddr_in loopback(int last, int port) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  at.sin_addr.s_addr = htonl(0x7f000000u + (uint32_t)last);
  return at;
}

/** Starts a connection from 127.0.0.<source>. Several source addresses are needed, because each has a limited number of ports. */
static inline int dial(int source, int port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
  if (fd < 0) die("socket");
  struct sockaddr_in from = loopback(source, 0), to = loopback(1, port);
  setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (bind(fd, (struct sockaddr *)&from, sizeof from)) die("bind");
  if (connect(fd, (struct sockaddr *)&to, sizeof to) && errno != EINPROGRESS) die("connect");
  return fd;
}

/** Closes with a reset. */
static inline void reset(int fd) {
  struct linger at_once = {.l_onoff = 1, .l_linger = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close(fd);
}
