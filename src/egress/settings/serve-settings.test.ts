import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { runs } from '../../../test/support/part.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { Refusal } from '../../lib/refusal.ts'
import { sourceOf } from '../../lib/settings.ts'
import { DEFAULT_PROXY_LIMITS } from '../connection/limits.ts'
import { readServeSettings, SERVE_SETTINGS, type ServeFlags, settingsSearchPaths } from './serve-settings.ts'
import { readToml } from './settings-file.ts'

const variables = (entries: Record<string, string> = {}) =>
  sourceOf('the environment', new Map(Object.entries(entries)))

/** The four places, all in an empty folder. */
function fourPlaces(t: TestContext) {
  const root = tempDir(t)
  const places = {
    config: join(root, 'given.toml'),
    configHome: join(root, 'xdg'),
    home: join(root, 'home'),
    etc: join(root, 'etc'),
  }
  const files = [
    places.config,
    join(places.configHome, 'egress-proxy', 'egress-proxy.toml'),
    join(places.home, '.egress-proxyrc'),
    join(places.etc, 'egress-proxy.toml'),
  ]
  for (const file of files) mkdirSync(dirname(file), { recursive: true })
  const { config, ...others } = places
  return { root, config, others, files }
}

/** Readable only by its owner: it may contain a secret. */
async function readFile(t: TestContext, text: string | Uint8Array, flags: ServeFlags = {}, env = {}) {
  const { config, others } = fourPlaces(t)
  writeFileSync(config, text, { mode: 0o600 })
  return { config, ...(await readServeSettings(flags, { config, ...others }, variables(env))) }
}

/** Root may read everything. */
async function asNobody<T>(work: () => Promise<T>): Promise<T> {
  if (process.geteuid?.() !== 0) return work()
  process.seteuid?.(65_534)
  try {
    return await work()
  } finally {
    process.seteuid?.(0)
  }
}

const sentenceOf = (error: unknown): string => {
  assert.ok(error instanceof Refusal, String(error))
  return error.message
}

async function refusalOf(work: Promise<unknown>): Promise<string> {
  return work.then(() => assert.fail('nothing was refused'), sentenceOf)
}

test('uses the documented defaults without any source', async (t) => {
  const { others } = fourPlaces(t)
  const { settings, warnings, path } = await readServeSettings({}, others, variables())
  const { maxConnections, maxPerSource, maxRefused, ...timeouts } = DEFAULT_PROXY_LIMITS
  assert.deepEqual(settings, {
    listen: { host: '::', port: 3128 },
    admin: [
      { host: '127.0.0.1', port: 3129 },
      { host: '::1', port: 3129 },
    ],
    transparent: { host: '::', port: 3127 },
    transparentIsOptional: true,
    denyPrivate: false,
    verifySni: true,
    limits: { ...timeouts, maxConnections: 0 },
    dns: {},
    io: 'auto',
  })
  assert.equal(path, undefined)
  assert.equal(warnings.length, 1)
  assert.match(warnings[0] ?? '', /EGRESS_ADMIN_SECRET is not set/)
})

interface Key {
  readonly toml: string
  readonly flag?: keyof ServeFlags
  /** A different value in flag, environment and file, and its form in the file. */
  readonly values: readonly [string, string, string]
  readonly bare?: true
}

const LISTENERS = ['127.0.0.1:1001', ':1002', '[::1]:1003'] as const

