// What is shown of an answer, on a terminal and in a pipe.
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { systemClock } from '../../lib/clock.ts'
import { sourceOf } from '../../lib/settings.ts'
import { openSvcContext } from '../command.ts'
import { type LinkFrame, type LinkRound, TransportError } from '../link/link-client.ts'
import { pollAndPrint, streamAndPrint } from './round-output.ts'

const SENT = { turn_id: 't', topic: 'news' }

function desk(isTerminal: boolean, json = false) {
  const said = { stdout: '', stderr: '' }
  const out = (name: 'stdout' | 'stderr') => ({
    isTerminal,
    write: (text: string) => {
      said[name] += text
    },
  })
  const io = {
    stdout: out('stdout'),
    stderr: out('stderr'),
    stdin: (async function* () {})(),
    environment: sourceOf('the test', new Map([['NO_COLOR', '1']])),
    clock: systemClock,
    output: async () => {},
    stopped: () => Promise.resolve(),
  }
  return { said, svc: openSvcContext(io, {}, { json }) }
}

const frame = (seq: number, kind: LinkFrame['kind'], content: string): LinkFrame => ({
  seq,
  id: `f${seq}`,
  kind,
  content,
  created_at: '2026-01-31T08:00:00.000Z',
})

const FRAMES = [frame(1, 'status', 'thinking\u001b[2J'), frame(2, 'message', 'a\tb\nc\u001b]0;x\u0007')]
const ENDED: LinkRound = { turn_id: 't', status: 'success', frames: FRAMES, last_seq: 2 }
const polling = (...rounds: LinkRound[]) => ({
  poll: async () => rounds.shift() ?? assert.fail('asked once too often'),
})
const never = new AbortController().signal

suite('on a terminal', () => {
  test('what it is doing is told, and nothing that was said repaints the screen', async () => {
    const { svc, said } = desk(true)
    assert.deepEqual(await pollAndPrint(svc, polling(ENDED), SENT, never), { status: 'success' })
    assert.equal(said.stdout, 'a\tb\nc\\u001b]0;x\\u0007\n')
    assert.equal(said.stderr, '… thinking\\u001b[2J\n')
  })
})

suite('in a pipe', () => {
  test('what was said comes as it is, and nothing else', async () => {
    const { svc, said } = desk(false)
    await pollAndPrint(svc, polling(ENDED), SENT, never)
    assert.deepEqual(said, { stdout: 'a\tb\nc\u001b]0;x\u0007\n', stderr: '' })
  })

  test('frames beyond a page are fetched at once, also when the round is over', async () => {
    const { svc, said } = desk(false)
    const first = { ...ENDED, frames: [frame(1, 'message', 'one')] }
    const second = { ...ENDED, frames: [frame(2, 'message', 'two')] }
    await pollAndPrint(svc, polling(first, second), SENT, never)
    assert.equal(said.stdout, 'one\ntwo\n')
  })

  test('a failed round gives its error', async () => {
    const { svc } = desk(false)
    const failed: LinkRound = { ...ENDED, status: 'failed', error: 'no' }
    assert.deepEqual(await pollAndPrint(svc, polling(failed), SENT, never), { status: 'failed', error: 'no' })
  })

  test('events of kinds that are not known are passed over', async () => {
    const { svc, said } = desk(false)
    const events = async function* () {
      yield { event: 'later', data: 'no JSON', id: '1' }
      yield { event: 'message', data: JSON.stringify(FRAMES[1]), id: '2' }
      yield { event: 'round_done', data: '{"turn_id":"t","status":"failed","error":"no"}', id: '3' }
    }
    assert.deepEqual(await streamAndPrint(svc, { events }, SENT), { status: 'failed', error: 'no' })
    assert.equal(said.stdout, 'a\tb\nc\u001b]0;x\u0007\n')
  })

  test('a stream that ends without the end of the round is a transport fault', async () => {
    const events = async function* () {}
    await assert.rejects(streamAndPrint(desk(false).svc, { events }, SENT), TransportError)
  })
})
