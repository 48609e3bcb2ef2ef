// A fresh instance without API keys: the demo agent answers, reminds, delegates, searches and respects budgets, and every
// message reaches a visible final state.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { SseDecoder } from '../../src/lib/http/sse-reader.ts'
import { instance } from '../support/svc.ts'
import { until } from '../support/until.ts'

interface Round {
  readonly status: string
  readonly frames: readonly { kind: string; content: string }[]
  readonly error?: string
}

async function open(t: TestContext) {
  const demo = await instance(t)
  const svc = async (...args: string[]): Promise<string> => {
    const { code, stdout, stderr } = await demo.run(...args)
    assert.equal(code, 0, `svc ${args.join(' ')}: ${stderr}`)
    return stdout
  }
  const { urls } = await demo.serve()
  const link = async (folder: string): Promise<string> => {
    const issued = await svc('token', 'demo', 'issue', 'chat', folder, '--tools', 'all')
    return `${urls.get('proxyd')}${new URL(/^url: (\S+)$/m.exec(issued)?.[1] ?? '').pathname}`
  }
  const ask = async (chat: string, content: string): Promise<Round & { text: string }> => {
    const headers = { 'Content-Type': 'application/json' }
    const answer = await fetch(chat, { method: 'POST', headers, body: JSON.stringify({ content }) })
    const { turn_id } = JSON.parse(await answer.text())
    let round: Round = { status: 'pending', frames: [] }
    await until(async () => {
      round = JSON.parse(await (await fetch(`${chat}${turn_id}`)).text())
      return round.status !== 'pending'
    })
    return { ...round, text: round.frames.map(({ content }) => content).join('\n') }
  }
  return { svc, link, ask, demo }
}

/** Resolves when the agent writes a matching message in the chat. */
async function waitForMessage(chat: string, text: RegExp): Promise<void> {
  const { body } = await fetch(`${chat}events`)
  const reader = new SseDecoder()
  const isMatch = (event: string, data: string): boolean => {
    if (event !== 'message') return false
    const { role, content } = JSON.parse(data)
    assert.ok(!/^timed/.test(JSON.parse(data).sender), 'the prompt of a task is shown in the chat')
    return role === 'assistant' && text.test(content)
  }
  for await (const piece of body ?? []) if (reader.push(piece).some(({ event, data }) => isMatch(event, data))) return
  assert.fail('the stream ended')
}

test('without API keys a chat link answers, tasks fire, questions are delegated, and budgets refuse', async (t) => {
  const { svc, link, ask } = await open(t)
  const chat = await link('main')

  const hello = await ask(chat, 'hello there')
  assert.equal(hello.status, 'success')
  assert.match(hello.text, /hello there/)

  const remind = await ask(chat, 'remind me in 2s to drink water')
  assert.equal(remind.status, 'success')
  await waitForMessage(chat, /^(?!I will).*drink water/i)

  await svc('group', 'demo', 'add', 'sandbox:lobby', 'team')
  const delegated = await ask(chat, 'ask team what is the weather like')
  assert.equal(delegated.status, 'success')
  assert.match(delegated.text, /the demo of `team`[\s\S]*what is the weather like/)

  await waitForMessage(chat, /the demo of `team`/)

  const found = await ask(chat, 'find weather')
  assert.match(found.text, /«weather»/)

  const ping = await ask(chat, '/ping')
  assert.match(ping.text, /pong/)

  await ask(chat, 'spend 5 cents')
  await svc('budget', 'demo', 'set', 'folder', 'main', '--daily', '4')
  const refused = await ask(chat, 'hello again')
  assert.equal(refused.status, 'failed')
  assert.match(refused.error ?? '', /^the agent is paused until 20\d\d-\d\d-\d\d 00:00 UTC$/)
  assert.match(await svc('budget', 'demo', 'show', 'folder', 'main'), /EXHAUSTED/)

  const states = JSON.parse(await svc('messages', 'demo', '--json', '--limit', '100'))
  const list: { state: string; text: string }[] = Array.isArray(states) ? states : states.messages
  assert.ok(list.length >= 9)
  const unfinished = list.filter(({ state }) => ['waiting', 'running', 'delegated'].includes(state))
  assert.deepEqual(unfinished, [])
  assert.ok(list.some(({ state }) => state === 'refused'))
})

test('the agent answers a person in a sandbox room', async (t) => {
  const { svc, demo } = await open(t)
  await svc('group', 'demo', 'add', 'sandbox:lobby', 'team')
  const answer = await svc('sandbox', 'demo', 'say', 'lobby', 'ann', 'hello team', '--wait')
  assert.match(answer, /hello team/)
  const shown = await svc('sandbox', 'demo', 'show', 'lobby')
  assert.match(shown, /ann/)
  const wrong = await demo.run('sandbox', 'demo', 'react', 'lobby', 'ann', 'no-such-message', '👍')
  assert.equal(wrong.code, 1)
})
