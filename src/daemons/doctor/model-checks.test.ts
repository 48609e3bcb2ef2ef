import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { chatEndpoint, replyError, replyModels, replyWhole } from '../../../test/support/chat-endpoint.ts'
import { testHost } from '../../../test/support/host.ts'
import { groups } from '../../core/groups/groups.ts'
import { sourceOf } from '../../lib/settings.ts'
import { secretsResource } from '../../resources/secrets.ts'
import { checkModelCalls, checkModels } from './model-checks.ts'

async function open(t: TestContext, env: Record<string, string>, ...folders: string[]) {
  const on = await testHost(t)
  await on.groups('main', ...folders)
  const { engine, keyring, layout } = on.host
  assert.ok(layout)
  const options = { instance: 'test', layout, keyring, sources: [sourceOf('.env', new Map(Object.entries(env)))] }
  return {
    check: () => checkModels(engine, options),
    call: () => checkModelCalls(on.host, options),
    setConfig: (folder: string, config: object) =>
      engine.transaction((tx) => groups.update(tx, { folder }, { config: JSON.stringify(config) })),
    setSecret: (owner: string, key: string, value: string) =>
      on.cli.call(secretsResource.verbs.create, { scope_kind: 'folder', owner, key, value }),
  }
}

const openai = (url: string) => ({ AGENT_RUNTIME: 'openai', OPENAI_BASE_URL: url, OPENAI_MODEL: 'small' })
const LOCAL = openai('http://127.0.0.1:1/v1')

suite('checks of models', () => {
  test('name three folders that share a model, and count the others', async (t) => {
    const three = await open(t, LOCAL, 'a', 'b')
    assert.equal((await three.check()).detail, 'a, b, main: small at http://127.0.0.1:1/v1')
    const five = await open(t, LOCAL, 'a', 'b', 'c', 'd')
    assert.equal((await five.check()).detail, 'a, b, c and 2 more: small at http://127.0.0.1:1/v1')
  })

  test('tell folders with a model of their own from those with other secrets', async (t) => {
    const on = await open(t, LOCAL, 'a', 'a/b', 'c')
    await on.setSecret('c', 'API_TOKEN', 'x')
    await on.setConfig('main', { runtime: 'demo' })
    assert.equal((await on.check()).detail, 'a, a/b, c: small at http://127.0.0.1:1/v1; main: the built-in demo')
    await on.setSecret('a', 'OPENAI_MODEL', 'large')
    await on.setSecret('a', 'OPENAI_BASE_URL', 'http://127.0.0.1:2/v1')
    assert.equal(
      (await on.check()).detail,
      'c: small at http://127.0.0.1:1/v1; a, a/b: large at http://127.0.0.1:2/v1; main: the built-in demo',
    )
  })

  test('report faults once, with the command of the folder that has the first', async (t) => {
    const on = await open(t, {}, 'a')
    assert.equal((await on.check()).detail, 'the built-in demo answers; svc model test sets a real model')
    await on.setConfig('a', { runtime: 'openai' })
    const { status, detail, next } = await on.check()
    assert.deepEqual([status, next], ['wrong', 'svc model test a'])
    assert.match(detail, /^a: no model is set/)
  })

  test('call each model once, but neither the demo nor an incomplete one', async (t) => {
    const endpoint = await chatEndpoint(t)
    endpoint.answer(replyModels(['small'], replyWhole('hello')))
    const on = await open(t, openai(endpoint.url), 'a', 'b', 'c')
    await on.setConfig('b', { runtime: 'demo' })
    await on.setConfig('c', { runtime: 'command', command: '/no/such/program' })
    const found = await on.call()
    assert.equal(endpoint.asked.length, 1)
    assert.deepEqual(
      found.map(({ check, status }) => `${check} ${status}`),
      ['model call ok'],
    )
    assert.match(found[0]?.detail ?? '', /^small at .* answered in \d+\.\d s$/)
    endpoint.answer(replyError(500, 'broken'))
    const [failed] = await on.call()
    assert.deepEqual([failed?.status, failed?.next], ['wrong', 'svc model test'])
  })
})
