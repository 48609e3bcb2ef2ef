import assert from 'node:assert/strict'
import { test } from 'node:test'
import { until } from '../../../test/support/until.ts'
import { CommitSignals } from '../../lib/commit-signals.ts'
import { FaultBoundary, guard } from '../../lib/fault-boundary.ts'
import { MetricRegistry } from '../../lib/log/metric-registry.ts'
import type { PeerMessage } from '../../supervisor/messages.ts'
import { bridgeSignals, RUNNER_SIGNALS, type SignalLine } from './runner-process.ts'

test('a process still announces its commits after an exception in those of the other', async () => {
  const sent: PeerMessage[] = []
  let receive: (message: PeerMessage) => void = () => assert.fail('nothing listens')
  const line: SignalLine = {
    sendToPeer: (message) => void sent.push(message),
    onPeerMessage: (listener, onFault) => {
      receive = guard(onFault, listener)
    },
  }
  const failing = (error: unknown): never => {
    throw error
  }
  const [signals, preCommitSignals] = [new CommitSignals(), new CommitSignals(failing)]
  preCommitSignals.on(() => failing(new TypeError('odd listener')))
  const faults: unknown[] = []
  const boundary = new FaultBoundary(new MetricRegistry(), (error) => void faults.push(error))
  bridgeSignals(line, { signals, preCommitSignals, faults: boundary }, RUNNER_SIGNALS)
  receive({ kind: 'commit', work: ['turns'] })
  assert.equal(faults.length, 1)
  signals.emit(['web:main'], [])
  await until(() => sent.length > 0)
  assert.deepEqual(sent, [{ kind: 'commit', keys: ['web:main'], work: [] }])
})

test('a process still announces its commits after a line that failed', async () => {
  const signals = new CommitSignals()
  const sent: PeerMessage[] = []
  const line: SignalLine = {
    sendToPeer: async (message) => {
      sent.push(message)
      if (sent.length > 1) return
      signals.emit(['web:meanwhile'], [])
      throw new TypeError('odd line')
    },
    onPeerMessage: () => undefined,
  }
  const faults: unknown[] = []
  const boundary = new FaultBoundary(new MetricRegistry(), (error) => void faults.push(error))
  bridgeSignals(line, { signals, preCommitSignals: signals, faults: boundary }, RUNNER_SIGNALS)
  signals.emit(['web:a'], [])
  await until(() => faults.length === 1)
  signals.emit(['web:b'], [])
  await until(() => sent.length === 2)
  assert.deepEqual(sent[1], { kind: 'commit', keys: ['web:b'], work: [] })
})
