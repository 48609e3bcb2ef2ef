import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { daemons } from '../daemons/index.ts'
import { linePeersOf } from '../daemons/process/line-client.ts'
import {
  ADAPTER_SETTINGS,
  ALL_SETTINGS,
  CONTAINER_SETTINGS,
  DAEMON_NAMES,
  type DaemonName,
  TIMED_SETTINGS,
} from '../daemons/settings.ts'
import { isSecretKey } from '../lib/settings.ts'
import { DAEMON_NEEDS, mountsOf, needsSetting, peersOf, SHARED_KEYS } from './daemon-needs.ts'

const readersOf = (key: string): DaemonName[] => DAEMON_NAMES.filter((name) => needsSetting(name, key))

suite('the needs of a daemon', () => {
  for (const name of DAEMON_NAMES)
    test(`${name} gets every setting that it declares`, async () => {
      const { settings = {} } = await daemons[name]()
      assert.deepEqual(
        Object.keys(settings).filter((key) => !needsSetting(name, key)),
        [],
      )
    })

  test('name only settings that exist', () => {
    const keys = [...SHARED_KEYS, ...DAEMON_NAMES.flatMap((name) => DAEMON_NEEDS[name].settings)]
    assert.deepEqual(
      keys.filter((key) => !Object.hasOwn(ALL_SETTINGS, key)),
      [],
    )
  })

  test('cover every setting, except those of listeners, of containers, of the host of adapters and of timed without a store', () => {
    const unread = Object.keys(ALL_SETTINGS).filter((key) => readersOf(key).length === 0)
    const addresses = DAEMON_NAMES.flatMap((name) => [`${name.toUpperCase()}_LISTEN`, `${name.toUpperCase()}_URL`])
    const others = [CONTAINER_SETTINGS, TIMED_SETTINGS, ADAPTER_SETTINGS].flatMap(Object.keys)
    assert.deepEqual(unread.sort(), ['WEB_LISTEN', ...others, ...addresses].sort())
  })

  test('give each secret only to the daemons that use it', () => {
    const secrets = Object.keys(ALL_SETTINGS).filter((key) => isSecretKey(key) && !key.endsWith('D_URL'))
    assert.deepEqual(Object.fromEntries(secrets.map((key) => [key, readersOf(key).join(' ')])), {
      CHANNEL_SECRET: 'routd',
      TELEGRAM_API_URL: 'routd gated dashd',
      SLACK_API_URL: 'routd gated dashd',
      DISCORD_API_URL: 'routd gated dashd',
      SECRETS_KEY: 'proxyd routd webd gated runed authd onbod dashd',
      DATABASE_URL: DAEMON_NAMES.join(' '),
      POSTGRES_PASSWORD: '',
      GITHUB_SECRET: 'authd',
      DISCORD_SECRET: 'authd',
      TTS_URL: 'gated runed',
      TTS_KEY: 'gated runed',
      STT_URL: 'runed',
      STT_KEY: 'runed',
      OTEL_EXPORTER_OTLP_HEADERS: 'routd webd gated runed timed',
      ANTHROPIC_API_KEY: 'runed',
      CLAUDE_CODE_OAUTH_TOKEN: 'runed',
      ANTHROPIC_BASE_URL: 'runed dashd',
      OPENAI_BASE_URL: 'runed dashd',
      OPENAI_API_KEY: 'runed',
    })
    assert.deepEqual(readersOf('OIDC_GOOGLE_SECRET'), ['authd'])
  })

  test('give the tool sockets of folders to gated alone', () => {
    const withSockets = DAEMON_NAMES.filter((name) => 'ipc' in DAEMON_NEEDS[name].directories)
    assert.deepEqual(withSockets, ['gated'])
  })

  test('let the dashboard edit workspaces and pages, and only read logs and chats', () => {
    assert.deepEqual(Object.fromEntries(mountsOf('dashd', false)), {
      store: 'rw',
      groups: 'rw',
      skills: 'ro',
      chats: 'ro',
      logs: 'ro',
      web: 'rw',
    })
  })

  test('let runed and routd dial the daemons that they have a line to, on SQLite only', () => {
    assert.deepEqual([peersOf('runed', false), peersOf('routd', false)], [['routd', 'webd', 'dashd'], ['webd']])
    for (const name of DAEMON_NAMES) {
      assert.deepEqual(peersOf(name, true), DAEMON_NEEDS[name].peers)
      // A dialling daemon signs bearers.
      if (linePeersOf(name).length > 0) assert.ok(needsSetting(name, 'SECRETS_KEY'), name)
      assert.ok(!linePeersOf(name).includes('proxyd'), `${name} would dial the public listener`)
    }
  })

  test('mount the store of a PostgreSQL instance only for the search index', () => {
    const mounting = (isPostgres: boolean): DaemonName[] =>
      DAEMON_NAMES.filter((name) => mountsOf(name, isPostgres).some(([directory]) => directory === 'store'))
    assert.deepEqual(mounting(true), ['gated', 'runed', 'dashd'])
    assert.deepEqual(mounting(false), [...DAEMON_NAMES])
  })
})
