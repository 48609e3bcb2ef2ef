import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { isRefusal, onEveryEngine } from '../../../test/support/host.ts'
import { openLinkHost } from '../../../test/support/link-host.ts'
import { Refusal } from '../../lib/refusal.ts'
import { readSequence, readUniqueQuery } from './round-view.ts'

onEveryEngine('polling', (engine) => {
  test('polling a round', async (t) => {
    const s = await openLinkHost(t, { engine, daemons: ['webd', 'routd', 'gated', 'runed'] })
    const link = await s.mintChat()

    await t.test('returns the status, the frames after a number and the last number', async () => {
      const turn = await s.speak(link, '/status thinking\n/say one\n/say two')
      const body = await s.ended(link, turn)
      assert.deepEqual(Object.keys(body), ['turn_id', 'status', 'frames', 'last_seq'])
      assert.deepEqual([body.turn_id, body.status, body.last_seq], [turn, 'success', 3])
      const frames = body.frames as Record<string, unknown>[]
      assert.deepEqual(
        frames.map(({ seq, kind, content }) => [seq, kind, content]),
        [
          [1, 'status', 'thinking'],
          [2, 'message', 'one'],
          [3, 'message', 'two'],
        ],
      )
      assert.deepEqual(Object.keys(frames[0] ?? {}), ['seq', 'id', 'kind', 'content', 'created_at'])
      const later = await s.to(`GET ${link.chat}${turn}?after=2`)
      assert.deepEqual(later.body.frames, [frames[2]])
      assert.deepEqual((await s.to(`GET ${link.chat}${turn}?after=3`)).body.frames, [])
      // A number beyond the end is not an error.
      const beyond = await s.to(`GET ${link.chat}${turn}?after=999999999`)
      assert.deepEqual([beyond.status, beyond.body.frames, beyond.body.last_seq], [200, [], 3])
    })

    await t.test('an invalid or repeated after is 400', async () => {
      const turn = await s.speak(link, '/silent')
      for (const query of [
        'after=x',
        'after=-1',
        'after=1.5',
        'after=1&after=2',
        'after=1e309',
        'after=0x1',
        'after=%00',
        `after=${'9'.repeat(16)}`,
      ])
        assert.equal((await s.to(`GET ${link.chat}${turn}?${query}`)).status, 400, query)
      for (const query of ['', 'after=', 'after=0', 'after=000', 'other=x', 'after=%31'])
        assert.equal((await s.to(`GET ${link.chat}${turn}?${query}`)).status, 200, query)
      // The token is checked first.
      assert.equal((await s.to(`GET /chat/${'A'.repeat(43)}/${turn}?after=x`)).status, 401)
    })

    await t.test('a failed round has an error and is not pending', async () => {
      const turn = await s.speak(link, '/say before\n/fail the model is asleep')
      const { status, error, frames } = await s.ended(link, turn)
      assert.deepEqual([status, error], ['failed', 'the agent could not answer; try again later'])
      assert.equal((frames as unknown[]).length, 1)
    })

    await t.test('a round without a reply is a success without frames', async () => {
      const turn = await s.speak(link, '/silent')
      const { status, frames, last_seq, error } = await s.ended(link, turn)
      assert.deepEqual([status, frames, last_seq, error], ['success', [], 0, undefined])
    })

    await t.test('returns at most 200 frames at a time', async () => {
      const turn = await s.speak(link, '/count 450')
      await s.ended(link, turn)
      const seen: number[] = []
      for (;;) {
        const { body } = await s.to(`GET ${link.chat}${turn}?after=${seen.at(-1) ?? 0}`)
        const frames = body.frames as { seq: number }[]
        assert.ok(frames.length <= 200)
        assert.equal(body.last_seq, 450)
        if (frames.length === 0) break
        seen.push(...frames.map(({ seq }) => seq))
      }
      assert.deepEqual(
        seen,
        Array.from({ length: 450 }, (_, at) => at + 1),
      )
    })

    await t.test('a round of a hook token can be polled at the chat URL', async () => {
      const hook = await s.mintHook()
      const turn = await s.speak(hook, '/say yes')
      assert.equal((await s.ended(hook, turn)).status, 'success')
    })

    await t.test('a round of a link with a suffix, of another folder, is answered', async () => {
      await s.groups('team')
      const suffixed = await s.mintChat({ folder: 'team', jid_suffix: 'forms' })
      const turn = await s.speak(suffixed, 'hello')
      const { status, frames } = await s.ended(suffixed, turn)
      assert.equal(status, 'success')
      assert.match(JSON.stringify(frames), /`team`/)
    })

    await t.test('concurrent rounds of one topic each show the turn that answered them', async () => {
      const turns = await Promise.all(['a', 'b', 'c'].map((word) => s.speak(link, `/wait 20ms\n/say ${word}`, 'same')))
      for (const [at, turn] of turns.entries()) {
        const { frames } = await s.ended(link, turn)
        const said = (frames as { content: string }[]).map(({ content }) => content)
        assert.ok(said.includes(['a', 'b', 'c'][at] ?? ''), said.join())
        assert.deepEqual(said, [...new Set(said)].sort(), 'each once, in the order of arrival')
      }
    })

    await t.test('polling is not rate limited', async () => {
      const turn = await s.speak(link, '/silent')
      const answers = await Promise.all(Array.from({ length: 100 }, () => s.to(`GET ${link.chat}${turn}`)))
      assert.ok(answers.every(({ status }) => status === 200))
    })

    await t.test('the page of an ended round shows the reply and does not refresh', async () => {
      const turn = await s.speak(link, '/say <script>alert(1)</script>')
      await s.ended(link, turn)
      const { text } = await s.to(`GET ${link.chat}${turn}`, { headers: { Accept: 'text/html' } })
      assert.doesNotMatch(text, /http-equiv="refresh"|<script>alert/)
      assert.match(text, /&lt;script&gt;alert/)
    })
  })
})

test('a sequence is a whole number or absent', () => {
  assert.deepEqual(
    ['0', '12', '', undefined, '007'].map((text) => readSequence(text, 'after')),
    [0, 12, undefined, undefined, 7],
  )
  fc.assert(
    fc.property(fc.string(), (text) => {
      try {
        const read = readSequence(text, 'after')
        assert.ok(read === undefined || (Number.isSafeInteger(read) && read >= 0))
      } catch (error) {
        assert.ok(error instanceof Refusal)
      }
    }),
  )
})

test('a query parameter may occur once, and unknown ones are ignored', () => {
  assert.deepEqual(readUniqueQuery('', ['a']), {})
  assert.deepEqual(readUniqueQuery('a=1&b=%20+&c=x', ['a', 'b', 'd']), { a: '1', b: '  ', d: undefined })
  assert.throws(() => readUniqueQuery('a=1&a=1', ['a']), isRefusal('invalid', 'twice'))
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (query) => {
      try {
        readUniqueQuery(query, ['after', 'topic'])
      } catch (error) {
        assert.ok(error instanceof Refusal)
      }
    }),
  )
})
