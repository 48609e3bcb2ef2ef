import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { systemClock } from '../../lib/clock.ts'
import { sourceOf } from '../../lib/settings.ts'
import { openSvcContext } from '../command.ts'
import { type LinkFrame, type LinkRound, TransportError } from '../link/link-client.ts'
import { pollAndPrint, streamAndPrint } from './round-output.ts'

const SENT = { turn_id: 't', topic: 'news' }

function openContext(isTerminal: boolean, json = false, term = 'xterm') {
  const printed = { stdout: '', stderr: '' }
  const out = (name: 'stdout' | 'stderr') => ({
    isTerminal,
    write: (text: string) => {
      printed[name] += text
    },
  })
  const io = {
    stdout: out('stdout'),
    stderr: out('stderr'),
    stdin: (async function* () {})(),
    environment: sourceOf(
      'the test',
      new Map([
        ['NO_COLOR', '1'],
        ['TERM', term],
      ]),
    ),
    clock: systemClock,
    writeBytes: async () => {},
    stopped: () => Promise.resolve(),
  }
  return { printed, svc: openSvcContext(io, {}, { json }) }
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
const pollClient = (...rounds: LinkRound[]) => ({
  poll: async () => rounds.shift() ?? assert.fail('polled once too often'),
})
const never = new AbortController().signal

suite('on a terminal', () => {
  test('shows no line to overwrite where lines cannot be overwritten', async () => {
    const events = [
      { event: 'activity', data: '{"turn_id":"t","text":"Searching"}', id: '' },
      { event: 'round_done', data: '{"turn_id":"t","status":"success"}', id: '1' },
    ]
    const client = {
      events: async function* () {
        yield* events
      },
    }
    for (const [term, expected] of [
      ['dumb', ''],
      ['xterm', '\r\u001b[KSearching …\r\u001b[K'],
    ] as const) {
      const { svc, printed } = openContext(true, false, term)
      await streamAndPrint(svc, client, SENT)
      assert.equal(printed.stderr, expected)
    }
  })

  test('prints the status of the agent and escapes control characters', async () => {
    const { svc, printed } = openContext(true)
    assert.deepEqual(await pollAndPrint(svc, pollClient(ENDED), SENT, never), { status: 'success' })
    assert.equal(printed.stdout, 'a\tb\nc\\u001b]0;x\\u0007\n')
    assert.equal(printed.stderr, '… thinking\\u001b[2J\n')
  })

  const delta = (from: number, text: string, done?: true) => ({
    ...{ event: 'delta', id: '', data: JSON.stringify({ turn_id: 't', n: 1, text, from, done }) },
  })
  const ending = [
    { event: 'message', data: JSON.stringify(frame(1, 'message', 'one 👍 two')), id: '1' },
    { event: 'round_done', data: '{"turn_id":"t","status":"success"}', id: '2' },
  ]
  const DRAFTS: Record<string, [deltas: ReturnType<typeof delta>[], printed: string]> = {
    'prints a draft as it grows, and the rest with its message': [[delta(0, 'one'), delta(3, ' 👍')], 'one 👍 two\n'],
    'prints nothing twice after a reconnect': [[delta(0, 'one 👍'), delta(0, 'one 👍 t')], 'one 👍 two\n'],
    'begins a new line for a text that begins again': [
      [delta(0, 'looking'), delta(0, ''), delta(0, 'one')],
      'looking\none 👍 two\n',
    ],
    'prints the message whole if it differs from the draft': [[delta(0, 'two')], 'two\none 👍 two\n'],
    'ends the line of a draft that becomes no message': [[delta(0, 'half'), delta(0, '', true)], 'half\none 👍 two\n'],
    'escapes control characters of a draft': [[delta(0, '\u001b[2J')], '\\u001b[2J\none 👍 two\n'],
  }
  for (const [behaviour, [deltas, expected]] of Object.entries(DRAFTS)) {
    test(behaviour, async () => {
      const { svc, printed } = openContext(true)
      const events = async function* () {
        yield* [...deltas, ...ending]
      }
      assert.deepEqual(await streamAndPrint(svc, { events }, SENT), { status: 'success' })
      assert.equal(printed.stdout, expected)
    })
  }

  const activity = (text: string, detail?: unknown) => ({
    ...{ event: 'activity', id: '', data: JSON.stringify({ turn_id: 't', text, detail }) },
  })

  test('shows what the agent does as one line that is overwritten, and not behind a draft', async () => {
    const { svc, printed } = openContext(true)
    const events = async function* () {
      yield* [
        activity('Reading \u001b[2J'),
        activity('Searching'),
        activity('Searching'),
        activity(''),
        delta(0, 'one'),
      ]
      yield* [activity('Searching'), ...ending]
    }
    await streamAndPrint(svc, { events }, SENT)
    assert.equal(printed.stderr, '\r\u001b[KReading \\u001b[2J …\r\u001b[KSearching …\r\u001b[K')
    assert.equal(printed.stdout, 'one 👍 two\n')
  })

  test('leaves no line of the agent behind when the stream breaks', async () => {
    const { svc, printed } = openContext(true)
    const events = async function* () {
      yield activity('Searching')
      throw new TransportError('gone')
    }
    await assert.rejects(streamAndPrint(svc, { events }, SENT), /gone/)
    assert.equal(printed.stderr, '\r\u001b[KSearching …\r\u001b[K')
  })

  test('prints what the agent does with --json as lines', async () => {
    const { svc, printed } = openContext(true, true)
    const events = async function* () {
      yield* [activity('Searching', [{ n: 1 }]), activity(''), ...ending]
    }
    await streamAndPrint(svc, { events }, SENT)
    const [first, second] = printed.stdout.split('\n').map((line) => line && JSON.parse(line))
    assert.deepEqual(first, { event: 'activity', turn_id: 't', text: 'Searching', detail: [{ n: 1 }] })
    assert.deepEqual(second, { event: 'activity', turn_id: 't', text: '' })
    assert.equal(printed.stderr, '')
  })

  test('prints deltas with --json as lines, and no draft', async () => {
    const { svc, printed } = openContext(true, true)
    const events = async function* () {
      yield* [delta(0, 'one'), ...ending]
    }
    await streamAndPrint(svc, { events }, SENT)
    const [first, ...rest] = printed.stdout.trimEnd().split('\n')
    assert.deepEqual(JSON.parse(first ?? ''), { event: 'delta', turn_id: 't', from: 0, text: 'one' })
    assert.equal(rest.length, 2)
  })
})

suite('files of an answer', () => {
  const file = { id: 'x', name: 'a\u001b[2J.png', type: 'image/png', size: 1536 }
  const withFile = (content: string): LinkFrame => ({ ...frame(1, 'message', content), files: [file] })
  const line = 'file: a\\u001b[2J.png (image/png, 1536 bytes)\n'

  for (const isTerminal of [true, false])
    test(`are listed after the text, ${isTerminal ? 'on a terminal' : 'in a pipe'}`, async () => {
      const { svc, printed } = openContext(isTerminal)
      await pollAndPrint(svc, pollClient({ ...ENDED, frames: [withFile('look')], last_seq: 1 }), SENT, never)
      assert.deepEqual(printed, { stdout: 'look\n', stderr: line })
    })

  test('are listed alone if there is no text', async () => {
    const { svc, printed } = openContext(false)
    await pollAndPrint(svc, pollClient({ ...ENDED, frames: [withFile('')], last_seq: 1 }), SENT, never)
    assert.deepEqual(printed, { stdout: '', stderr: line })
  })

  test('are listed after a draft', async () => {
    const { svc, printed } = openContext(true)
    const events = async function* () {
      yield { event: 'delta', data: '{"turn_id":"t","n":1,"text":"lo","from":0}', id: '' }
      yield { event: 'message', data: JSON.stringify(withFile('look')), id: '1' }
      yield { event: 'round_done', data: '{"turn_id":"t","status":"success"}', id: '2' }
    }
    await streamAndPrint(svc, { events }, SENT)
    assert.deepEqual(printed, { stdout: 'look\n', stderr: line })
  })

  test('are in the output of --json', async () => {
    const { svc, printed } = openContext(false, true)
    await pollAndPrint(svc, pollClient({ ...ENDED, frames: [withFile('look')], last_seq: 1 }), SENT, never)
    assert.deepEqual(JSON.parse(printed.stdout).frames[0].files, [file])
    assert.equal(printed.stderr, '')
  })
})

suite('in a pipe', () => {
  test('prints messages unchanged, and nothing else', async () => {
    const { svc, printed } = openContext(false)
    await pollAndPrint(svc, pollClient(ENDED), SENT, never)
    assert.deepEqual(printed, { stdout: 'a\tb\nc\u001b]0;x\u0007\n', stderr: '' })
  })

  test('fetches further pages of frames at once, even when the round has ended', async () => {
    const { svc, printed } = openContext(false)
    const first = { ...ENDED, frames: [frame(1, 'message', 'one')] }
    const second = { ...ENDED, frames: [frame(2, 'message', 'two')] }
    await pollAndPrint(svc, pollClient(first, second), SENT, never)
    assert.equal(printed.stdout, 'one\ntwo\n')
  })

  test('returns the error of a failed round', async () => {
    const { svc } = openContext(false)
    const failed: LinkRound = { ...ENDED, status: 'failed', error: 'no' }
    assert.deepEqual(await pollAndPrint(svc, pollClient(failed), SENT, never), { status: 'failed', error: 'no' })
  })

  test('prints nothing of what the agent does', async () => {
    const { svc, printed } = openContext(false)
    const events = async function* () {
      yield { event: 'activity', data: '{"turn_id":"t","text":"Searching"}', id: '' }
      yield { event: 'round_done', data: '{"turn_id":"t","status":"success"}', id: '1' }
    }
    await streamAndPrint(svc, { events }, SENT)
    assert.deepEqual(printed, { stdout: '', stderr: '' })
  })

  test('prints no draft', async () => {
    const { svc, printed } = openContext(false)
    const events = async function* () {
      yield { event: 'delta', data: '{"turn_id":"t","n":1,"text":"half","from":0}', id: '' }
      yield { event: 'round_done', data: '{"turn_id":"t","status":"success"}', id: '1' }
    }
    await streamAndPrint(svc, { events }, SENT)
    assert.deepEqual(printed, { stdout: '', stderr: '' })
  })

  test('skips events of unknown kinds', async () => {
    const { svc, printed } = openContext(false)
    const events = async function* () {
      yield { event: 'later', data: 'no JSON', id: '1' }
      yield { event: 'message', data: JSON.stringify(FRAMES[1]), id: '2' }
      yield { event: 'round_done', data: '{"turn_id":"t","status":"failed","error":"no"}', id: '3' }
    }
    assert.deepEqual(await streamAndPrint(svc, { events }, SENT), { status: 'failed', error: 'no' })
    assert.equal(printed.stdout, 'a\tb\nc\u001b]0;x\u0007\n')
  })

  test('reports a transport error if the stream ends before the round', async () => {
    const events = async function* () {}
    await assert.rejects(streamAndPrint(openContext(false).svc, { events }, SENT), TransportError)
  })
})
