import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { suite, type TestContext, test } from 'node:test'
import { CHANNEL_SECRET, type ChannelApiAnswer, openChannelApi } from '../../../test/support/channel-api.ts'
import { fakeAdapter } from '../../../test/support/fake-adapter.ts'
import { isRefusal, onEveryEngine, type TestHost, testHost } from '../../../test/support/host.ts'
import { run } from '../../../test/support/sql.ts'
import { issueBearer } from '../../core/access/bearers.ts'
import {
  type ChannelRegistration,
  channelRegistrations,
  registerChannel,
} from '../../core/delivery/channel-registrations.ts'
import { outbox } from '../../core/delivery/outbox.ts'
import { timestamp } from '../../lib/clock.ts'
import { channelSecretsResource } from '../../resources/channel-secrets.ts'

const REGISTER = 'POST /v1/channels/register'
const wanted = (over: object = {}) => ({
  name: 'teled',
  url: 'http://127.0.0.1:9',
  jid_prefixes: ['telegram:'],
  capabilities: { send_text: true },
  ...over,
})

onEveryEngine('adapter registration', (engine) => {
  test('an adapter registers, is listed, uses its token, and deregisters', async (t) => {
    const at = await testHost(t, engine)
    const api = await openChannelApi(t, at)
    const token = await api.register({ url: 'http://127.0.0.1:9/base/' })
    assert.match(token, /^[0-9a-f]{48}$/)
    const { body } = await api.ask('GET /v1/channels', undefined, token)
    assert.deepEqual(body, {
      ok: true,
      channels: [
        {
          name: 'teled',
          url: 'http://127.0.0.1:9/base',
          jid_prefixes: ['telegram:'],
          capabilities: { send_text: true },
          health_fails: 0,
          registered_at: '2026-01-01T00:00:00.000Z',
          seen_at: '2026-01-01T00:00:00.000Z',
        },
      ],
    })
    assert.equal((await api.ask('POST /v1/channels/deregister', {}, token)).status, 200)
    assert.equal((await api.ask('GET /v1/channels', undefined, token)).status, 401)
    assert.deepEqual((await api.ask('GET /v1/channels')).body, { ok: true, channels: [] })
  })

  test('registering again keeps the token and updates the rest', async (t) => {
    const at = await testHost(t, engine)
    const api = await openChannelApi(t, at)
    const token = await api.register()
    at.clock.advance(180_000)
    assert.equal(await api.register({ capabilities: { send_text: true, edit: true } }), token)
    const row = await at.host.engine.read((tx) => channelRegistrations.find(tx, { name: 'teled' }))
    assert.deepEqual(row?.capabilities, { send_text: true, edit: true })
    assert.deepEqual([row?.registered_at, row?.seen_at], ['2026-01-01T00:00:00.000Z', '2026-01-01T00:03:00.000Z'])
  })

  test('the token is not stored', async (t) => {
    const at = await testHost(t, engine)
    const token = await (await openChannelApi(t, at)).register()
    const { rows } = await at.host.engine.read((tx) => run(tx, 'select * from channel_registrations'))
    const dump = rows
      .flatMap((row) => Object.values(row))
      .map((value) => (value instanceof Uint8Array ? Buffer.from(value).toString('latin1') : String(value)))
      .join('\n')
    assert.ok(!dump.includes(token) && !dump.includes(Buffer.from(token, 'hex').toString('latin1')))
  })

  test('removes an adapter after three failed health checks; one process checks', async (t) => {
    const at = await testHost(t, engine)
    const [api, other] = [await openChannelApi(t, at), await openChannelApi(t, at)]
    const adapter = await fakeAdapter(t)
    const token = await api.register({ url: adapter.url })
    const fails = async () =>
      (await at.host.engine.read((tx) => channelRegistrations.find(tx, { name: 'teled' })))?.health_fails
    const round = async () => {
      at.clock.advance(30_000)
      await Promise.all([api.checks.check(), other.checks.check()])
    }
    await api.checks.check()
    assert.equal(adapter.requests.length, 0)
    await round()
    assert.deepEqual([adapter.requests.length, await fails()], [1, 0])
    assert.equal(adapter.requests[0]?.headers.authorization, `Bearer ${token}`)
    adapter.behave({ status: 500 })
    await round()
    await round()
    assert.equal(await fails(), 2)
    adapter.behave({ status: 503, body: { status: 'stale' } })
    await round()
    assert.equal(await fails(), 0)
    adapter.behave('dropped before')
    for (let at = 0; at < 3; at++) await round()
    assert.equal(await fails(), undefined)
  })
})

