import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { z } from 'zod'
import { environment, readEnvironment } from './environment.ts'
import { Refusal } from './refusal.ts'
import {
  BooleanSetting,
  BytesSetting,
  CountSetting,
  DurationSetting,
  ListenSetting,
  listenSetting,
  QuotaSetting,
  readSettings,
  setting,
  sourceOf,
  TextSetting,
  UrlSetting,
  unknownKeys,
} from './settings.ts'

const declared = {
  WEB_LISTEN: setting(ListenSetting, '127.0.0.1:8080', 'where the front door listens'),
  ENGAGEMENT_TTL: setting(DurationSetting, '30m', 'how long a conversation stays engaged'),
  WEB_HOST: setting(TextSetting, undefined, 'the host name in links'),
  CHANNEL_SECRET: setting(z.string().min(8), undefined, 'what channel daemons show'),
  DATABASE_URL: setting(UrlSetting, undefined, 'the store, where it is not SQLite'),
}

const from = (name: string, entries: Record<string, string>) => sourceOf(name, new Map(Object.entries(entries)))

function refusalOf(work: () => unknown): Refusal {
  try {
    work()
  } catch (error) {
    if (error instanceof Refusal) return error
    throw error
  }
  throw new Error('nothing was refused')
}

test('uses defaults without a source, and leaves optional settings absent', () => {
  const settings = readSettings(declared, [])
  assert.deepEqual(settings.WEB_LISTEN, { host: '127.0.0.1', port: 8080 })
  // The annotations are part of the test: a setting with a default is never undefined.
  const ttlMs: number = settings.ENGAGEMENT_TTL
  const webHost: string | undefined = settings.WEB_HOST
  assert.equal(ttlMs, 1_800_000)
  assert.equal(webHost, undefined)
})

test('uses the first source that has a key, even with an empty text', () => {
  const file = from('.env', { ENGAGEMENT_TTL: '10m', WEB_HOST: '' })
  const shell = from('the environment', { ENGAGEMENT_TTL: '99h', WEB_HOST: 'stray.example', WEB_LISTEN: ':9000' })
  const flags = from('the flags', { WEB_LISTEN: '0.0.0.0:80' })
  const settings = readSettings(declared, [flags, file, shell])
  assert.equal(settings.ENGAGEMENT_TTL, 600_000)
  assert.equal(settings.WEB_HOST, '')
  assert.deepEqual(settings.WEB_LISTEN, { host: '0.0.0.0', port: 80 })
})

test('refuses all bad values at once, by key and source', () => {
  const file = from('.env', { WEB_LISTEN: '8080' })
  const shell = from('the environment', { ENGAGEMENT_TTL: 'soon' })
  const refusal = refusalOf(() => readSettings(declared, [file, shell]))
  assert.equal(refusal.code, 'invalid')
  const [listen, ttl] = refusal.message.split('; ')
  assert.equal(listen, 'WEB_LISTEN in .env must be host:port such as 127.0.0.1:8080, :8080 or [::1]:8080, not "8080"')
  assert.match(ttl ?? '', /^ENGAGEMENT_TTL in the environment must be a duration such as .*, not "soon"$/)
})

test('refuses a bad secret without showing it', () => {
  const quoting = z.string().refine(() => false, { error: (issue) => `must not be ${String(issue.input)}` })
  const secrets = {
    API_KEY: setting(quoting, undefined, ''),
    BOT_TOKEN: setting(quoting, undefined, ''),
    DB_PASSWORD: setting(quoting, undefined, ''),
    CHANNEL_SECRET: setting(z.string().min(99), undefined, ''),
    DATABASE_URL: setting(UrlSetting, undefined, ''),
  }
  for (const key of Object.keys(secrets)) {
    const refusal = refusalOf(() => readSettings(secrets, [from('.env', { [key]: 'hunter2 hunter2' })]))
    assert.match(refusal.message, new RegExp(`^${key} in \\.env `))
    assert.ok(!refusal.message.includes('hunter2'), refusal.message)
  }
})