const KEYS: Record<keyof typeof SERVE_SETTINGS, Key> = {
  EGRESS_PROXY_ADDR: { toml: 'proxy.listen', flag: 'listen', values: LISTENERS },
  EGRESS_ADMIN_ADDR: { toml: 'proxy.admin_listen', flag: 'admin', values: LISTENERS },
  EGRESS_TRANSPARENT_ADDR: { toml: 'proxy.transparent_listen', flag: 'transparent', values: LISTENERS },
  EGRESS_ADMIN_SECRET: { toml: 'admin.secret', values: ['a', 'b', 'c'] },
  EGRESS_ADMIN_HOSTS: { toml: 'admin.hosts', values: ['a.example', 'b.example', 'C.example.,d.example'] },
  EGRESS_STATE_PATH: { toml: 'state.path', values: ['/a', '/b', '/c'] },
  EGRESS_DENY_PRIVATE: {
    toml: 'proxy.deny_private',
    flag: 'deny-private',
    values: ['true', 'false', 'true'],
    bare: true,
  },
  EGRESS_VERIFY_SNI: { toml: 'proxy.verify_sni', values: ['true', 'true', 'false'], bare: true },
  EGRESS_HEAD_TIMEOUT: { toml: 'proxy.head_timeout', values: ['1m', '2m', '3m'] },
  EGRESS_DNS_TIMEOUT: { toml: 'proxy.dns_timeout', values: ['1m', '2m', '3m'] },
  EGRESS_CONNECT_TIMEOUT: { toml: 'proxy.connect_timeout', values: ['1m', '2m', '3m'] },
  EGRESS_DIAL_TIMEOUT: { toml: 'proxy.dial_timeout', values: ['1m', '2m', '3m'] },
  EGRESS_RESPONSE_TIMEOUT: { toml: 'proxy.response_timeout', values: ['1m', '2m', '3m'] },
  EGRESS_IDLE_TIMEOUT: { toml: 'proxy.idle_timeout', values: ['1m', '2m', '3m'] },
  EGRESS_KEEP_ALIVE_TIMEOUT: { toml: 'proxy.keep_alive_timeout', values: ['1m', '2m', '3m'] },
  EGRESS_ORIGIN_KEEP_ALIVE_TIMEOUT: { toml: 'proxy.origin_keep_alive_timeout', values: ['1m', '2m', '3m'] },
  EGRESS_LINGER_TIMEOUT: { toml: 'proxy.linger_timeout', values: ['1m', '2m', '3m'] },
  EGRESS_REFUSAL_TIMEOUT: { toml: 'proxy.refusal_timeout', values: ['1m', '2m', '3m'] },
  EGRESS_DRAIN_TIMEOUT: { toml: 'proxy.drain_timeout', values: ['1m', '2m', '3m'] },
  EGRESS_MAX_PER_SOURCE: { toml: 'proxy.max_per_source', values: ['1', '2', '3'], bare: true },
  EGRESS_MAX_CONNECTIONS: { toml: 'proxy.max_connections', values: ['1', '2', '3'], bare: true },
  EGRESS_DENY_MESSAGE: { toml: 'proxy.deny_message', values: ['Ask a.', 'Ask b.', 'Ask c.'] },
  EGRESS_DNS_SERVERS: { toml: 'proxy.dns_servers', values: ['10.0.0.1', '10.0.0.2:5353', '[::1]:53,::2'] },
  EGRESS_IO: { toml: 'proxy.io', values: ['auto', 'epoll', 'net'] },
}

