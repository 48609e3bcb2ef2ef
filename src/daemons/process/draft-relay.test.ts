import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { freshStore, type TestHost, testHost } from '../../../test/support/host.ts'
import { needs } from '../../../test/support/needs.ts'
import { until } from '../../../test/support/until.ts'
import { type DraftPiece, isActivity, type LivePiece } from '../../core/turns/drafts.ts'
import type { PeerMessage } from '../../supervisor/messages.ts'
import { LINE_MESSAGE_MAX, parseLineMessage } from '../http/line-routes.ts'
import {
  broadcastDrafts,
  LINE_PIECES_MAX,
  receiveBroadcastDrafts,
  receiveDrafts,
  sendDraftsOver,
} from './draft-relay.ts'

const PIECE: DraftPiece = {
  ...{ turn: 't', fence: 1, part: 0, jid: 'web:main', topic: '', folder: 'main', rounds: ['t'] },
  ...{ from: 0, text: '', state: 'open' },
}

interface Line {
  readonly sent: PeerMessage[]
  /** Ends the sending of the first message that is not sent yet. */
  sendNext(error?: Error): void
}

function openLine(t: TestContext, { host }: TestHost): Line {
  const sent: PeerMessage[] = []
  const waiting: PromiseWithResolvers<void>[] = []
  const sendToPeer = (message: PeerMessage): Promise<void> => {
    sent.push(message)
    const sending = Promise.withResolvers<void>()
    waiting.push(sending)
    return sending.promise
  }
  t.after(sendDraftsOver({ sendToPeer }, host))
  const sendNext = (error?: Error): void => (error ? waiting.shift()?.reject(error) : waiting.shift()?.resolve())
  return { sent, sendNext }
}

/** Without pieces of other kinds. */
function draftsOf(pieces: readonly LivePiece[]): DraftPiece[] {
  return pieces.flatMap((piece) => (isActivity(piece) ? [] : [piece]))
}

function piecesIn(message: PeerMessage | undefined): DraftPiece[] {
  const read = parseLineMessage(JSON.stringify(message))
  return read?.kind === 'drafts' ? draftsOf(read.pieces) : assert.fail(`no drafts: ${JSON.stringify(message)}`)
}

test('drafts go over a line as they are, and those that come meanwhile go together', async (t) => {
  const on = await testHost(t)
  const { sent, sendNext } = openLine(t, on)
  const publish = (from: number): void => on.host.drafts.emit({ ...PIECE, from, text: `${from}` }, true)
  publish(0)
  await until(() => sent.length === 1)
  for (let from = 1; from <= LINE_PIECES_MAX + 1; from++) publish(from)
  for (const count of [2, 3]) {
    sendNext()
    await until(() => sent.length === count)
  }
  assert.deepEqual(
    sent.map((message) => piecesIn(message).map(({ from }) => from)),
    [[0], Array.from({ length: LINE_PIECES_MAX }, (_, at) => at + 1), [LINE_PIECES_MAX + 1]],
  )
  assert.deepEqual(piecesIn(sent[0]), [{ ...PIECE, text: '0' }])
})

test('a message with the largest pieces fits on a line', async (t) => {
  const on = await testHost(t)
  const { sent } = openLine(t, on)
  on.host.drafts.emit({ ...PIECE, text: '\u0001界😀"'.repeat(100_000) }, true)
  await until(() => sent.length === 1)
  assert.equal(piecesIn(sent[0]).length, LINE_PIECES_MAX)
  assert.ok(Buffer.byteLength(JSON.stringify(sent[0])) < LINE_MESSAGE_MAX)
})

test('a reader gets what another process sent, and it is not sent on', async (t) => {
  const on = await testHost(t)
  const { sent } = openLine(t, on)
  const heard: DraftPiece[] = []
  on.host.drafts.on((piece) => heard.push(...draftsOf([piece])))
  receiveDrafts({ kind: 'drafts', pieces: [PIECE, { ...PIECE, turn: 'u' }] }, on.host)
  receiveDrafts({ kind: 'commit', work: [] }, on.host)
  on.host.drafts.emit({ ...PIECE, turn: 'own' }, true)
  await until(() => sent.length > 0)
  assert.deepEqual(
    heard.map(({ turn }) => turn),
    ['t', 'u', 'own'],
  )
  assert.deepEqual(piecesIn(sent[0]), [{ ...PIECE, turn: 'own' }])
})

test('the drafts of a process that runs one turn are sent on', async (t) => {
  const on = await testHost(t)
  const { sent } = openLine(t, on)
  receiveDrafts({ kind: 'drafts', pieces: [PIECE] }, on.host, { isLocal: true })
  await until(() => sent.length > 0)
  assert.deepEqual(piecesIn(sent[0]), [PIECE])
})

test('a line that takes nothing costs no memory: pieces above a thousand are dropped', async (t) => {
  const on = await testHost(t)
  const { sent, sendNext } = openLine(t, on)
  on.host.drafts.emit(PIECE, true)
  await until(() => sent.length === 1)
  for (let from = 0; from < 1500; from++) on.host.drafts.emit({ ...PIECE, from }, true)
  const messages = 1 + Math.ceil(1000 / LINE_PIECES_MAX)
  for (let count = 2; count <= messages; count++) {
    sendNext()
    await until(() => sent.length === count)
  }
  sendNext()
  assert.equal(piecesIn(sent.at(-1)).at(-1)?.from, 999)
})

test('a line that fails loses what waits for it, and later drafts are sent', async (t) => {
  const on = await testHost(t)
  const { sent, sendNext } = openLine(t, on)
  on.host.drafts.emit(PIECE, true)
  await until(() => sent.length === 1)
  on.host.drafts.emit({ ...PIECE, from: 1 }, true)
  sendNext(new Error('the line is closed'))
  await until(() => on.faults.length === 1)
  on.host.drafts.emit({ ...PIECE, from: 2 }, true)
  await until(() => sent.length === 2)
  assert.deepEqual(
    piecesIn(sent[1]).map(({ from }) => from),
    [2],
  )
  assert.deepEqual(on.faults, [{ place: 'signal', message: 'the line is closed' }])
})

test(
  'processes on one PostgreSQL hear of drafts of any length, and ignore any other broadcast',
  needs('postgres'),
  async (t) => {
    const store = await freshStore(t, 'postgres')
    const [runner, front] = [await testHost(t, 'postgres', store), await testHost(t, 'postgres', store)]
    t.after(broadcastDrafts(runner.host))
    t.after(receiveBroadcastDrafts(front.host))
    const heard: DraftPiece[] = []
    front.host.drafts.on((piece, isLocal) => {
      assert.ok(!isLocal)
      heard.push(...draftsOf([piece]))
    })
    await until(async () => {
      runner.host.drafts.emit({ ...PIECE, turn: 'ready?' }, true)
      return heard.length > 0
    })
    for (const payload of ['', '{}', '[', '{"turn":1}']) await runner.host.engine.broadcast?.send(payload)
    const text = 'in pieces 😀 '.repeat(2000)
    runner.host.drafts.emit({ ...PIECE, text }, true)
    const found = (): DraftPiece[] => heard.filter(({ turn }) => turn === 't')
    await until(() => found().reduce((length, piece) => length + piece.text.length, 0) === text.length)
    assert.equal(
      found()
        .map((piece) => piece.text)
        .join(''),
      text,
    )
  },
)

test('no broadcast of drafts is needed on SQLite, where one machine has all processes', async (t) => {
  const on = await testHost(t)
  assert.equal(on.host.engine.broadcast, undefined)
  broadcastDrafts(on.host)()
  receiveBroadcastDrafts(on.host)()
})
