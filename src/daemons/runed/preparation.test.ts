import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { type TestContext, test } from 'node:test'
import { type Conversing, conversing } from '../../../test/support/conversation.ts'
import { type EngineName, onEveryEngine } from '../../../test/support/host.ts'
import type { ClaimedTurn } from '../../core/claim.ts'
import { findConversation } from '../../core/conversations.ts'
import { groupDirs } from '../../core/layout.ts'
import { readSettings } from '../../lib/settings.ts'
import { RUNTIME_SETTINGS } from '../../runtimes/settings.ts'
import { preparing } from './preparation.ts'
import type { Prepared } from './runner.ts'

const DAY_MS = 24 * 3_600_000

interface Preparing extends Conversing {
  prepare(claimed: ClaimedTurn): Promise<Prepared>
  /** As gated does it. */
  bind(folder: string): void
}

async function open(t: TestContext, engine: EngineName): Promise<Preparing> {
  const on = await conversing(t, engine)
  const { host } = on
  const layout = host.layout ?? assert.fail('it has files')
  const runtime = { name: 'test', run: async () => ({}), close: async () => {} }
  const runtimes = { runtimeFor: async () => runtime, close: async () => {} }
  const settings = { ...readSettings(RUNTIME_SETTINGS, []), ASSISTANT_NAME: 'svc' }
  await on.groups('main', 'team')
  return {
    ...on,
    prepare: preparing({ host, layout, runtimes, settings }),
    bind: (folder) => {
      const { socket } = groupDirs(layout, folder)
      mkdirSync(dirname(socket), { recursive: true })
      writeFileSync(socket, '')
    },
  }
}

onEveryEngine('a run', (engine) => {
  test('goes on with the session of its conversation, and starts a fresh one after two days in which nobody spoke', async (t) => {
    const on = await open(t, engine)
    on.bind('main')
    const next = async (): Promise<Prepared['job']> => {
      await on.ask()
      const claimed = await on.mustClaim()
      const { job } = await on.prepare(claimed)
      const { id: turn_id, fence } = claimed.turn
      await on.submit('main', { turn_id, fence, session_id: job.sessionId ?? 'new', result: 'yes' })
      await on.end(claimed.turn)
      return job
    }
    assert.equal((await next()).sessionId, undefined)
    on.clock.advance(2 * DAY_MS)
    assert.equal((await next()).sessionId, 'new')
    on.clock.advance(2 * DAY_MS + 1)
    const { sessionId, prompt } = await next()
    assert.equal(sessionId, undefined)
    assert.match(prompt, /The session before was long ago; this is a fresh one\./)
    assert.equal((await on.read((tx) => findConversation(tx, 'main', '')))?.note, undefined)
    assert.doesNotMatch((await next()).prompt, /long ago/)
  })

  test('waits for the socket of a group that was just made', async (t) => {
    const on = await open(t, engine)
    await on.ask('hi', { folder: 'main' })
    await on.ask('hi', { folder: 'team' })
    const [one, other] = [await on.mustClaim(), await on.mustClaim()]
    const [early, late] = [one.turn.folder, other.turn.folder]
    on.bind(early)
    let isPrepared = false
    const waiting = on.prepare(other).then((prepared) => {
      isPrepared = true
      return prepared
    })
    // The same, twice over, for one that has its socket.
    for (let n = 0; n < 2; n++) await on.prepare(one)
    assert.equal(isPrepared, false)
    on.bind(late)
    assert.equal((await waiting).job.folder, late)
  })
})
