import assert from 'node:assert/strict'
import { writeSync } from 'node:fs'
import { test } from 'node:test'
import type { Wire } from '../wire.ts'
import { EpollWires } from './epoll.ts'
import { openKernel } from './kernel.ts'

const ENOMEM = 12
const ENOSPC = 28
const kernel = openKernel()

test('where the kernel watches no more connections, those fail that come, and the loop goes on', {
  skip: kernel ? false : 'this Node cannot call the kernel',
}, () => {
  if (!kernel) return
  const faults: unknown[] = []
  let refused = 0
  let watches = Number.POSITIVE_INFINITY
  const full = {
    ...kernel,
    epoll_ctl: (...all: Parameters<typeof kernel.epoll_ctl>) => (watches-- > 0 ? kernel.epoll_ctl(...all) : -1),
    errno: () => (watches < 0 ? ENOSPC : kernel.errno()),
  }
  const wires = new EpollWires(full, {
    woken: () => {},
    starved: () => {},
    failed: (error) => void faults.push(error),
  })
  const told: string[] = []
  const owner = (name: string) => ({
    bytes: () => {},
    ended: () => {},
    drained: () => {},
    connected: () => void told.push(`${name} connected`),
    closed: (error?: string) => void told.push(`${name} closed ${error}`),
  })
  const bound = wires.listenNow({ host: '127.0.0.1', port: 0 }, (wire) => {
    refused++
    wire.owner = owner('accepted')
  })
  watches = 1
  wires.connect(bound, owner('watched'))
  wires.connect(bound, owner('unwatched'))
  wires.after(300, () => wires.stop())
  wires.run()
  wires.close()
  kernel.close(wires.wakeFd)
  assert.deepEqual(faults, [])
  assert.ok(refused >= 1)
  for (const expected of ['watched connected', 'unwatched closed ENOSPC', 'accepted closed ENOSPC'])
    assert.ok(told.includes(expected), `${expected}: ${told}`)
})

test('a connection for which there is no memory is taken later, and not tried again and again meanwhile', {
  skip: kernel ? false : 'this Node cannot call the kernel',
}, () => {
  if (!kernel) return
  let [tries, starvedTimes, taken] = [0, 0, 0]
  const short = {
    ...kernel,
    accept4: (...all: Parameters<typeof kernel.accept4>) => (++tries <= 2 ? -1 : kernel.accept4(...all)),
    errno: () => (tries > 0 && tries <= 2 ? ENOMEM : kernel.errno()),
  }
  const wires = new EpollWires(short, {
    woken: () => {},
    starved: () => void starvedTimes++,
    failed: (error) => assert.fail(`${error}`),
  })
  const bound = wires.listenNow({ host: '127.0.0.1', port: 0 }, () => {
    taken++
    wires.stop()
  })
  const began = performance.now()
  wires.connect(bound, { bytes() {}, ended() {}, drained() {}, connected() {}, closed() {} })
  wires.run()
  wires.close()
  kernel.close(wires.wakeFd)
  assert.deepEqual([taken, starvedTimes], [1, 1])
  assert.ok(performance.now() - began >= 200)
})

test('whoever wakes it when it has just ended wakes nobody else', {
  skip: kernel ? false : 'this Node cannot call the kernel',
}, () => {
  if (!kernel) return
  const wires = new EpollWires(kernel, { woken: () => {}, starved: () => {}, failed: () => {} })
  wires.stop()
  wires.run()
  wires.close()
  // It would be an error, or go to whom the number was given meanwhile.
  assert.equal(writeSync(wires.wakeFd, Buffer.alloc(8, 1)), 8)
  kernel.close(wires.wakeFd)
})

test('no more descriptors are taken than it may have, and one that is given back is used again', {
  skip: kernel ? false : 'this Node cannot call the kernel',
}, () => {
  if (!kernel) return
  let starvedTimes = 0
  const wires = new EpollWires(kernel, {
    woken: () => {},
    starved: () => void starvedTimes++,
    failed: (error) => assert.fail(`${error}`),
    maxFiles: 3,
  })
  const told: string[] = []
  const dial = (name: string, connected: (wire: Wire) => void = () => {}): void => {
    const wire = wires.connect(bound, {
      bytes: () => {},
      ended: () => {},
      drained: () => {},
      connected: () => {
        told.push(`${name} connected`)
        connected(wire)
      },
      closed: (error) => {
        told.push(`${name} closed ${error}`)
        if (name === 'fourth') wires.stop()
      },
    })
  }
  let accepted = 0
  const bound = wires.listenNow({ host: '127.0.0.1', port: 0 }, () => {
    accepted++
    // The second is accepted when the first has closed, into the last place.
    if (accepted === 2) wires.after(0, () => dial('fourth'))
  })
  dial('first', (wire) => wires.after(250, () => wire.close()))
  dial('second')
  wires.after(5000, () => wires.stop())
  wires.run()
  wires.close()
  kernel.close(wires.wakeFd)
  assert.deepEqual(told, ['first connected', 'second connected', 'fourth closed EMFILE'])
  assert.deepEqual([accepted, starvedTimes], [2, 1])
})