onEveryEngine('an adapter that registers from another address', (engine) => {
  const IN_USE = [409, 'the name teled is in use by an adapter at another address']

  test('takes over at once from a killed process, with a new token, and its deliveries are retried', async (t) => {
    const at = await testHost(t, engine)
    const api = await openChannelApi(t, at)
    const killed = await spawnAdapter(t)
    const old = await api.register({ url: killed.url })
    await killed.kill()
    const waiting = [
      'teled cannot be reached (ECONNREFUSED)',
      'teled answers 429: slow down',
      'tele cannot be reached (x)',
    ]
    for (const [seq, error] of waiting.entries()) await addWaiting(at, seq + 1, error)
    const adapter = await fakeAdapter(t)
    const token = await api.register({ url: adapter.url })
    assert.notEqual(token, old)
    const statusFor = async (bearer: string) => (await api.ask('GET /v1/channels', undefined, bearer)).status
    assert.deepEqual([await statusFor(old), await statusFor(token)], [401, 200])
    const [now, rows] = [at.host.clock.now(), await at.host.engine.read((tx) => outbox.list(tx))]
    assert.deepEqual(
      rows.toSorted((a, b) => a.message_seq - b.message_seq).map(({ next_at }) => next_at - now),
      [0, 60_000, 60_000],
    )
    const channel = await at.host.channels.resolve('telegram:1')
    await channel?.actions.send?.({ jid: 'telegram:1', key: 'k', content: 'hello' })
    assert.deepEqual(
      adapter.delivered.map(({ content }) => content),
      ['hello'],
    )
    assert.equal(adapter.requests.at(-1)?.headers.authorization, `Bearer ${token}`)
  })

  test('takes over with its own token, too', async (t) => {
    const api = await openChannelApi(t, await testHost(t, engine))
    const old = await api.register()
    const { status, body } = await api.ask(REGISTER, wanted({ url: 'http://127.0.0.1:10' }), old)
    assert.equal(status, 200)
    assert.notEqual(body.token, old)
    assert.equal((await api.ask(REGISTER, wanted({ url: 'http://127.0.0.1:11' }), old)).status, 401)
  })

  test('is refused while the old address answers, in whatever state', async (t) => {
    const api = await openChannelApi(t, await testHost(t, engine))
    const adapter = await fakeAdapter(t)
    const token = await api.register({ url: adapter.url })
    const refused = async (): Promise<void> => {
      assert.deepEqual(outcome(await api.ask(REGISTER, wanted({ url: 'http://127.0.0.1:10' }))), IN_USE)
      assert.equal((await api.ask('GET /v1/channels', undefined, token)).status, 200)
    }
    await refused()
    assert.equal(adapter.requests.at(-1)?.headers.authorization, undefined, 'another program may have the address')
    for (const status of ['stale', 'connecting', 'login_needed', 'refused']) {
      adapter.behave({ status: 503, body: { status } })
      await refused()
    }
    adapter.behave({ status: 502, body: 'some other server' })
    assert.match(await api.register({ url: 'http://127.0.0.1:10' }), /^[0-9a-f]{48}$/)
  })

  test('takes over from an address that accepts connections and does not answer', async (t) => {
    const api = await openChannelApi(t, await testHost(t, engine), { takeoverTimeoutMs: 20 })
    const hanging = await fakeAdapter(t)
    hanging.behave('silent')
    const old = await api.register({ url: hanging.url })
    assert.notEqual(await api.register({ url: 'http://127.0.0.1:10' }), old)
    assert.equal(hanging.requests.length, 1)
  })

  test('never shares its token with another process that registers at the same moment', async (t) => {
    const at = await testHost(t, engine)
    const [api, other] = [await openChannelApi(t, at), await openChannelApi(t, at)]
    const old = await api.register()
    const rivals = [await fakeAdapter(t), await fakeAdapter(t)]
    const answers = await Promise.all(
      rivals.map(({ url }, index) => (index === 0 ? api : other).ask(REGISTER, wanted({ url }))),
    )
    assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 409])
    const winner = answers.findIndex(({ status }) => status === 200)
    const row = await at.host.engine.read((tx) => channelRegistrations.find(tx, { name: 'teled' }))
    assert.equal(row?.url, rivals[winner]?.url)
    assert.equal((await api.ask('GET /v1/channels', undefined, String(answers[winner]?.body.token))).status, 200)
    assert.equal((await api.ask('GET /v1/channels', undefined, old)).status, 401)
  })

  test('is refused if the old process registers again while its address is checked', async (t) => {
    const at = await testHost(t, engine)
    const token = await (await openChannelApi(t, at)).register()
    const find = () => at.host.engine.read((tx) => channelRegistrations.find(tx, { name: 'teled' }))
    const checked = await find()
    at.clock.advance(1)
    await (await openChannelApi(t, at)).register()
    const moved = { ...wanted({ url: 'http://127.0.0.1:10' }), secret_name: undefined }
    const take = (silent: ChannelRegistration | undefined) =>
      at.host.engine.transaction((tx) => registerChannel(tx, at.host, moved, silent))
    await assert.rejects(take(checked), isRefusal('conflict', 'in use by an adapter at another address'))
    assert.notEqual(await take(await find()), token)
  })

  test('is refused without a check if the registration belongs to another secret', async (t) => {
    const at = await testHost(t, engine)
    const api = await openChannelApi(t, at)
    const { secret } = await at.cli.call(channelSecretsResource.verbs.add, { name: 'bridge', platforms: ['discord'] })
    const adapter = await fakeAdapter(t)
    const token = await api.register({ url: adapter.url })
    adapter.behave('dropped before')
    const other = wanted({ url: 'http://127.0.0.1:10', jid_prefixes: ['discord:'] })
    assert.deepEqual(outcome(await api.ask(REGISTER, other, secret)), [
      403,
      'the name teled belongs to an adapter with another secret',
    ])
    assert.equal(adapter.requests.length, 0)
    assert.equal((await api.ask('GET /v1/channels', undefined, token)).status, 200)
  })
})

