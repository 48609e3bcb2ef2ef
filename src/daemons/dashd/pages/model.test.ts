import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { chatEndpoint, replyError, replyModels, replyWhole } from '../../../../test/support/chat-endpoint.ts'
import { type Dashboard, serveDashboard } from '../../../../test/support/dashboard.ts'
import { followForm, postForm } from '../../../../test/support/dashboard-forms.ts'
import { freePort } from '../../../../test/support/free-port.ts'
import { groups } from '../../../core/groups/groups.ts'
import { secrets } from '../../../core/secrets/secrets.ts'
import { storedSettings } from '../../../core/settings/stored-settings.ts'

const KEY = 'sk-the-key-of-the-test'
const INSTANCE_KEY = 'sk-the-key-of-the-instance'
const textOf = async (response: Promise<Response>): Promise<string> => (await response).text()

interface ModelDashboard extends Dashboard {
  /** The settings in the store. */
  stored(): Promise<ReadonlyMap<string, string>>
}

async function open(t: TestContext, settings: Record<string, string> = {}): Promise<ModelDashboard> {
  const dash = await serveDashboard(t, { settings, isLive: true })
  const rows = () => dash.host.engine.read((tx) => storedSettings.list(tx))
  return { ...dash, stored: async () => new Map((await rows()).map(({ key, value }) => [key, value])) }
}