test('reports an unknown key with the closest name', () => {
  const file = new Map([
    ['WEB_LISTEN', ':1'],
    ['WEB_LISTN', ':1'],
    ['ENGAGEMENT', '1h'],
    ['toString', 'x'],
  ])
  assert.deepEqual(unknownKeys(declared, file), [
    { key: 'WEB_LISTN', meant: 'WEB_LISTEN' },
    { key: 'ENGAGEMENT', meant: 'ENGAGEMENT_TTL' },
    { key: 'toString' },
  ])
})

test('reads values of each type as operators write them', () => {
  const listen = { '127.0.0.1:8080': ['127.0.0.1', 8080], ':0': ['127.0.0.1', 0], '[::1]:8080': ['::1', 8080] }
  for (const [text, [host, port]] of Object.entries({ ...listen, 'localhost:65535': ['localhost', 65_535] }))
    assert.deepEqual(ListenSetting.parse(text), { host, port })
  assert.deepEqual(listenSetting('::').parse(':3128'), { host: '::', port: 3128 })
  assert.equal(CountSetting.parse('0'), 0)
  assert.equal(CountSetting.parse('600'), 600)
  assert.equal(BytesSetting.parse('1048576'), 1_048_576)
  assert.equal(BytesSetting.parse('1MiB'), 1_048_576)
  assert.equal(BytesSetting.parse('20mb'), 20_000_000)
  assert.equal(QuotaSetting.parse('0'), 0)
  assert.equal(QuotaSetting.parse('10GiB'), 10_737_418_240)
  for (const yes of ['true', '1', 'YES', 'on']) assert.equal(BooleanSetting.parse(yes), true)
  for (const no of ['false', '0', 'No', 'off']) assert.equal(BooleanSetting.parse(no), false)
  assert.equal(UrlSetting.parse('postgres://u:p@db/svc'), 'postgres://u:p@db/svc')
  assert.equal(UrlSetting.parse('postgres:///svc?host=/run'), 'postgres:///svc?host=/run')
})

test('refuses invalid values of each type', () => {
  const cases: [z.ZodType, string[]][] = [
    [
      ListenSetting,
      ['', '8080', ':', ':65536', ':-1', ':99999999', '::1:80', '[::1]', '[x]:1', '256.0.0.1:1', 'a b:1', 'http://a:1'],
    ],
    [CountSetting, ['', '-1', '1.5', '1e3', ' 1', 'NaN', '9007199254740993', '1'.repeat(400)]],
    [BytesSetting, ['', '0', '-1', '1.5MB', '1 MB', '1TB', '1k', '9007199254740991GB']],
    [QuotaSetting, ['', '-1', '1.5MB', '1 MB', '1TB', 'none', '9007199254740991GB']],
    [BooleanSetting, ['', 'maybe', 'y', 'true ', '2']],
    [UrlSetting, ['', 'example.com', 'http://', '//host', 'mailto:a@b', 'https://a b']],
    [DurationSetting, ['', '24', '-1h', '1y']],
  ]
  for (const [schema, texts] of cases) {
    for (const text of texts) assert.equal(schema.safeParse(text).success, false, JSON.stringify(text))
  }
})

test('reads or refuses any text without other errors', () => {
  const kinds = {
    A: ListenSetting,
    B: CountSetting,
    C: BytesSetting,
    D: BooleanSetting,
    E: UrlSetting,
    F: DurationSetting,
  }
  fc.assert(
    fc.property(fc.constantFrom(...Object.values(kinds)), fc.string(), (schema, text) => {
      schema.safeParse(text)
    }),
  )
})

test('reads the environment without inherited properties', () => {
  assert.equal(environment().name, 'the environment')
  assert.equal(environment().get('PATH'), readEnvironment('PATH'))
  assert.ok(readEnvironment('PATH'))
  assert.equal(readEnvironment('toString'), undefined)
  assert.equal(readEnvironment('SVC_SURELY_NOT_SET'), undefined)
})