suite('precedence: flag, environment, file, default; an empty text is a value', () => {
  for (const [key, { toml, flag, values, bare }] of Object.entries(KEYS)) {
    test(`${key}, with every combination of sources`, async (t) => {
      const { config, others } = fourPlaces(t)
      const [byFlag, byVariable, byFile] = values
      const read = async (said: readonly (string | undefined)[]) => {
        const [onFlag, inEnvironment, inFile] = said
        const quoted = bare && inFile !== '' ? inFile : JSON.stringify(inFile)
        writeFileSync(config, inFile === undefined ? '' : `${toml} = ${quoted}\n`)
        const flags = flag && onFlag !== undefined ? { [flag]: onFlag } : {}
        const entries = inEnvironment === undefined ? {} : { [key]: inEnvironment }
        const result = readServeSettings(flags, { config, ...others }, variables(entries))
        return result.then(({ settings }) => settings, sentenceOf)
      }
      for (const onFlag of flag ? [undefined, byFlag, ''] : [undefined])
        for (const inEnvironment of [undefined, byVariable, ''])
          for (const inFile of [undefined, byFile, '']) {
            const winner = onFlag ?? inEnvironment ?? inFile
            const got = await read([onFlag, inEnvironment, inFile])
            const alone = await read([undefined, winner, undefined])
            const combination = JSON.stringify([onFlag, inEnvironment, inFile])
            // A bad value in the file is refused even if overridden; a bad value elsewhere only if not overridden.
            const isBadFile = inFile === '' && typeof (await read([undefined, undefined, ''])) === 'string'
            if (isBadFile || typeof alone === 'string') assert.equal(typeof got, 'string', combination)
            else assert.deepEqual(got, alone, combination)
          }
    })
  }

  test('switches each listener off with an empty address, from any source', async (t) => {
    const off = { listen: undefined, admin: [], transparent: undefined }
    const seen = ({ settings: { listen, admin, transparent } }: Awaited<ReturnType<typeof readServeSettings>>) => ({
      listen,
      admin,
      transparent,
    })
    const all = { EGRESS_PROXY_ADDR: '', EGRESS_ADMIN_ADDR: '', EGRESS_TRANSPARENT_ADDR: '' }
    const { others } = fourPlaces(t)
    assert.deepEqual(seen(await readServeSettings({}, others, variables(all))), off)
    assert.deepEqual(
      seen(await readServeSettings({ listen: '', admin: '', transparent: '' }, others, variables())),
      off,
    )
    const toml = '[proxy]\nlisten = ""\nadmin_listen = ""\ntransparent_listen = ""\n'
    const { warnings, ...read } = await readFile(t, toml)
    assert.deepEqual(seen({ warnings, ...read }), off)
    assert.deepEqual(warnings, [], 'without an admin listener no secret is needed')
  })
})

test('normalizes names of the admin listener', async (t) => {
  const { settings } = await readFile(t, '[admin]\nhosts = ["A.example.", "b.example"]\n')
  assert.deepEqual(settings.adminHosts, ['a.example', 'b.example'])
  const { others } = fourPlaces(t)
  for (const EGRESS_ADMIN_HOSTS of ['a.example:3129', '10.0.0.1', 'http://a.example', 'a b']) {
    const said = await refusalOf(readServeSettings({}, others, variables({ EGRESS_ADMIN_HOSTS })))
    assert.match(
      said,
      /^EGRESS_ADMIN_HOSTS in the environment must be a comma-separated list of host names without ports/,
    )
  }
})

test('makes the transparent listener optional unless a source sets its address', async (t) => {
  const { others } = fourPlaces(t)
  const isOptional = async (flags: ServeFlags, env: Record<string, string> = {}) =>
    (await readServeSettings(flags, others, variables(env))).settings.transparentIsOptional
  assert.equal(await isOptional({}), true)
  assert.equal(await isOptional({ transparent: ':3127' }), undefined)
  assert.equal(await isOptional({}, { EGRESS_TRANSPARENT_ADDR: ':3127' }), undefined)
  const { settings } = await readFile(t, '[proxy]\ntransparent_listen = ":3127"\n')
  assert.equal(settings.transparentIsOptional, undefined)
})

