// A ClientHello of exactly 1 KiB for `localhost`, which a client sends first and a proxy may inspect.
#pragma once
#include "tcp.h"

#define HELLO_BYTES 1024

static inline unsigned char *put16(unsigned char *at, size_t value) {
  *at++ = (unsigned char)(value >> 8);
  *at++ = (unsigned char)value;
  return at;
}

static inline void write_hello(unsigned char hello[HELLO_BYTES]) {
  static const char name[] = "localhost";
  const size_t length = sizeof name - 1;
  unsigned char *at = hello;
  memset(hello, 0, HELLO_BYTES);
  *at++ = 22; // a handshake record
  at = put16(at, 0x0301);
  at = put16(at, HELLO_BYTES - 5);
  *at++ = 1; // ClientHello
  *at++ = 0;
  at = put16(at, HELLO_BYTES - 9);
  at = put16(at, 0x0303);
  memset(at, 0x5a, 32); // random
  at += 32;
  *at++ = 0; // no session
  at = put16(at, 2);
  at = put16(at, 0x1301);
  *at++ = 1;
  *at++ = 0; // no compression
  unsigned char *extensions = at;
  at = put16(at, (size_t)(hello + HELLO_BYTES - extensions - 2));
  at = put16(at, 0); // server_name
  at = put16(at, length + 5);
  at = put16(at, length + 3);
  *at++ = 0;
  at = put16(at, length);
  memcpy(at, name, length);
  at += length;
  at = put16(at, 21); // padding, up to the end
  put16(at, (size_t)(hello + HELLO_BYTES - at - 2));
}
