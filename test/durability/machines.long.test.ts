// Two machines with one PostgreSQL and separate data directories: a turn runs on the machine with the workspace.
import assert from 'node:assert/strict'
import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { type Link, openLinkedInstance } from '../support/linked-instance.ts'
import { needs } from '../support/needs.ts'
import { instance } from '../support/svc.ts'
import { until } from '../support/until.ts'

const ROUNDS = 12
const SETTINGS = { AGENT_RUNTIME: 'command', SANDBOX: 'none', WEBHOOK_RATE_WEB: '0', LOG_LEVEL: 'warn' }

interface Round {
  readonly turn_id: string
  readonly status: string
  readonly frames?: readonly { readonly content: string }[]
}

suite('two machines on one PostgreSQL', needs('postgres'), () => {
  test('run each turn where its workspace is; without a workspace it waits until one appears', async (t) => {
    const one = await openLinkedInstance(t, 'postgres', { ...SETTINGS, AGENT_COMMAND: 'echo one' })
    const url = 'url' in one.address ? one.address.url : assert.fail('not on PostgreSQL')
    const two = await instance(t, { ...SETTINGS, AGENT_COMMAND: 'echo two', DATABASE_URL: url })
    for (const [machine, folder] of [
      [one, 'first'],
      [two, 'second'],
      [two, 'lost'],
    ] as const) {
      const { code, stderr } = await machine.run('group', 'demo', 'add', `sandbox:${folder}`, folder)
      assert.equal(code, 0, stderr)
    }
    rmSync(join(two.root, 'groups/lost'), { recursive: true })
    const links = new Map<string, Link>()
    for (const folder of ['first', 'second', 'lost']) links.set(folder, await one.mintChat('x', folder))
    const served = await one.start()
    const other = await two.serve(['routd', 'runed'])
    const chat = (folder: string, path = ''): string => served.chat(links.get(folder) ?? assert.fail(), path)
    const ask = async (folder: string, topic: string): Promise<Round> => {
      const headers = { 'content-type': 'application/json' }
      const body = JSON.stringify({ content: 'hello', topic })
      return roundOf(await fetch(chat(folder), { method: 'POST', headers, body }))
    }
    const readRound = async (folder: string, { turn_id }: Round) => roundOf(await fetch(chat(folder, turn_id)))
    const waitForResult = async (folder: string, round: Round): Promise<readonly unknown[]> => {
      await until(async () => (await readRound(folder, round)).status !== 'pending')
      const { status, frames = [] } = await readRound(folder, round)
      return [status, ...frames.map(({ content }) => content)]
    }

    const waiting = await ask('lost', 'x')
    for (let round = 0; round < ROUNDS; round++) {
      // Some of them concurrently, some one after the other.
      const rounds = await Promise.all(['first', 'second'].map((folder) => ask(folder, `${round % 5}`)))
      if (round % 4 === 3 || round > 15)
        assert.deepEqual(
          [
            await waitForResult('first', rounds[0] ?? assert.fail()),
            await waitForResult('second', rounds[1] ?? assert.fail()),
          ],
          [
            ['success', 'one'],
            ['success', 'two'],
          ],
        )
    }
    const failed = await one.query(
      `select folder, state from inbox where state not in ('answered', 'waiting', 'running')`,
    )
    assert.deepEqual(failed, [])
    assert.equal((await readRound('lost', waiting)).status, 'pending')
    mkdirSync(join(two.root, 'groups/lost'))
    assert.deepEqual(await waitForResult('lost', waiting), ['success', 'two'])
    const by = await one.query(`select folder, count(*) as n from inbox where state = 'answered' group by folder`)
    assert.deepEqual(by.map(({ folder, n }) => [folder, Number(n)]).sort(), [
      ['first', ROUNDS],
      ['lost', 1],
      ['second', ROUNDS],
    ])
    for (const { stop } of [served, other]) {
      const { stderr } = await stop()
      const warnings = stderr
        .split('\n')
        .filter((line) => line.includes('"lost"') && line.includes('its messages wait'))
      assert.equal(warnings.length, 1, 'each machine warns once')
    }
  })
})

async function roundOf(response: Response): Promise<Round> {
  assert.equal(response.status, 200)
  return Object(await response.json())
}