/** An adapter in a process of its own. */
async function spawnAdapter(t: TestContext): Promise<{ readonly url: string; kill(): Promise<void> }> {
  const program = `require('node:http').createServer((_, response) => response.end('{"status":"ok"}'))
    .listen(0, '127.0.0.1', function () { console.log(this.address().port) })`
  const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'inherit'] })
  const gone = once(child, 'close')
  t.after(() => void child.kill('SIGKILL'))
  const [line] = await once(child.stdout, 'data')
  return {
    url: `http://127.0.0.1:${String(line).trim()}`,
    kill: async () => {
      child.kill('SIGKILL')
      await gone
    },
  }
}

/** A message that is tried again in a minute. */
function addWaiting({ host }: TestHost, message_seq: number, error: string): Promise<void> {
  const at = timestamp(host.clock.now())
  return host.engine.transaction((tx) =>
    outbox.insert(tx, {
      ...{ message_seq, id: `message-${message_seq}`, jid: 'telegram:1', topic: '', folder: 'main', action: 'send' },
      ...{ payload: '{}', engages: false, state: 'pending', attempts: 9, next_at: host.clock.now() + 60_000, fence: 0 },
      ...{ leased_until: 0, error, created_at: at, updated_at: at },
    }),
  )
}

onEveryEngine('the state that an adapter reports', (engine) => {
  test('is stored with its time, and an adapter that its platform refuses is not removed', async (t) => {
    const at = await testHost(t, engine)
    const api = await openChannelApi(t, at)
    const adapter = await fakeAdapter(t)
    await api.register({ url: adapter.url })
    const round = async () => {
      at.clock.advance(30_000)
      await api.checks.check()
      return at.host.engine.read((tx) => channelRegistrations.find(tx, { name: 'teled' }))
    }
    adapter.behave({ status: 503, body: { status: 'refused', detail: 'bot was\nblocked', since: 1_767_225_600 } })
    for (let times = 1; times <= 4; times++) {
      const row = await round()
      assert.deepEqual([row?.state, row?.detail, row?.health_fails], ['refused', 'bot was blocked', 0])
      assert.equal(row?.since, '2026-01-01T00:00:00.000Z')
      assert.equal(row?.reported_at, new Date(at.clock.now()).toISOString())
    }
    adapter.behave({ status: 200, body: {} })
    assert.equal((await round())?.state, undefined)
    adapter.behave({ status: 503, body: { status: 'ok' } })
    for (let times = 1; times <= 3; times++) await round()
    assert.deepEqual((await api.ask('GET /v1/channels')).body.channels, [])
  })

  test('is logged when it changes, without the QR code', async (t) => {
    const at = await testHost(t, engine)
    const lines: string[] = []
    const api = await openChannelApi(t, at, { log: (line) => lines.push(line) })
    const adapter = await fakeAdapter(t)
    await api.register({ url: adapter.url })
    const round = async (body: object) => {
      adapter.behave({ status: 200, body })
      at.clock.advance(30_000)
      await api.checks.check()
    }
    for (const status of ['ok', 'login_needed', 'login_needed', 'ok']) await round({ status, qr: '2@the-code' })
    const logged = lines.map((line) => JSON.parse(line)).filter(({ msg }) => msg !== 'registered')
    assert.deepEqual(
      logged.map(({ level, msg }) => [level, msg]),
      [
        ['warn', 'adapter needs a sign-in at its platform'],
        ['info', 'adapter is connected'],
      ],
    )
    assert.ok(!lines.join().includes('the-code'))
  })
})

