// `svc messages` beside a server that answers: every message comes to an end that is shown (decision L14).
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { instance } from '../support/svc.ts'
import { until } from '../support/until.ts'

const BIN = join(import.meta.dirname, '..', '..', 'bin', 'svc.js')

interface Shown {
  readonly id: string
  readonly short_id: string
  readonly state: string
  readonly text: string
}

test('shows each message with its end; --follow shows it as it comes and goes until Ctrl-C', async (t) => {
  const demo = await instance(t)
  const served = await demo.serve()
  const minted = await demo.run('token', 'demo', 'issue', 'chat', 'main')
  const [, link = ''] = /^token: (.+)$/m.exec(minted.stdout) ?? []
  const chat = `${served.urls.get('proxyd')}/chat/${link}`
  const say = async (content: string): Promise<void> => {
    const headers = { 'Content-Type': 'application/json' }
    const answer = await fetch(chat, { method: 'POST', headers, body: JSON.stringify({ content }) })
    assert.ok(answer.ok, `${answer.status} ${await answer.text()}`)
  }
  const listed = async (...flags: string[]): Promise<Shown[]> => {
    const { code, stdout, stderr } = await demo.run('messages', 'demo', 'main', '--json', ...flags)
    assert.equal(code, 0, stderr)
    return JSON.parse(stdout)
  }

  await say('the first')
  await until(async () => (await listed()).every(({ state }) => !['waiting', 'running'].includes(state)))
  const [first] = await listed()
  // With its reason, where it ended otherwise.
  assert.equal(first?.state, 'answered', JSON.stringify(first))
  assert.equal((await listed('--state', 'answered')).length, 1)
  assert.equal(first?.text, 'the first')
  const { stdout: story } = await demo.run('messages', 'demo', 'show', first?.id ?? '')
  assert.match(story, /^state: answered$/m)
  assert.match(story, /^turn state: answered$/m)
  assert.match(story, /^answer of \S+ \(message\) to web:main\S*, sent\n {2}\S/m)

  const long = `${'word '.repeat(1000)}\nthe last line`
  await say(`/tool reply ${JSON.stringify({ chatJid: 'web:main', text: long })}`)
  await until(async () => (await listed()).every(({ state }) => !['waiting', 'running'].includes(state)))
  const { short_id = '' } = (await listed()).at(-1) ?? {}
  const { stdout: whole } = await demo.run('messages', 'demo', 'show', short_id)
  assert.ok(whole.includes(`  ${'word '.repeat(1000)}\n  the last line\n`), whole)

  const follower = spawn(process.execPath, [BIN, 'messages', 'demo', '--follow', '--json'], {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, SVC_DATA_DIR: dirname(demo.root) },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.after(() => void follower.kill('SIGKILL'))
  const shown: Shown[] = []
  createInterface({ input: follower.stdout }).on('line', (line) => shown.push(JSON.parse(line)))
  await until(() => shown.length === 2)
  await say('the second')
  const ends = (): Shown[] => shown.filter(({ text, state }) => text === 'the second' && state === 'answered')
  await until(() => ends().length === 1)
  const ended = once(follower, 'exit')
  follower.kill('SIGINT')
  assert.deepEqual(await ended, [0, null])
  assert.equal(ends().length, 1)
  await served.stop()
})