suite('search paths', () => {
  test('reads the first file that exists, and no other', async (t) => {
    const { config, others, files } = fourPlaces(t)
    for (const [index, file] of files.entries()) writeFileSync(file, `[proxy]\nlisten = ":${index + 1}"\n`)
    for (const [index, file] of files.entries()) {
      const places = index === 0 ? { config, ...others } : others
      const { settings, path } = await readServeSettings({}, places, variables())
      assert.equal(settings.listen?.port, index + 1)
      assert.equal(path, file)
      execFileSync('rm', [file])
    }
    const { settings, path } = await readServeSettings({}, others, variables())
    assert.equal(settings.listen?.port, 3128)
    assert.equal(path, undefined)
  })

  test('warns about a missing --config, also an empty one, and says what is used instead', async (t) => {
    const { others, root, files } = fourPlaces(t)
    const [, next = ''] = files
    const missing = [join(root, 'nowhere.toml'), join(next, 'below'), '']
    const warnings = async (config: string) =>
      (await readServeSettings({}, { config, ...others }, variables())).warnings.filter((each) => /--config/.test(each))
    const sentence = (config: string) => `there is no file ${config || '""'}, which --config names`
    for (const config of missing)
      assert.deepEqual(await warnings(config), [`${sentence(config)}: the defaults are used`])
    writeFileSync(next, '[proxy]\nlisten = ":7"\n')
    for (const config of missing)
      assert.deepEqual(await warnings(config), [`${sentence(config)}: ${next} is used instead`])
  })

  test('uses .config in the home directory without an absolute XDG_CONFIG_HOME', async (t) => {
    const { others, root } = fourPlaces(t)
    const file = join(others.home, '.config', 'egress-proxy', 'egress-proxy.toml')
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, '[proxy]\nlisten = ":77"\n')
    for (const configHome of [undefined, '', 'relative']) {
      const { settings } = await readServeSettings({}, { ...others, configHome }, variables())
      assert.equal(settings.listen?.port, 77)
    }
    for (const home of [undefined, '', '/dev/null']) {
      const nobody = await readServeSettings({}, { home, etc: root }, variables())
      assert.equal(nobody.path, undefined)
    }
  })
})

