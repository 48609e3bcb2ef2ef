import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EpollWire, type Loop } from './epoll-wire.ts'
import { EAGAIN, EBADF, EPOLLIN, type Kernel } from './kernel.ts'
import type { Pipes } from './pipes.ts'

const BULK_BYTES = 65_536
const THERE = { address: '192.0.2.1', port: 1 }

test('a pipe that is closed when there is nothing more to read does not break the connection', () => {
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
  let given = 0
  const pipes = {
    take: () => ({ from: 8, to: 9 }),
    // As where there are pipes enough: both ends are closed.
    give: () => {
      given++
      errno = EBADF
    },
  }
  // A wire that only reads and is pumped asks its loop for nothing else.
  const loop = {
    kernel: kernel as unknown as Kernel,
    pipes: pipes as unknown as Pipes,
    buffer: Buffer.alloc(BULK_BYTES),
    bufferAt: 0n,
    again: () => {},
  } as unknown as Loop
  const [from, to] = [new EpollWire(loop, 3, THERE), new EpollWire(loop, 4, THERE)]
  from.pumpTo(to)
  from.notice(EPOLLIN)
  assert.deepEqual([from.bytesIn, to.bytesOut, given], [BULK_BYTES, BULK_BYTES, 1])
  assert.deepEqual([from.isGone, to.isGone], [false, false])
})