suite('authentication of the channel protocol', () => {
  test('accepts the secret, a token and a service bearer, and nothing else', async (t) => {
    const at = await testHost(t)
    const api = await openChannelApi(t, at)
    const token = await api.register()
    const [service, person] = [
      await issueBearer(at.host, { sub: 'service:timed', kind: 'service' }),
      await issueBearer(at.host, { sub: 'github:1' }),
    ]
    const statusFor = async (bearer: string) => (await api.ask('GET /v1/channels', undefined, bearer)).status
    assert.deepEqual(await Promise.all([CHANNEL_SECRET, token, service, person].map(statusFor)), [200, 200, 200, 403])
    assert.deepEqual(
      await Promise.all(['', 'no', `${token}0`, 'a'.repeat(48), 'a.b.c'].map(statusFor)),
      [401, 401, 401, 401, 401],
    )
  })
})

onEveryEngine('an adapter with its own secret', (engine) => {
  const setUp = async (t: TestContext) => {
    const at = await testHost(t, engine)
    const { secret } = await at.cli.call(channelSecretsResource.verbs.add, { name: 'bridge', platforms: ['discord'] })
    return { ...at, api: await openChannelApi(t, at), secret }
  }
  const discord = (over: object = {}) => wanted({ name: 'discd', jid_prefixes: ['discord:'], ...over })

  test('registers only its platforms', async (t) => {
    const { api, secret } = await setUp(t)
    const made = await api.ask(REGISTER, discord(), secret)
    assert.deepEqual([made.status, String(made.body.token).length], [200, 48])
    for (const prefix of ['telegram:', 'discord2:'])
      assert.deepEqual(await api.ask(REGISTER, discord({ jid_prefixes: ['discord:', prefix] }), secret).then(outcome), [
        403,
        `the secret bridge is not valid for the platform ${prefix.slice(0, -1)} (jid_prefix_mismatch)`,
      ])
    const again = await api.ask(REGISTER, discord({ jid_prefixes: ['telegram:'] }), String(made.body.token))
    assert.equal(again.status, 403)
    const github = await api.ask(REGISTER, discord({ jid_prefixes: ['github:'] }), secret)
    assert.deepEqual(outcome(github), [403, 'the platform github is reserved for accounts (jid_prefix_mismatch)'])
  })

  test('protects its platforms and its name from the shared secret', async (t) => {
    const { api, secret } = await setUp(t)
    const refusal = 'the platform discord is bound to a separate secret (jid_prefix_mismatch)'
    assert.deepEqual(outcome(await api.ask(REGISTER, discord())), [403, refusal])
    await api.ask(REGISTER, discord(), secret)
    for (const name of ['discd', 'bridge'])
      assert.deepEqual(outcome(await api.ask(REGISTER, wanted({ name }))), [
        403,
        `the name ${name} belongs to an adapter with another secret`,
      ])
    assert.equal((await api.ask(REGISTER, wanted())).status, 200)
    assert.equal((await api.ask(REGISTER, discord({ name: 'teled' }), secret)).status, 403)
  })

  test('sees and removes only its own registrations', async (t) => {
    const { api, secret, host } = await setUp(t)
    const { body } = await api.ask(REGISTER, discord(), secret)
    const token = await api.register()
    const service = await issueBearer(host, { sub: 'service:timed', kind: 'service' })
    const listedFor = async (bearer: string) => {
      const { channels } = (await api.ask('GET /v1/channels', undefined, bearer)).body
      return Array.isArray(channels) ? channels.map(({ name }) => name).join() : channels
    }
    assert.deepEqual(await Promise.all([secret, String(body.token), CHANNEL_SECRET, token, service].map(listedFor)), [
      ...['discd', 'discd'],
      ...['teled', 'teled'],
      'discd,teled',
    ])
    const end = (name: string, bearer: string) => api.ask('POST /v1/channels/deregister', { name }, bearer)
    assert.deepEqual(outcome(await end('teled', secret)), [403, 'the adapter teled is registered with another secret'])
    assert.equal((await end('discd', CHANNEL_SECRET)).status, 403)
    assert.equal((await end('discd', secret)).status, 200)
    assert.equal((await end('discd', secret)).status, 404)
  })

  test('loses access at once when its secret is removed or rotated', async (t) => {
    const { api, secret, cli } = await setUp(t)
    const { body } = await api.ask(REGISTER, discord(), secret)
    const rotated = await cli.call(channelSecretsResource.verbs.rotate, { name: 'bridge' })
    const unknown = [401, 'the bearer is missing or not valid']
    for (const bearer of [secret, String(body.token), '', 'no'])
      assert.deepEqual(outcome(await api.ask('GET /v1/channels', undefined, bearer)), unknown)
    const { body: next } = await api.ask(REGISTER, discord(), rotated.secret)
    await cli.call(channelSecretsResource.verbs.remove, { name: 'bridge' })
    for (const bearer of [rotated.secret, String(next.token)])
      assert.deepEqual(outcome(await api.ask(REGISTER, discord(), bearer)), unknown)
    assert.equal((await api.ask(REGISTER, discord())).status, 200)
  })
})