suite('a file that cannot be read or parsed stops the start', () => {
  const FAULTS: Record<string, readonly [text: string | Uint8Array, sentence: RegExp]> = {
    'no TOML': ['[proxy]\nlisten = :3128\n', /FILE line 2 is not TOML: invalid value$/],
    'a text that does not end': ['[admin]\nsecret = "hunter2\n', /FILE line 2 is not TOML: /],
    'a key twice': ['[proxy]\nio = "net"\nio = "auto"\n', /FILE line 3 is not TOML: .*redefine/],
    'no UTF-8': [Uint8Array.of(0x61, 0xff, 0xfe), /cannot read FILE: it is not UTF-8 text/],
    'too large': [`# ${'x'.repeat(70_000)}`, /cannot read FILE: it is larger than 65536 bytes/],
    'a number for an address': [
      '[proxy]\n\nlisten = 3128\n',
      /^\[proxy\] listen in FILE line 3 must be text in quotes$/,
    ],
    'a text for a switch': [
      '[proxy]\ndeny_private = "yes"\n',
      /^\[proxy\] deny_private in FILE line 2 must be true or false, without quotes$/,
    ],
    'a text for a number': [
      '[proxy]\nmax_per_source = "5"\n',
      /^\[proxy\] max_per_source in FILE line 2 must be a whole/,
    ],
    'a negative number': [
      '[proxy]\nmax_connections = -1\n',
      /^\[proxy\] max_connections in FILE line 2 must be a whole/,
    ],
    'a number beyond all': ['[proxy]\nmax_connections = 99999999999999999999\n', /FILE line 2 /],
    'a list of numbers': [
      '[proxy]\ndns_servers = [1]\n',
      /^\[proxy\] dns_servers in FILE line 2 must be a list of texts/,
    ],
    'a date': ['[state]\npath = 1979-05-27\n', /^\[state\] path in FILE line 2 must be text in quotes$/],
    'a table for a key': ['[proxy.listen]\nport = 1\n', /^\[proxy\] listen in FILE must be text in quotes$/],
    'a key for a table': ['proxy = 5\n', /^\[proxy\] in FILE line 1 must be a table$/],
    'a list for a table': ['[[proxy]]\nlisten = ":1"\n', /^\[proxy\] in FILE must be a table$/],
    'an address that is none': [
      'proxy.listen = "localhost"\n',
      /^\[proxy\] listen in FILE line 1 must be host:port such as .*, not "localhost"$/,
    ],
    'a port beyond all': ['[proxy]\nlisten = ":65536"\n', /^\[proxy\] listen in FILE line 2 must be host:port/],
    'a duration that is none': [
      '[proxy]\nidle_timeout = "1 hour"\n',
      /^\[proxy\] idle_timeout in FILE line 2 must be a dur/,
    ],
    'a timeout of nothing where there must be one': [
      '[proxy]\nhead_timeout = "0"\n',
      /^\[proxy\] head_timeout in FILE line 2 must be longer than 0, not "0"$/,
    ],
    'a timeout that no timer keeps': [
      '[proxy]\nidle_timeout = "577h"\n',
      /^\[proxy\] idle_timeout in FILE line 2 must be at most 576h \(24 days\), not "577h"$/,
    ],
    'an unknown way to move bytes': [
      '[proxy]\nio = "magic"\n',
      /^\[proxy\] io in FILE line 2 must be one of auto, epoll, net/,
    ],
    'a name for a DNS server': [
      '[proxy]\ndns_servers = ["dns.example"]\n',
      /^\[proxy\] dns_servers in FILE line 2 must be a comma-separated list of IP/,
    ],
    'a secret that no header can carry': [
      '[admin]\nsecret = "hunter2 hunter2"\n',
      /^\[admin\] secret in FILE line 2 must be visible/,
    ],
    'a secret that is a number': [
      '[admin]\nsecret = 4815162342\n',
      /^\[admin\] secret in FILE line 2 must be text in quotes$/,
    ],
    'a path with a NUL byte': [
      '[state]\npath = "a\\u0000b"\n',
      /^\[state\] path in FILE line 2 must not contain a NUL byte/,
    ],
    'a message of two lines': [
      '[proxy]\ndeny_message = "a\\nb"\n',
      /^\[proxy\] deny_message in FILE line 2 must be one line/,
    ],
  }
  for (const [what, [text, sentence]] of Object.entries(FAULTS)) {
    test(`reports ${what} with file, line and key, and without a secret`, async (t) => {
      const { config, others } = fourPlaces(t)
      writeFileSync(config, text)
      const said = await refusalOf(readServeSettings({}, { config, ...others }, variables()))
      assert.match(said.replaceAll(config, 'FILE'), sentence)
      assert.doesNotMatch(said, /hunter2|4815162342/)
    })
  }

  test('reports all errors at once', async (t) => {
    const said = await refusalOf(readFile(t, '[proxy]\nlisten = 1\nio = "x"\n[state]\npath = 2\n'))
    assert.match(said, /line 2 .*line 3 .*line 5 /s)
  })

  test('refuses a directory and a FIFO without blocking', async (t) => {
    const { others, root } = fourPlaces(t)
    const pipe = join(root, 'pipe')
    execFileSync('mkfifo', [pipe])
    assert.match(await refusalOf(readServeSettings({}, { config: pipe, ...others }, variables())), /not a regular file/)
    assert.match(await refusalOf(readServeSettings({}, { config: root, ...others }, variables())), /it is a directory/)
  })

  test('refuses a file without permission, and looks for no other', async (t) => {
    const { config, others } = fourPlaces(t)
    writeFileSync(config, '')
    chmodSync(config, 0)
    const said = await asNobody(() => refusalOf(readServeSettings({}, { config, ...others }, variables())))
    assert.match(said, /permission denied/)
  })

  test('names flags and variables as written, without repeating a secret', async (t) => {
    const { others } = fourPlaces(t)
    const byFlag = readServeSettings({ listen: 'x' }, others, variables())
    assert.match(await refusalOf(byFlag), /^--listen in the flags must be host:port.*, not "x"$/)
    const byVariable = readServeSettings({}, others, variables({ EGRESS_IO: 'x', EGRESS_ADMIN_SECRET: 'hunter2\n' }))
    const said = await refusalOf(byVariable)
    assert.match(said, /EGRESS_IO in the environment must be one of/)
    assert.match(said, /EGRESS_ADMIN_SECRET in the environment must be visible ASCII/)
    assert.doesNotMatch(said, /hunter2/)
  })
})

