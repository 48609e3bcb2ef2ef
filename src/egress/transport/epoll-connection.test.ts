import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EpollConnection, type EpollLoop } from './epoll-connection.ts'
import { EAGAIN, EBADF, EPOLLIN, type Kernel } from './kernel.ts'
import type { Pipes } from './pipes.ts'

const BULK_BYTES = 65_536
const THERE = { address: '192.0.2.1', port: 1 }

test('a pipe closed after EAGAIN does not break the connection', () => {
  let errno = 0
  const reads = [BULK_BYTES]
  const kernel = {
    recv: () => reads.shift() ?? -1,
    send: (_fd: number, _at: bigint, length: number) => length,
    splice: () => {
      errno = EAGAIN
      return -1
    },
    errno: () => errno,
  }
  let returned = 0
  const pipes = {
    take: () => ({ from: 8, to: 9 }),
    // Like a full pool, which closes both ends.
    give: () => {
      returned++
      errno = EBADF
    },
  }
  // The test uses no other part of the loop.
  const loop = {
    kernel: kernel as unknown as Kernel,
    pipes: pipes as unknown as Pipes,
    buffer: Buffer.alloc(BULK_BYTES),
    bufferPointer: 0n,
    requeue: () => {},
  } as unknown as EpollLoop
  const [from, to] = [new EpollConnection(loop, 3, THERE), new EpollConnection(loop, 4, THERE)]
  from.pumpTo(to)
  from.handleEvents(EPOLLIN)
  assert.deepEqual([from.bytesIn, to.bytesOut, returned], [BULK_BYTES, BULK_BYTES, 1])
  assert.deepEqual([from.isClosed, to.isClosed], [false, false])
})