onEveryEngine('a request during which its secret is removed', (engine) => {
  const CASES: Record<string, object> = {
    'POST /v1/channels/register': wanted({ name: 'discd', jid_prefixes: ['discord:'] }),
    'POST /v1/channels/deregister': { name: 'discd' },
    'POST /v1/messages': { chat_jid: 'discord:1', content: 'x' },
  }
  for (const [request, body] of Object.entries(CASES))
    test(`changes nothing: ${request}`, async (t) => {
      const at = await testHost(t, engine)
      const { add, remove } = channelSecretsResource.verbs
      const { secret } = await at.cli.call(add, { name: 'bridge', platforms: ['discord'] })
      const api = await openChannelApi(t, at)
      const adapter = { name: 'discd', jid_prefixes: ['discord:'] }
      const { body: registered } = await api.ask(REGISTER, wanted(adapter), secret)
      const open = Promise.withResolvers<void>()
      const underWay = [secret, String(registered.token)].map((bearer) => {
        const reading = Promise.withResolvers<void>()
        const pull = async (stream: ReadableStreamDefaultController): Promise<void> => {
          reading.resolve()
          await open.promise
          stream.enqueue(Buffer.from(JSON.stringify(body)))
          stream.close()
        }
        // Nothing is buffered, so the body is read only after the bearer was accepted.
        const slow = new ReadableStream({ pull }, { highWaterMark: 0 })
        return { answer: api.ask(request, slow, bearer), isRead: reading.promise }
      })
      for (const { isRead } of underWay) await isRead
      await at.cli.call(remove, { name: 'bridge' })
      open.resolve()
      for (const { answer } of underWay) assert.equal((await answer).status, 401)
      assert.deepEqual(await at.host.engine.read((tx) => channelRegistrations.list(tx)), [])
    })
})