test('normalizes listen addresses and rejects zones', async (t) => {
  const { others } = fourPlaces(t)
  const { settings } = await readServeSettings({ listen: '[::ffff:127.0.0.1]:1' }, others, variables())
  assert.deepEqual(settings.listen, { host: '127.0.0.1', port: 1 })
  const zoned = readServeSettings({ admin: '[fe80::1%lo]:1' }, others, variables())
  assert.match(
    await refusalOf(zoned),
    /^--admin in the flags must be an address without a zone, not "\[fe80::1%lo\]:1"$/,
  )
})

test('warns about unknown keys and tables with the closest name', async (t) => {
  const { config, warnings } = await readFile(
    t,
    [
      'listen = ":1"',
      'nonsense = 1',
      '"bad\\u001bkey" = 1',
      '[proxy]',
      'lissten = ":2"',
      'secret = "hunter2"',
      '[prxy]',
      'listen = ":3"',
      '[admin]',
      'secret = "s"',
      '[__proto__]',
      'polluted = true',
    ].join('\n'),
  )
  assert.deepEqual(
    warnings.map((warning) => warning.replaceAll(config, 'FILE')),
    [
      'listen in FILE line 1 is an unknown key; did you mean [proxy] listen?',
      'nonsense in FILE line 2 is an unknown key',
      '"bad\\u001bkey" in FILE is an unknown key',
      '[proxy] lissten in FILE line 5 is an unknown key; did you mean [proxy] listen?',
      '[proxy] secret in FILE line 6 is an unknown key; did you mean [admin] secret?',
      '[prxy] in FILE line 7 is an unknown key; did you mean [proxy]?',
      '[__proto__] in FILE line 11 is an unknown key',
    ],
  )
  assert.equal(Reflect.get({}, 'polluted'), undefined)
})

test('warns about a secret in a file that every user can read', async (t) => {
  const { config, others } = fourPlaces(t)
  const warningsAt = async (mode: number, text: string): Promise<readonly string[]> => {
    writeFileSync(config, text)
    chmodSync(config, mode)
    return (await readServeSettings({}, { config, ...others }, variables())).warnings
  }
  const secret = '[admin]\nsecret = "hunter2"\n'
  assert.deepEqual(await warningsAt(0o644, secret), [
    `${config} contains the secret and is readable by every user of this machine: run chmod o-r on it`,
  ])
  assert.deepEqual(await warningsAt(0o640, secret), [])
  assert.deepEqual(await warningsAt(0o644, `${secret.replace('hunter2', '')}[proxy]\nadmin_listen = ""\n`), [])
})

test('summarizes thousands of unknown keys quickly', async (t) => {
  const { warnings } = await readFile(t, Array.from({ length: 8000 }, (_, at) => `k${at}=1`).join('\n'))
  assert.equal(warnings.length, 22)
  assert.match(warnings[20] ?? '', /7980 more unknown keys/)
})

suite('the admin listener', () => {
  const adminOf = async (t: TestContext, entries: Record<string, string>) => {
    const { others } = fourPlaces(t)
    const { settings, warnings } = await readServeSettings({}, others, variables(entries))
    return { admin: settings.admin.map(({ host, port }) => `${host} ${port}`), warnings }
  }

  test('binds `:port` to loopback without a secret and to all addresses with one; obeys an explicit host', async (t) => {
    const open = await adminOf(t, { EGRESS_ADMIN_ADDR: ':9' })
    assert.deepEqual(open.admin, ['127.0.0.1 9', '::1 9'])
    assert.match(open.warnings.join(), /requires no secret and serves only this machine/)
    const closed = await adminOf(t, { EGRESS_ADMIN_ADDR: ':9', EGRESS_ADMIN_SECRET: 's' })
    assert.deepEqual(closed, { admin: [':: 9'], warnings: [] })
    const told = await adminOf(t, { EGRESS_ADMIN_ADDR: '0.0.0.0:9', EGRESS_ADMIN_SECRET: '' })
    assert.deepEqual(told.admin, ['0.0.0.0 9'])
    assert.match(told.warnings.join(), /requires no secret and serves everyone who reaches 0\.0\.0\.0 port 9/)
  })
})

