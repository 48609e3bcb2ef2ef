// `svc model` on a terminal while the instance is served: the next turn uses the model, and the key is not displayed.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import {
  chatEndpoint,
  type EndpointReply,
  replyError,
  replyModels,
  replyText,
  replyWhole,
} from '../support/chat-endpoint.ts'
import { needs } from '../support/needs.ts'
import { instance } from '../support/svc.ts'
import { svcOnTerminal } from '../support/terminal.ts'
import { until } from '../support/until.ts'

const KEY = 'sk-typed-on-a-terminal'

/** Runs `svc` on a pseudo-terminal; for each entry of `dialogue` waits for the question and types the answer. */
async function onTerminal(
  t: TestContext,
  root: string,
  args: string,
  dialogue: readonly (readonly [string, string])[],
) {
  const { screen, type, code } = svcOnTerminal(t, root, args)
  let from = 0
  for (const [question, answer] of dialogue) {
    await until(() => screen().indexOf(question, from) >= 0)
    from = screen().length
    type(answer)
  }
  return { code: await code, screen: screen() }
}

test('a model set on a terminal answers the next turn without a restart', needs('script'), async (t) => {
  const demo = await instance(t, { SANDBOX: 'none' })
  await demo.serve()
  const svc = async (...args: string[]): Promise<string> => {
    const { code, stdout, stderr } = await demo.run(...args)
    assert.equal(code, 0, `svc ${args.join(' ')}: ${stderr}`)
    return stdout
  }
  await svc('group', 'demo', 'add', 'sandbox:lobby', 'team')
  const answer = async (): Promise<string> => {
    const { answers } = JSON.parse(await svc('sandbox', 'demo', 'say', 'lobby', 'mia', 'hello', '--wait', '--json'))
    return answers[0].content
  }
  assert.doesNotMatch(await answer(), /^I am/, 'the demo runtime answers first')
  const endpoint = await chatEndpoint(t)
  const model: EndpointReply = (response, asked) =>
    asked.headers.authorization !== `Bearer ${KEY}`
      ? replyError(401, { message: 'wrong key' })(response, asked)
      : (asked.body.stream
          ? replyText(`I am ${asked.body.model}.`)
          : replyModels(['one', 'two'], replyWhole('Hello!')))(response, asked)
  endpoint.answer(model)
  const { code, screen } = await onTerminal(t, demo.root, 'model demo', [
    ['Which one?', '8'],
    ['Base URL', endpoint.url],
    ['Key', KEY],
    ['Model (', 'two'],
    ['Dollars per million tokens', 'free'],
  ])
  assert.equal(code, 0, screen)
  assert.match(screen, /two at \S+ answered in \d+\.\d s: Hello!/)
  assert.ok(!screen.includes(KEY), screen)
  assert.ok(!readFileSync(join(demo.root, '.env'), 'utf8').includes(KEY))
  assert.equal(await answer(), 'I am two.')
  await svc('model', 'demo', '--model', 'one')
  assert.equal(await answer(), 'I am one.')
  await svc('model', 'demo', 'team', '--runtime', 'demo')
  assert.doesNotMatch(await answer(), /^I am/)
})
