// `svc messages` with a running server: every message reaches a final state, which is shown.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { instance } from '../support/svc.ts'
import { until } from '../support/until.ts'

const BIN = join(import.meta.dirname, '..', '..', 'bin', 'svc.js')

interface ListedMessage {
  readonly id: string
  readonly short_id: string
  readonly state: string
  readonly text: string
}

test('shows each message with its final state; --follow shows changes until Ctrl-C', async (t) => {
  const demo = await instance(t)
  const served = await demo.serve()
  const minted = await demo.run('token', 'demo', 'issue', 'chat', 'main')
  const [, link = ''] = /^token: (.+)$/m.exec(minted.stdout) ?? []
  const chat = `${served.urls.get('proxyd')}/chat/${link}`
  const post = async (content: string): Promise<void> => {
    const headers = { 'Content-Type': 'application/json' }
    const answer = await fetch(chat, { method: 'POST', headers, body: JSON.stringify({ content }) })
    assert.ok(answer.ok, `${answer.status} ${await answer.text()}`)
  }
  const list = async (...flags: string[]): Promise<ListedMessage[]> => {
    const { code, stdout, stderr } = await demo.run('messages', 'demo', 'main', '--json', ...flags)
    assert.equal(code, 0, stderr)
    return JSON.parse(stdout)
  }

  await post('the first')
  await until(async () => (await list()).every(({ state }) => !['waiting', 'running'].includes(state)))
  const [first] = await list()
  // The failure message includes the reason.
  assert.equal(first?.state, 'answered', JSON.stringify(first))
  assert.equal((await list('--state', 'answered')).length, 1)
  assert.equal(first?.text, 'the first')
  const { stdout: details } = await demo.run('messages', 'demo', 'show', first?.id ?? '')
  assert.match(details, /^state: answered$/m)
  assert.match(details, /^turn state: answered$/m)
  assert.match(details, /^answer of \S+ \(message\) to web:main\S*, sent\n {2}\S/m)

  const long = `${'word '.repeat(1000)}\nthe last line`
  await post(`/tool reply ${JSON.stringify({ chatJid: 'web:main', text: long })}`)
  await until(async () => (await list()).every(({ state }) => !['waiting', 'running'].includes(state)))
  const { short_id = '' } = (await list()).at(-1) ?? {}
  const { stdout: whole } = await demo.run('messages', 'demo', 'show', short_id)
  assert.ok(whole.includes(`  ${'word '.repeat(1000)}\n  the last line\n`), whole)

  const follower = spawn(process.execPath, [BIN, 'messages', 'demo', '--follow', '--json'], {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, SVC_DATA_DIR: dirname(demo.root) },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.after(() => void follower.kill('SIGKILL'))
  const shown: ListedMessage[] = []
  createInterface({ input: follower.stdout }).on('line', (line) => shown.push(JSON.parse(line)))
  await until(() => shown.length === 2)
  await post('the second')
  const ends = (): ListedMessage[] => shown.filter(({ text, state }) => text === 'the second' && state === 'answered')
  await until(() => ends().length === 1)
  const ended = once(follower, 'exit')
  follower.kill('SIGINT')
  assert.deepEqual(await ended, [0, null])
  assert.equal(ends().length, 1)
  await served.stop()
})