test('finds the home directory by variable, else by the system', () => {
  assert.equal(settingsSearchPaths(undefined, variables({ HOME: '/somewhere' })).home, '/somewhere')
  assert.equal(settingsSearchPaths(undefined, variables()).home, homedir())
})

test('reads thousands of TOML-like texts as settings or refuses them, and never shows the secret', () => {
  const piece = fc.constantFrom(
    ...[
      '[',
      ']',
      '[[',
      ']]',
      '=',
      ' = ',
      '.',
      ',',
      '{',
      '}',
      '"',
      "'",
      '"""',
      "'''",
      '#',
      '\n',
      '\r\n',
      ' ',
      '\t',
      '\0',
    ],
    ...['proxy', 'admin', 'state', 'listen', 'secret', 'path', 'io', 'dns_servers', '__proto__', 'constructor'],
    ...['[proxy]\n', '[admin]\n', 'listen = ":1"\n', 'io = "net"\n', 'secret = "hunter2"\n', 'max_connections = 5\n'],
    ...[
      'true',
      'false',
      '0',
      '-1',
      '0x',
      '1e999',
      'nan',
      'inf',
      '1979-05-27',
      '07:32:00',
      '\\u0000',
      '\\',
      '\uFEFF',
      'é',
    ],
  )
  const text = fc.oneof(
    { weight: 4, arbitrary: fc.array(piece, { maxLength: 14 }).map((pieces) => pieces.join('')) },
    { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 30 }) },
  )
  fc.assert(
    fc.property(text, (toml) => {
      try {
        for (const value of readToml(toml, 'the file', SERVE_SETTINGS).values.values())
          assert.equal(typeof value, 'string')
      } catch (error) {
        assert.ok(error instanceof Refusal, String(error))
        assert.ok(!error.message.includes('hunter2'), error.message)
      }
    }),
    { numRuns: runs(2000, 20_000) },
  )
})

test('reads or refuses deeply nested or repetitive TOML quickly', () => {
  const deep = 32_000
  for (const toml of [
    `a = ${'['.repeat(deep)}`,
    `a = ${'['.repeat(deep)}${']'.repeat(deep)}`,
    `a = ${'{a='.repeat(20_000)}`,
    `${'a.'.repeat(deep)}a = 1`,
    `[${'a.'.repeat(30_000)}a]`,
    `a = "${'\\u0041'.repeat(10_000)}"`,
    ' '.repeat(65_000),
    `[proxy]\nlisten = 5\n${' '.repeat(65_000)}`,
    `[proxy]\nlisten = 5\n# ${'['.repeat(65_000)}`,
  ])
    try {
      readToml(toml, 'the file', SERVE_SETTINGS)
    } catch (error) {
      assert.ok(error instanceof Refusal, String(error))
    }
})

test('accepts 0 for timeouts where it has a meaning, and the maximum for all', async (t) => {
  const { others } = fourPlaces(t)
  const read = async (key: string, text: string) =>
    (await readServeSettings({}, others, variables({ [key]: text }))).settings.limits
  for (const [key, name] of [
    ['EGRESS_IDLE_TIMEOUT', 'idleMs'],
    ['EGRESS_RESPONSE_TIMEOUT', 'responseMs'],
    ['EGRESS_DRAIN_TIMEOUT', 'drainMs'],
  ] as const)
    assert.equal((await read(key, '0'))[name], 0)
  assert.equal((await read('EGRESS_HEAD_TIMEOUT', '1ms')).headMs, 1)
  assert.equal((await read('EGRESS_HEAD_TIMEOUT', '576h')).headMs, 576 * 3_600_000)
})