suite('the page of the model', () => {
  test('connects a model after a test call, and never shows the key', async (t) => {
    const endpoint = await chatEndpoint(t)
    endpoint.answer(replyModels(['small'], replyWhole('Hello <b>you</b>!')))
    const dash = await open(t)
    const start = await textOf(dash.operator.get('/dash/model'))
    assert.match(start, /Connect a model to get real answers/)
    const path = '/dash/model?kind=other'
    assert.match(await textOf(dash.operator.get(path)), /Test and save/)
    const form = {
      action: 'set_model',
      kind: 'other',
      base_url: endpoint.url,
      model: 'small',
      key: KEY,
      price: '1.25/0.125/10',
    }
    const page = await followForm(dash.operator, path, form)
    assert.match(page, /small at .* answered in .* Hello &lt;b&gt;you&lt;\/b&gt;!/)
    assert.ok(!page.includes(KEY))
    const settings = await dash.stored()
    assert.deepEqual(
      ['AGENT_RUNTIME', 'OPENAI_BASE_URL', 'OPENAI_MODEL', 'OPENAI_API_KEY'].map((key) => settings.get(key)),
      ['openai', endpoint.url, 'small', 'sealed'],
    )
    assert.deepEqual(
      ['OPENAI_PRICE_INPUT', 'OPENAI_PRICE_CACHED', 'OPENAI_PRICE_OUTPUT'].map((key) => settings.get(key)),
      ['125', '12.5', '1000'],
    )
    assert.match(page, /\$1\.25 input, \$0\.125 cached input and \$10 output per million tokens, as stated/)
  })

  test('asks for the price of a model that the table does not have; free and unknown are answers', async (t) => {
    const endpoint = await chatEndpoint(t)
    endpoint.answer(replyModels(['small'], replyWhole('Hello!')))
    const dash = await open(t)
    const [path, form] = [
      '/dash/model?kind=other',
      { action: 'set_model', kind: 'other', base_url: endpoint.url, key: KEY },
    ]
    const post = async (typed: Record<string, string>): Promise<string> =>
      (await postForm(dash.operator, path, { ...form, model: 'small', ...typed })).text()
    assert.match(await post({}), /price must be given: no price is known for small/i)
    assert.match(await post({ price: '-1/2' }), /price must be dollars per million tokens/i)
    assert.equal((await dash.stored()).size, 0)
    assert.match(await followForm(dash.operator, path, { ...form, model: 'small', price: 'free' }), /free, as stated/)
    assert.equal((await dash.stored()).get('OPENAI_PRICE_INPUT'), '0')
    const unknown = await followForm(dash.operator, path, { ...form, model: 'small', price: 'unknown' })
    assert.match(unknown, /Price: not known/)
    const listed = await followForm(dash.operator, path, { ...form, model: 'openai/gpt-5-2025-08-07', price: '' })
    assert.match(listed, /\$10 output per million tokens \(gpt-5 in the table of 20/)
    assert.equal((await dash.stored()).get('OPENAI_PRICE_INPUT'), '')
  })

  test('says that no cap limits a model without a price, and so does the page of the cap', async (t) => {
    const model = { AGENT_RUNTIME: 'openai', OPENAI_BASE_URL: 'http://127.0.0.1:1/v1', OPENAI_MODEL: 'small' }
    const dash = await open(t, model)
    const shown = (path: string): Promise<string> => textOf(dash.operator.get(path))
    assert.match(await shown('/dash/model'), /No price is known for small at .*, so no cap would limit its turns/)
    const budget = '/dash/folders/team?view=budget'
    assert.doesNotMatch(await shown(budget), /No price is known/)
    const done = await followForm(dash.operator, budget, { action: 'set_budget', dollars: '5' })
    assert.match(done, /No price is known for small at .*, so turns of team.* count no cost and no cap limits them/)
    assert.match(await shown('/dash/model'), /the caps of team do not limit its turns/)
    const priced = await open(t, { ...model, OPENAI_PRICE_INPUT: '0', OPENAI_PRICE_OUTPUT: '0' })
    await followForm(priced.operator, budget, { action: 'set_budget', dollars: '5' })
    for (const path of [budget, '/dash/model'])
      assert.doesNotMatch(await textOf(priced.operator.get(path)), /No price is known/)
  })

  test('changes nothing if the test fails, and says why', async (t) => {
    const endpoint = await chatEndpoint(t)
    endpoint.answer(replyError(401, 'bad key'))
    const dash = await open(t)
    const form = { action: 'set_model', kind: 'other', base_url: endpoint.url, model: 'small', key: KEY, price: 'free' }
    const refused = await postForm(dash.operator, '/dash/model?kind=other', form)
    assert.equal(refused.status, 422)
    const body = await refused.text()
    assert.match(body, /rejected the key/)
    assert.ok(!body.includes(KEY) && body.includes('value="small"'))
    assert.equal((await dash.stored()).size, 0)
    await followForm(dash.operator, '/dash/model?kind=other', { ...form, untested: 'true' })
    assert.equal((await dash.stored()).get('OPENAI_MODEL'), 'small')
  })

  test('says at the field what is wrong, and why a model cannot be reached', async (t) => {
    const dash = await open(t)
    const base_url = `http://127.0.0.1:${await freePort()}/v1`
    const form = {
      action: 'set_model',
      form: 'set_model',
      kind: 'other',
      base_url,
      model: 'small',
      key: KEY,
      price: 'free',
    }
    const faultOf = async (typed: Record<string, string>, kind = 'other') => {
      const answer = await postForm(dash.operator, `/dash/model?kind=${kind}`, { ...form, kind, ...typed })
      const body = await answer.text()
      assert.ok(!body.includes(KEY) && !body.includes('--key'))
      const [, at, text] = /<small id="form-set_model-(\w+)-fault"[^>]*>([^<]*)/.exec(body) ?? []
      return [answer.status, at, text ?? /<div class="notice fault"[^>]*>([^<]*)/.exec(body)?.[1]]
    }
    assert.deepEqual(await faultOf({ base_url: 'nonsense' }), [
      ...[400, 'base_url', 'The base URL must look like https://host/v1.'],
    ])
    assert.deepEqual((await faultOf({ base_url: 'https://a:b@host/v1' })).slice(0, 2), [400, 'base_url'])
    assert.deepEqual((await faultOf({ key: 'two words' })).slice(0, 2), [400, 'key'])
    assert.deepEqual((await faultOf({ model: '' })).slice(0, 2), [400, 'model'])
    assert.deepEqual((await faultOf({ price: '' })).slice(0, 2), [400, 'price'])
    assert.deepEqual((await faultOf({ price: 'cheap' })).slice(0, 2), [400, 'price'])
    assert.deepEqual((await faultOf({ command: ' ' }, 'command')).slice(0, 2), [400, 'command'])
    const [status, , text] = await faultOf({})
    assert.equal(status, 422)
    assert.match(String(text), /refused the connection|cannot be reached|is listening/)
    assert.equal((await dash.stored()).size, 0)
  })

  test('is for operators only', async (t) => {
    const dash = await open(t)
    const form = { action: 'set_model', kind: 'demo' }
    for (const browser of [dash.admin, dash.stranger]) {
      assert.equal((await browser.get('/dash/model')).status, 404)
      assert.equal((await postForm(browser, '/dash/model', form)).status, 404)
      assert.equal((await postForm(browser, '/dash/model', { action: 'test_model' })).status, 404)
    }
    assert.equal((await dash.stored()).size, 0)
  })

  test('of a folder is tested and set by its administrators, but not its program', async (t) => {
    const endpoint = await chatEndpoint(t)
    endpoint.answer(replyModels(['small', 'large'], replyWhole('Hello!')))
    const dash = await open(t, {
      ...{
        AGENT_RUNTIME: 'openai',
        OPENAI_BASE_URL: endpoint.url,
        OPENAI_MODEL: 'small',
        OPENAI_API_KEY: INSTANCE_KEY,
        OPENAI_PRICE_INPUT: '0',
        OPENAI_PRICE_OUTPUT: '0',
      },
    })
    const path = '/dash/folders/team?view=agent'
    assert.match(await followForm(dash.admin, path, { action: 'test_model' }), /small at .* answered in/)
    // Only the model changes: the folder still uses the endpoint of the instance, with its key.
    const inherited = {
      action: 'set_model',
      kind: 'other',
      base_url: `${endpoint.url}/`,
      model: 'large',
      key: '',
      price: 'free',
    }
    assert.match(await followForm(dash.admin, `${path}&kind=other`, inherited), /large at .* answered in/)
    assert.equal(endpoint.asked.at(-1)?.headers.authorization, `Bearer ${INSTANCE_KEY}`)
    const form = { action: 'set_model', kind: 'other', base_url: endpoint.url, model: 'large', key: KEY, price: '1/2' }
    // An endpoint on this machine is set by operators, and its answers are not shown to others.
    const asked = endpoint.asked.length
    const refused = await postForm(dash.admin, `${path}&kind=other`, form)
    assert.equal(refused.status, 403)
    assert.match(await refused.text(), /An endpoint with an IP address .* is set by operators only/)
    const named = await postForm(dash.admin, `${path}&kind=other`, { ...form, base_url: 'http://localhost:1/v1' })
    assert.equal(named.status, 403)
    assert.equal(endpoint.asked.length, asked)
    assert.match(await followForm(dash.operator, `${path}&kind=other`, form), /large at .* answered in/)
    endpoint.answer(replyError(500, { error: { message: 'inner words' } }))
    assert.match(await (await postForm(dash.operator, path, { action: 'test_model' })).text(), /inner words/)
    endpoint.answer(replyModels(['small', 'large'], replyWhole('Hello!')))
    const [row, keys] = await dash.host.engine.read(async (tx) => [
      await groups.find(tx, { folder: 'team' }),
      (await secrets.list(tx, { scope_kind: 'folder', owner: 'team' })).map(({ key }) => key).sort(),
    ])
    const prices = ['OPENAI_PRICE_CACHED', 'OPENAI_PRICE_INPUT', 'OPENAI_PRICE_OUTPUT']
    assert.deepEqual(keys, ['OPENAI_API_KEY', 'OPENAI_BASE_URL', 'OPENAI_MODEL', ...prices])
    assert.doesNotMatch(row?.config ?? '', /runtime/)
    const calls = endpoint.asked.length
    const program = { action: 'set_model', kind: 'command', command: 'touch /tmp/never' }
    assert.equal((await postForm(dash.admin, path, program)).status, 403)
    assert.equal((await postForm(dash.admin, '/dash/folders/other?view=agent', form)).status, 404)
    assert.equal((await postForm(dash.admin, '/dash/folders/other?view=agent', { action: 'test_model' })).status, 404)
    assert.equal(endpoint.asked.length, calls)
  })
})
