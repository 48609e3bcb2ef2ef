import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { openNodeTransport } from '../transport/node-transport.ts'
import type { Timer } from '../transport/transport.ts'
import type { AccessRecord } from './access-record.ts'
import { DENIALS_MAX, DenialBatch, type DeniedRequest } from './denial-batch.ts'

const DENIED: AccessRecord = {
  mode: 'connect',
  source: 'socket:1',
  id: 'team/job',
  host: 'denied.test',
  port: 443,
  verdict: 'deny',
  reason: 'blocked-by-allowlist',
  bytesUp: 0,
  bytesDown: 0,
  ms: 0,
}

interface Stage {
  readonly batch: DenialBatch
  readonly sent: DeniedRequest[][]
  /** As if the batch interval had passed. */
  pass(): void
}

function openStage(): Stage {
  const sent: DeniedRequest[][] = []
  let due: (() => void) | undefined
  const cancel = (): void => {
    due = undefined
  }
  const after = (_: number, run: () => void): Timer => {
    due = run
    return { cancel }
  }
  const batch = new DenialBatch({ ...openNodeTransport(), after }, (denied) => void sent.push(denied))
  return { batch, sent, pass: () => due?.() }
}

suite('a batch of denied requests', () => {
  test('merges repeats into one entry with a count and the last time', () => {
    const { batch, sent, pass } = openStage()
    batch.add(DENIED, 1000)
    batch.add({ ...DENIED, port: 80 }, 1001)
    batch.add(DENIED, 1002)
    pass()
    const { id, host, reason } = { id: 'team/job', host: 'denied.test', reason: 'blocked-by-allowlist' }
    assert.deepEqual(sent, [
      [
        { id, host, port: 443, reason, at: 1002, count: 2 },
        { id, host, port: 80, reason, at: 1001, count: 1 },
      ],
    ])
    batch.flush()
    assert.equal(sent.length, 1)
    batch.add(DENIED, 1003)
    batch.flush()
    assert.deepEqual(sent[1], [{ id, host, port: 443, reason, at: 1003, count: 1 }])
  })

  test('limits the entries of one source per second, not those of another', () => {
    const { batch, sent } = openStage()
    const add = (source: string, number: number, at: number): void =>
      batch.add({ ...DENIED, source, host: `h${number}.test` }, at)
    for (let number = 0; number <= DENIALS_MAX; number++) add('socket:1', number, 1999)
    add('socket:2', 0, 1999)
    batch.flush()
    assert.equal(sent[0]?.length, DENIALS_MAX + 1)
    add('socket:1', DENIALS_MAX, 2000)
    batch.flush()
    assert.deepEqual(
      sent[1]?.map(({ host }) => host),
      [`h${DENIALS_MAX}.test`],
    )
  })

  test('omits sources without an id and requests without a host', () => {
    const { batch, sent } = openStage()
    batch.add({ ...DENIED, id: undefined }, 1)
    batch.add({ ...DENIED, host: undefined }, 1)
    batch.flush()
    assert.deepEqual(sent, [])
  })
})
