import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { openFakeHost, startAdapter } from '../../../test/support/adapter-process.ts'
import { openTelegramServer, TELEGRAM_PERSON } from '../../../test/support/telegram-server.ts'
import { type CleanupScope, tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'
import { testConnector } from '../process/connector.contract.ts'

testConnector({
  ...{ platform: 'telegram', receive: 'webhook', textMax: 4096, afterLostAnswer: 'unknown' },
  open: (t) => openTelegramServer(t, { receive: 'webhook' }),
})

const setUp = async (t: CleanupScope) => {
  const [host, platform] = [await openFakeHost(t), await openTelegramServer(t, { receive: 'webhook' })]
  const directory = join(tempDir(t), 'adapter')
  mkdirSync(directory)
  const webhookUrl = `${host.url}/channels/telegram/`
  const config = { platform: 'telegram', account: 'telegram', directory, webhookUrl, ...platform.account }
  const start = (settings: Record<string, string> = platform.account.settings) =>
    startAdapter(t, host, { ...config, settings })
  const adapter = await start()
  await until(() => platform.webhook !== undefined)
  return { host, platform, adapter, start }
}
const PRIVATE = { id: 42, type: 'private' }
const photo = (message_id: number, members: object = {}) => ({
  message: {
    ...{ message_id, date: 1_800_000_000, chat: PRIVATE, from: TELEGRAM_PERSON, media_group_id: 'album' },
    ...members,
  },
})

suite('the webhook of Telegram', () => {
  test('is set with a secret that stays, and is taken away by polling', async (t) => {
    const { host, platform, adapter, start } = await setUp(t)
    const { webhook } = platform
    assert.match(webhook?.secret ?? '', /^[\w-]{43}$/)
    const { params } = platform.calls.find(({ method }) => method === 'setWebhook') ?? {}
    assert.equal(params?.url, `${host.url}/channels/telegram/`)
    assert.equal(params?.drop_pending_updates, false)
    assert.ok((params?.allowed_updates as unknown[]).includes('message_reaction'))
    await adapter.stop()
    const again = await start()
    await until(() => platform.calls.filter(({ method }) => method === 'setWebhook').length === 2)
    assert.deepEqual(platform.webhook, webhook)
    await again.stop()
    platform.say({ text: 'meanwhile' })
    await start({})
    await until(() => host.stored.length === 1)
    assert.equal(platform.webhook, undefined)
    assert.equal(host.capabilities.webhook, undefined)
  })

  test('takes only requests with the secret', async (t) => {
    const { host, platform } = await setUp(t)
    const secret = platform.webhook?.secret ?? ''
    const ask = async (headers: Record<string, string>, method = 'POST') => {
      const body = Buffer.from(JSON.stringify({ update_id: 1, ...photo(1, { text: 'forged' }) })).toString('base64')
      return (await host.post('/webhook', { method, path: '/', query: '', headers, body })).body.status
    }
    const name = 'x-telegram-bot-api-secret-token'
    assert.equal(await ask({}), 401)
    assert.equal(await ask({ [name]: '' }), 401)
    assert.equal(await ask({ [name]: `${secret}x` }), 401)
    assert.equal(await ask({ [name]: secret }, 'GET'), 405)
    assert.equal(host.received.length, 0)
    assert.equal(await ask({ [name]: secret }), 200)
    assert.equal(host.stored.length, 1)
  })

  test('skips what cannot be read, and stores what comes after it', async (t) => {
    const { host, platform } = await setUp(t)
    const headers = { 'x-telegram-bot-api-secret-token': platform.webhook?.secret ?? '' }
    for (const text of ['', '[]', 'null', '{"update_id":"1"}', '{"update_id":1,"message":7}', '{'])
      assert.equal(
        (await host.post('/webhook', { method: 'POST', headers, body: Buffer.from(text).toString('base64') })).body
          .status,
        200,
      )
    platform.say({ text: 'after it' })
    await until(() => host.stored.length === 1)
  })

  test('stores a repeated update once, also while the first delivery runs', async (t) => {
    const { host, platform } = await setUp(t)
    const headers = { 'x-telegram-bot-api-secret-token': platform.webhook?.secret ?? '' }
    const body = Buffer.from(JSON.stringify({ update_id: 9, ...photo(3, { text: 'once' }) })).toString('base64')
    const deliver = () => host.post('/webhook', { method: 'POST', headers, body })
    const answers = await Promise.all([deliver(), deliver(), deliver()])
    assert.deepEqual(
      answers.map(({ body: { status } }) => status),
      [200, 200, 200],
    )
    await deliver()
    assert.equal(host.stored.length, 1)
  })

  test('answers 503 until svc has the update, so that Telegram delivers it again', async (t) => {
    const { host, platform, adapter, start } = await setUp(t)
    host.behave('drop before')
    platform.say({ text: 'once' })
    await until(() => host.received.length > 0)
    assert.equal(platform.deliveries.includes(200), false)
    await adapter.kill()
    await until(() => platform.deliveries.includes(503))
    host.behave('ok')
    await start()
    await until(() => platform.deliveries.includes(200))
    assert.equal(host.stored.length, 1)
  })

  test('stores each part of an album as it arrives, with none missing', async (t) => {
    const { host, platform } = await setUp(t)
    for (const id of [10, 11, 12])
      platform.update(photo(id, id === 10 ? { caption: 'see', photo: [] } : { text: `${id}` }))
    await until(() => host.stored.length === 3)
    assert.deepEqual(
      host.stored.map(({ id }) => id),
      ['10', '11', '12'],
    )
  })

  test('reports what Telegram says of failed deliveries', async (t) => {
    const { host, platform, adapter, start } = await setUp(t)
    await adapter.stop()
    platform.failWebhook('Wrong response from the webhook: 502 Bad Gateway')
    platform.say({ text: 'waits' })
    await until(() => platform.deliveries.includes(503))
    host.behave('drop before')
    await start()
    await until(async () => (await host.get('/health')).body.status === 'stale')
    assert.match(String((await host.get('/health')).body.detail), /cannot deliver: Wrong response.*502 Bad Gateway/)
    assert.equal(host.stored.length, 0)
  })

  test('is refused with a sentence if Telegram does not take the address', async (t) => {
    const { host, platform, adapter, start } = await setUp(t)
    await adapter.stop()
    platform.refuse('setWebhook', 400, 'Bad Request: bad webhook: An HTTPS URL must be provided for webhook')
    await start()
    await until(async () => (await host.get('/health')).body.status === 'refused')
    assert.match(String((await host.get('/health')).body.detail), /does not take the address http.*HTTPS URL must be/)
  })
})