const outcome = ({ status, detail }: ChannelApiAnswer): [number, string] => [status, detail]

suite('an adapter cannot register', () => {
  const cases: Record<string, [over: object, sentence: RegExp, status?: number]> = {
    'without a name': [{ name: undefined }, /^name is required \(missing_field\)$/],
    'without prefixes': [{ jid_prefixes: undefined }, /jid_prefixes is required \(missing_field\)/],
    'with no prefix': [{ jid_prefixes: [] }, /jid_prefixes needs at least 1/],
    'with an invalid name': [{ name: 'Tele Gram' }, /name must be 1 to 64 lower-case letters/],
    'with an invalid prefix': [{ jid_prefixes: ['telegram'] }, /must look like platform:/],
    'with chats of links': [{ jid_prefixes: ['web:'] }, /^the platform web is reserved for svc/, 403],
    'with rooms of the sandbox': [{ jid_prefixes: ['sandbox:x'] }, /^the platform sandbox is reserved for svc/, 403],
    'with accounts': [{ jid_prefixes: ['github:'] }, /^the platform github is reserved for accounts/, 403],
    'with accounts beside its own': [{ jid_prefixes: ['telegram:', 'oidc:1'] }, /^the platform oidc is reserved/, 403],
    'with a sender of svc': [{ jid_prefixes: ['system:'] }, /^the platform system is reserved for svc/, 403],
    'with principals of agents': [{ jid_prefixes: ['folder:'] }, /^the platform folder is reserved for svc/, 403],
    'with senders of tasks': [
      { jid_prefixes: ['timed-isolated:'] },
      /^the platform timed-isolated is reserved for svc/,
      403,
    ],
    'with capabilities that are not booleans': [{ capabilities: { send_text: 1 } }, /send_text must be true or false/],
    'with an unknown field': [{ tls: true }, /unknown field "tls" \(bad_request\)/],
    'with an invalid URL': [{ url: 'teled:8080' }, /must start with http/],
    'with a file URL': [{ url: 'file:///etc/passwd' }, /must start with http/],
    'with a password in the address': [{ url: 'http://a:b@127.0.0.1/' }, /must have no user/],
    'with a public address': [{ url: 'http://8.8.8.8/' }, /must be on a loopback or private address/],
    'with a public address in the long form': [{ url: 'http://[::ffff:808:808]/' }, /loopback or private/],
    'with the address of cloud metadata services': [{ url: 'http://169.254.169.254/' }, /loopback or private/],
    'with a public address as a number': [{ url: 'http://134744072/' }, /loopback or private/],
    'with a host that does not resolve': [{ url: 'http://nowhere.invalid/' }, /cannot resolve the host of url/],
  }
  for (const [what, [over, sentence, expected = 400]] of Object.entries(cases))
    test(what, async (t) => {
      const api = await openChannelApi(t, await testHost(t))
      const { status, detail } = await api.ask(REGISTER, wanted(over))
      assert.equal(status, expected)
      assert.match(detail, sentence)
      assert.deepEqual((await api.ask('GET /v1/channels')).body.channels, [])
    })

  test('under the name of another with its own token', async (t) => {
    const api = await openChannelApi(t, await testHost(t))
    const token = await api.register()
    assert.equal((await api.ask(REGISTER, wanted({ name: 'other' }), token)).status, 403)
    assert.equal((await api.ask('POST /v1/channels/deregister', { name: 'other' }, token)).status, 403)
    assert.equal((await api.ask('POST /v1/channels/deregister', { name: 'other' })).status, 404)
    assert.match((await api.ask('POST /v1/channels/deregister', {})).detail, /name is required/)
  })

  test('with a public address, unless those are allowed', async (t) => {
    const open = await openChannelApi(t, await testHost(t), { isPublicAllowed: true })
    assert.match(await open.register({ url: 'https://8.8.8.8' }), /^[0-9a-f]{48}$/)
    for (const url of [
      'http://localhost:1',
      'http://[::1]:1',
      'http://10.1.2.3',
      'http://172.31.0.1',
      'http://[fd00::1]/',
    ]) {
      const api = await openChannelApi(t, await testHost(t))
      assert.match(await api.register({ url }), /^[0-9a-f]{48}$/, url)
    }
  })
})
