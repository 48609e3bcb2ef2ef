import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { openFakeHost, startAdapter } from '../../../test/support/adapter-process.ts'
import {
  openSlackServer,
  SLACK_CHANNEL,
  SLACK_PERSON,
  SLACK_SIGNING_SECRET,
  SLACK_TEAM,
  signSlackRequest,
} from '../../../test/support/slack-server.ts'
import { type CleanupScope, tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'
import { openLog } from '../../lib/log/log.ts'
import { AdapterStore } from '../process/adapter-store.ts'
import { testConnector } from '../process/connector.contract.ts'
import type { ConnectorContext, InboundEvent } from '../process/port.ts'
import { checkAccount } from './connector.ts'
import { openSlackApi } from './slack-api.ts'
import { SlackDirectory } from './slack-directory.ts'
import { readEnvelope } from './slack-events.ts'
import { SlackGaps } from './slack-gaps.ts'
import { SlackIntake } from './slack-intake.ts'
import { readSlackRequest, SlackWebhook } from './slack-webhook.ts'

testConnector({
  ...{ platform: 'slack', receive: 'events', textMax: 12_000, afterLostAnswer: 'sent once' },
  open: (t) => openSlackServer(t, { receive: 'events' }),
})

const setUp = async (t: CleanupScope) => {
  const [host, platform] = [
    await openFakeHost(t),
    await openSlackServer(t, { channel: SLACK_CHANNEL, receive: 'events' }),
  ]
  const directory = join(tempDir(t), 'adapter')
  mkdirSync(directory)
  const webhookUrl = `${host.url}/channels/slack/`
  platform.deliverTo(webhookUrl)
  const config = { platform: 'slack', account: 'slack', directory, webhookUrl, ...platform.account }
  const restart = () => startAdapter(t, host, config)
  const adapter = await restart()
  await until(async () => (await host.get('/health')).body.status === 'ok')
  const deliver = async ({ headers, body }: { headers: Record<string, string>; body: string }) => {
    const lower = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
    const envelope = {
      method: 'POST',
      path: '/',
      query: '',
      headers: lower,
      body: Buffer.from(body).toString('base64'),
    }
    return (await host.post('/webhook', envelope)).body
  }
  return { host, platform, adapter, restart, deliver }
}
const message = (text: string, ts = '1800000000.000100') => {
  const event = { type: 'message', channel: SLACK_CHANNEL, channel_type: 'channel', user: SLACK_PERSON, ts, text }
  return { type: 'event_callback', team_id: SLACK_TEAM, event_id: `Ev${text}`, event }
}

/** Without a process, at a time of the test. */
async function openAt(t: CleanupScope, nowMs: number) {
  const platform = await openSlackServer(t, { receive: 'events' })
  const state = new AdapterStore(tempDir(t), () => nowMs)
  const stop = new AbortController()
  t.after(() => {
    stop.abort()
    state.close()
  })
  const stored: InboundEvent[] = []
  const context: ConnectorContext = {
    ...{ ...platform.account, account: 'slack', state, signal: stop.signal, now: () => nowMs },
    log: await openLog({ to: { write: () => undefined } }),
    receive: async (event) => {
      stored.push(event)
      return 'stored'
    },
    setHealth: () => undefined,
    guard: (callback) => callback,
  }
  const call = openSlackApi(context)
  const directory = new SlackDirectory({ call, state, now: context.now })
  const gaps = new SlackGaps({ call, state, log: context.log, signal: stop.signal })
  const webhook = new SlackWebhook({ context, call, gaps, intake: new SlackIntake({ context, call, directory, gaps }) })
  void webhook.run()
  await until(() => webhook.bot !== undefined)
  const deliver = async (headers: Record<string, string>, body: string) => {
    const lower = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
    return (await webhook.receive({ method: 'POST', path: '/', query: '', headers: lower, body: Buffer.from(body) }))
      .status
  }
  return { deliver, stored }
}

suite('signatures of Slack', () => {
  test('count for less than five minutes, in both directions', async (t) => {
    const now = 1_800_000_000
    const { deliver, stored } = await openAt(t, now * 1000)
    const at = (seconds: number) => {
      const { headers, body } = signSlackRequest('events_api', message(`${seconds}`, `1800000000.${1000 + seconds}`), {
        at: now + seconds,
      })
      return deliver(headers, body)
    }
    assert.equal(await at(-299), 200)
    assert.equal(await at(299), 200)
    assert.equal(await at(-301), 401)
    assert.equal(await at(301), 401)
    assert.equal(await at(-300), 401)
    assert.deepEqual(
      stored.map(({ content }) => content),
      ['-299', '299'],
    )
  })

  test('of other secrets, bodies, times and shapes are refused', async (t) => {
    const now = 1_800_000_000
    const { deliver, stored } = await openAt(t, now * 1000)
    const { headers, body } = signSlackRequest('events_api', message('forged'), { at: now })
    const other = signSlackRequest('events_api', message('forged'), { at: now, secret: 'f'.repeat(32) })
    const [stamp, signature] = ['X-Slack-Request-Timestamp', 'X-Slack-Signature']
    const { [signature]: _, ...unsigned } = headers
    const { [stamp]: __, ...timeless } = headers
    assert.equal(await deliver(other.headers, other.body), 401)
    assert.equal(await deliver(headers, `${body} `), 401)
    assert.equal(await deliver(unsigned, body), 401)
    assert.equal(await deliver(timeless, body), 401)
    for (const time of ['', '-1', '1e9', 'now', `${now}.0`, ` ${now}`, `${now + 1}`])
      assert.equal(await deliver({ ...headers, [stamp]: time }, body), 401, time)
    for (const value of ['', 'v0=', String(headers[signature]).slice(3), `v1=${String(headers[signature]).slice(3)}`])
      assert.equal(await deliver({ ...headers, [signature]: value }, body), 401, value)
    assert.deepEqual(stored, [])
    assert.equal(await deliver(headers, body), 200)
    assert.equal(stored.length, 1)
  })
})

suite('the Events API', () => {
  test('gets its challenge back, if it is signed', async (t) => {
    const { deliver, host } = await setUp(t)
    const challenge = {
      type: 'url_verification',
      token: 'old',
      challenge: '3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P',
    }
    const answer = await deliver(signSlackRequest('events_api', challenge))
    assert.deepEqual([answer.status, answer.body], [200, challenge.challenge])
    assert.equal((await deliver(signSlackRequest('events_api', challenge, { secret: 'a'.repeat(32) }))).status, 401)
    assert.equal(host.capabilities.webhook, true)
  })

  test('stores an event that is replayed once, also while the first delivery runs', async (t) => {
    const { deliver, host, adapter, restart } = await setUp(t)
    const request = signSlackRequest('events_api', message('once'))
    await Promise.all([deliver(request), deliver(request)])
    await deliver({ ...request, headers: { ...request.headers, 'X-Slack-Retry-Num': '1' } })
    assert.equal(host.stored.length, 1)
    await adapter.kill()
    await restart()
    await until(async () => (await host.get('/health')).body.status === 'ok')
    assert.equal((await deliver(request)).status, 200)
    assert.equal(host.stored.length, 1)
  })

  test('delivers presses and commands as forms', async (t) => {
    const { platform, host } = await setUp(t)
    platform.envelope('slash_commands', {
      ...{ command: '/new', text: '', channel_id: SLACK_CHANNEL, channel_name: 'the-team', team_id: SLACK_TEAM },
      ...{ user_id: SLACK_PERSON, user_name: 'mia', trigger_id: '13345224609.738474920.8088930838d88f008e0' },
    })
    await until(() => host.stored.length === 1)
    assert.equal(host.stored[0]?.content, '/new')
    platform.envelope('interactive', {
      ...{ type: 'block_actions', trigger_id: '1.2.3', channel: { id: SLACK_CHANNEL, name: 'the-team' } },
      ...{ user: { id: SLACK_PERSON, name: 'mia' }, message: { ts: '1800000000.000001' } },
      ...{ container: { type: 'message', message_ts: '1800000000.000001', channel_id: SLACK_CHANNEL } },
      actions: [{ type: 'button', action_id: 'yes', block_id: 'b', value: 'yes', action_ts: '1800000001.000001' }],
    })
    await until(() => platform.deliveries.length === 2)
    assert.deepEqual(platform.deliveries, [200, 200])
  })

  test('is answered with 503 until svc has the event', async (t) => {
    const { platform, host, adapter, restart } = await setUp(t)
    host.behave('drop before')
    await platform.say({ text: 'once' })
    await until(() => host.received.length > 0)
    assert.deepEqual(platform.deliveries, [])
    await adapter.kill()
    await until(() => platform.deliveries.includes(503))
    host.behave('ok')
    await restart()
    await until(() => platform.deliveries.includes(200))
    assert.equal(host.stored.length, 1)
  })

  test('needs no app-level token', async (t) => {
    const { account } = await openSlackServer(t, { receive: 'events' })
    const { name } = await checkAccount({ ...account, signal: new AbortController().signal })
    assert.match(name, /@ada/)
    assert.equal(account.secrets.app_token, undefined)
    assert.equal(account.secrets.signing_secret, SLACK_SIGNING_SECRET)
  })

  test('has bodies of any kind read without an exception', () => {
    const slack = { bot: { team: SLACK_TEAM, user: 'U0ADA', bot: 'B0ADA', name: 'ada' }, areBotsHeard: true }
    const types = fc.constantFrom('application/json', 'application/x-www-form-urlencoded', '')
    fc.assert(
      fc.property(
        types,
        fc.oneof(
          fc.string(),
          fc.json(),
          fc.json().map((text) => `payload=${text}`),
        ),
        (kind, text) => {
          const { type, payload } = readSlackRequest({ headers: { 'content-type': kind }, body: Buffer.from(text) })
          assert.ok(Array.isArray(readEnvelope(slack, type, payload)))
        },
      ),
    )
  })
})
