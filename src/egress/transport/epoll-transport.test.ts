import assert from 'node:assert/strict'
import { writeSync } from 'node:fs'
import { test } from 'node:test'
import { EpollTransport } from './epoll-transport.ts'
import { openKernel } from './kernel.ts'
import type { TcpConnection } from './transport.ts'

const ENOMEM = 12
const ENOSPC = 28
const kernel = openKernel()

test('when the kernel refuses more watches, new connections fail and the loop goes on', {
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
  const transport = new EpollTransport(full, {
    woken: () => {},
    starved: () => {},
    failed: (error) => void faults.push(error),
  })
  const told: string[] = []
  const owner = (name: string) => ({
    received: () => {},
    ended: () => {},
    drained: () => {},
    connected: () => void told.push(`${name} connected`),
    closed: (error?: string) => void told.push(`${name} closed ${error}`),
  })
  const bound = transport.listenNow({ host: '127.0.0.1', port: 0 }, (connection) => {
    refused++
    connection.owner = owner('accepted')
  })
  watches = 1
  transport.connect(bound, owner('watched'))
  transport.connect(bound, owner('unwatched'))
  transport.after(300, () => transport.stop())
  transport.run()
  transport.close()
  kernel.close(transport.wakeFd)
  assert.deepEqual(faults, [])
  assert.ok(refused >= 1)
  for (const expected of ['watched connected', 'unwatched closed ENOSPC', 'accepted closed ENOSPC'])
    assert.ok(told.includes(expected), `${expected}: ${told}`)
})

test('accepts later after running out of memory, without busy retries', {
  skip: kernel ? false : 'this Node cannot call the kernel',
}, () => {
  if (!kernel) return
  let [tries, starvedTimes, taken] = [0, 0, 0]
  const short = {
    ...kernel,
    accept4: (...all: Parameters<typeof kernel.accept4>) => (++tries <= 2 ? -1 : kernel.accept4(...all)),
    errno: () => (tries > 0 && tries <= 2 ? ENOMEM : kernel.errno()),
  }
  const transport = new EpollTransport(short, {
    woken: () => {},
    starved: () => void starvedTimes++,
    failed: (error) => assert.fail(`${error}`),
  })
  const bound = transport.listenNow({ host: '127.0.0.1', port: 0 }, () => {
    taken++
    transport.stop()
  })
  const began = performance.now()
  transport.connect(bound, { received() {}, ended() {}, drained() {}, connected() {}, closed() {} })
  transport.run()
  transport.close()
  kernel.close(transport.wakeFd)
  assert.deepEqual([taken, starvedTimes], [1, 1])
  assert.ok(performance.now() - began >= 200)
})

test('a wake-up after the loop has ended does not reach another descriptor', {
  skip: kernel ? false : 'this Node cannot call the kernel',
}, () => {
  if (!kernel) return
  const transport = new EpollTransport(kernel, { woken: () => {}, starved: () => {}, failed: () => {} })
  transport.stop()
  transport.run()
  transport.close()
  // A closed descriptor would fail, or its number could be in use for another file.
  assert.equal(writeSync(transport.wakeFd, Buffer.alloc(8, 1)), 8)
  kernel.close(transport.wakeFd)
})

test('opens no more descriptors than allowed and reuses released ones', {
  skip: kernel ? false : 'this Node cannot call the kernel',
}, () => {
  if (!kernel) return
  let starvedTimes = 0
  const transport = new EpollTransport(kernel, {
    woken: () => {},
    starved: () => void starvedTimes++,
    failed: (error) => assert.fail(`${error}`),
    maxFiles: 3,
  })
  const told: string[] = []
  const dial = (name: string, connected: (connection: TcpConnection) => void = () => {}): void => {
    const connection = transport.connect(bound, {
      received: () => {},
      ended: () => {},
      drained: () => {},
      connected: () => {
        told.push(`${name} connected`)
        connected(connection)
      },
      closed: (error) => {
        told.push(`${name} closed ${error}`)
        if (name === 'fourth') transport.stop()
      },
    })
  }
  let accepted = 0
  const bound = transport.listenNow({ host: '127.0.0.1', port: 0 }, () => {
    accepted++
    // The second is accepted when the first has closed.
    if (accepted === 2) transport.after(0, () => dial('fourth'))
  })
  dial('first', (connection) => transport.after(250, () => connection.close()))
  dial('second')
  transport.after(5000, () => transport.stop())
  transport.run()
  transport.close()
  kernel.close(transport.wakeFd)
  assert.deepEqual(told, ['first connected', 'second connected', 'fourth closed EMFILE'])
  assert.deepEqual([accepted, starvedTimes], [2, 1])
})

test('an exception of the owner of a connection closes that connection, and the others go on', {
  skip: kernel ? false : 'this Node cannot call the kernel',
}, () => {
  if (!kernel) return
  const faults: string[] = []
  const transport = new EpollTransport(kernel, {
    woken: () => {},
    starved: () => {},
    failed: (error) => void faults.push(`${error}`),
  })
  const told: string[] = []
  const quiet = { received() {}, ended() {}, drained() {}, connected() {}, closed() {} }
  const bound = transport.listenNow({ host: '127.0.0.1', port: 0 }, (connection) => {
    connection.owner = {
      ...quiet,
      received: (bytes) => {
        if (`${Buffer.from(bytes)}` === 'odd') throw new TypeError('odd bytes')
        told.push(`received ${Buffer.from(bytes)}`)
        transport.stop()
      },
      closed: (error?: string) => void told.push(`closed ${error}`),
    }
  })
  const odd: TcpConnection = transport.connect(bound, { ...quiet, connected: () => void odd.write(Buffer.from('odd')) })
  transport.after(50, () => {
    const good: TcpConnection = transport.connect(bound, {
      ...quiet,
      connected: () => void good.write(Buffer.from('good')),
    })
  })
  transport.run()
  transport.close()
  kernel.close(transport.wakeFd)
  assert.deepEqual(faults, ['TypeError: odd bytes'])
  assert.deepEqual(told, ['closed EIO', 'received good'])
})
