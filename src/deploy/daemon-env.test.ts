import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { ALL_SETTINGS, DAEMON_NAMES, isOpenIdKey } from '../daemons/settings.ts'
import { formatDotenv, parseDotenv } from '../lib/text/dotenv.ts'
import { containerNetworks } from './container-networks.ts'
import { type ContainerSite, daemonEnv, unreachableUrls } from './daemon-env.ts'
import { needsSetting } from './daemon-needs.ts'

const site: ContainerSite = {
  instance: 'demo',
  root: '/srv/data/svc_demo',
  image: 'svc-host:1',
  networks: containerNetworks('10.77.0.0/22', ''),
}
const env = (name: (typeof DAEMON_NAMES)[number], entries: Record<string, string>, changes = {}) =>
  Object.fromEntries(daemonEnv(name, new Map(Object.entries(entries)), { ...site, ...changes }))

/** Settings whose value in a container is another one. */
const GENERATED =
  /^(TRUSTED_PROXIES|SANDBOX|HOST_DATA_DIR|AGENT_IMAGE|ADAPTER_HOST|ENGINE_SOCKET|SETTINGS_SET|.*_LISTEN|.*D_URL)$/

suite('the settings of a container', () => {
  test('keep every value that the daemon reads, and no other', () => {
    const key = fc.constantFrom(...Object.keys(ALL_SETTINGS), 'OIDC_GOOGLE_SECRET', 'SLACK_TOKEN')
    const entries = fc.dictionary(
      key,
      fc.string({ unit: 'binary' }).filter((text) => !/[\0]/.test(text)),
    )
    fc.assert(
      fc.property(entries, fc.constantFrom(...DAEMON_NAMES), (given, name) => {
        const text = formatDotenv(daemonEnv(name, new Map(Object.entries(given)), site))
        const found = parseDotenv(text, '.env')
        for (const [key, value] of Object.entries(given)) {
          if (GENERATED.test(key)) continue
          assert.equal(found.get(key), needsSetting(name, key) ? value : undefined, key)
        }
        for (const key of found.keys()) assert.ok(key in given || GENERATED.test(key), key)
      }),
    )
  })

  test('name the other daemons at their containers', () => {
    const proxyd = env('proxyd', { WEBD_URL: 'http://elsewhere', WEB_LISTEN: '0.0.0.0:80' })
    assert.equal(proxyd.WEBD_URL, 'http://webd:8080')
    assert.equal(proxyd.PROXYD_LISTEN, '0.0.0.0:8080')
    assert.equal(proxyd.WEB_LISTEN, undefined)
    assert.deepEqual(
      Object.keys(env('timed', {})).filter((key) => key.endsWith('_URL')),
      [],
      'timed without a store needs ROUTD_URL',
    )
  })

  test('name the daemons that runed and routd have a line to, unless a database server notifies them', () => {
    const urls = (name: 'runed' | 'routd', entries: Record<string, string>, changes = {}): string[] =>
      Object.keys(env(name, entries, changes)).filter((key) => key.endsWith('D_URL'))
    assert.deepEqual(urls('runed', {}), ['DASHD_URL', 'ROUTD_URL', 'WEBD_URL'])
    assert.deepEqual(urls('routd', {}), ['WEBD_URL'])
    for (const [entries, changes] of [
      [{ DATABASE_URL: 'postgres://db/x' }, {}],
      [{}, { postgresPassword: 'x' }],
    ] as const)
      assert.deepEqual([urls('runed', entries, changes), urls('routd', entries, changes)], [[], []])
  })

  test('trust proxyd at its address, and this machine at the gateway of proxyd', () => {
    assert.equal(env('authd', {}).TRUSTED_PROXIES, '10.77.0.250')
    assert.equal(env('webd', { TRUSTED_PROXIES: '192.0.2.1' }).TRUSTED_PROXIES, '192.0.2.1,10.77.0.250')
    assert.equal(env('proxyd', {}).TRUSTED_PROXIES, undefined)
    assert.equal(env('proxyd', { TRUSTED_PROXIES: '192.0.2.1' }).TRUSTED_PROXIES, '192.0.2.1')
    assert.equal(env('proxyd', { TRUSTED_PROXIES: '127.0.0.0/8' }).TRUSTED_PROXIES, '127.0.0.0/8,10.77.2.1')
  })

  test('tell proxyd which settings have a value, but no value', () => {
    assert.equal(env('proxyd', { SLACK_TOKEN: 'xoxb-1', EMPTY: '' }).SETTINGS_SET, 'SLACK_TOKEN')
    assert.equal(env('webd', { SLACK_TOKEN: 'xoxb-1' }).SETTINGS_SET, undefined)
  })

  test('let routd run adapters that the other daemons reach by its name', () => {
    assert.equal(env('routd', { ADAPTER_HOST: 'elsewhere' }).ADAPTER_HOST, 'routd')
    assert.equal(env('gated', { ADAPTER_HOST: 'elsewhere' }).ADAPTER_HOST, undefined)
  })

  test('run agents in containers, unless there is no sandbox', () => {
    const runed = env('runed', { SANDBOX: 'bwrap' })
    assert.deepEqual(
      [runed.SANDBOX, runed.HOST_DATA_DIR, runed.AGENT_IMAGE],
      ['container', '/srv/data/svc_demo', 'svc-host:1'],
    )
    assert.equal(env('runed', { SANDBOX: 'none' }).SANDBOX, 'none')
    assert.equal(env('runed', { AGENT_IMAGE: 'mine:2' }).AGENT_IMAGE, 'mine:2')
  })

  test('use the PostgreSQL service instead of its socket', () => {
    const { DATABASE_URL } = env('timed', { DATABASE_URL: 'postgres://x' }, { postgresPassword: 'a/b c' })
    assert.equal(DATABASE_URL, 'postgres://svc:a%2Fb%20c@postgres:5432/svc')
  })

  test('have provider secrets at authd alone', () => {
    for (const name of DAEMON_NAMES)
      assert.equal(Object.keys(env(name, { OIDC_X_SECRET: 's' })).some(isOpenIdKey), name === 'authd')
  })
})

test('finds URLs of this machine, which a container cannot reach', () => {
  const entries = {
    OPENAI_BASE_URL: 'http://localhost:11434/v1',
    TTS_URL: 'http://[::1]:1',
    ANTHROPIC_BASE_URL: 'https://example.com',
  }
  assert.deepEqual(unreachableUrls(new Map(Object.entries(entries))), ['TTS_URL', 'OPENAI_BASE_URL'])
  assert.deepEqual(unreachableUrls(new Map([['TELEGRAM_API_URL', 'http://localhost:8081']])), ['TELEGRAM_API_URL'])
  assert.deepEqual(unreachableUrls(new Map([['DATABASE_URL', 'postgres://u:p@127.0.0.1/db']])), ['DATABASE_URL'])
  assert.deepEqual(unreachableUrls(new Map([['DATABASE_URL', 'postgres://u:p@%2Fsocket/db']])), [])
})
