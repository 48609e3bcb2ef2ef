// Accepted layouts of a manifest, and every kind of invalid file, which is refused with its line before a store is opened.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { suite, test } from 'node:test'
import { isRefusal } from '../../../test/support/host.ts'
import { atVersion, read } from '../../../test/support/manifest.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { ManifestRow } from './manifest-resource.ts'

const ROUTE = '{seq: 0, match: room=1, target: main}'

function rowsOf(text: string, name: string): ManifestRow[] | undefined {
  return read(text)
    .sections.get(name)
    ?.rows.map(({ row }) => row)
}

function errorsOf(text: string | Uint8Array): string[] {
  try {
    read(text)
  } catch (error) {
    if (error instanceof Refusal && error.code === 'invalid') return error.message.split('\n')
    throw error
  }
  return []
}

/** By row of the catalogue of invalid input: a manifest and the errors that must be reported. */
const INVALID: Record<string, Record<string, [manifest: string | Uint8Array, ...errors: (string | RegExp)[]]>> = {
  'Y1 and Y2: not a manifest': {
    'an empty file': ['', 'line 1: the manifest is empty'],
    'only comments': ['# a\n# b\n', 'line 1: the manifest is empty'],
    'two documents': [
      `${atVersion(1, 'acl: []\n')}---\nacl: []\n`,
      'line 3: a second document begins: a manifest has only one',
    ],
    'two documents in brackets': ['{config_version: 1}\n---\n{acl: []}\n', /line 2: a second document begins/],
    'a list': ['- acl\n', /line 1: the manifest must be a mapping/],
    'a text': ['acl', /line 1: the manifest must be a mapping/],
    'a number': ['42', /line 1: the manifest must be a mapping/],
    'an unknown key': [atVersion(1, 'rotues: []\n'), 'line 2: unknown resource "rotues": did you mean routes?'],
    'an unknown key without a similar one': [atVersion(1, 'xyz: []\n'), 'line 2: unknown resource "xyz"'],
    'a resource that is not exported': [
      atVersion(1, 'route_tokens: []\n'),
      'line 2: route_tokens cannot be in a manifest',
    ],
    'a scalar for a resource': [atVersion(1, 'acl: all\n'), 'line 2: acl must be a list of rows'],
    'a mapping for a resource': [atVersion(1, 'acl: {a: 1}\n'), 'line 2: acl must be a list of rows'],
    'a row that is not a mapping': [atVersion(1, 'acl:\n  - a\n'), 'line 3: a row must be a mapping of fields'],
    'an empty row': [atVersion(1, 'acl:\n  -\n'), 'line 3: a row must be a mapping of fields'],
  },
  'Y3: duplicate keys': {
    'a resource': [atVersion(1, 'acl: []\nacl: []\n'), 'line 3: duplicate key acl: first in line 2'],
    'a resource in brackets': ['{config_version: 1, acl: [],\n acl: []}', /line 2: duplicate key acl/],
    'a resource with rows': [
      atVersion(1, `routes:\n  - ${ROUTE}\nroutes:\n  - ${ROUTE}\n`),
      /line 4: duplicate key routes/,
    ],
    'the version': [atVersion(1, 'config_version: 1\n'), /line 2: duplicate key config_version/],
    'a field': [atVersion(1, 'routes:\n- seq: 0\n  seq: 1\n  match: ""\n  target: a\n'), /line 4: duplicate key seq/],
  },
  'Y4 to Y6: YAML features with a hidden meaning': {
    'an anchor': [atVersion(1, 'acl: &a []\n'), 'line 2: anchors and tags are not allowed'],
    'an anchor on a row': [atVersion(1, `routes:\n  - &a ${ROUTE}\n`), 'line 3: anchors and tags are not allowed'],
    'an alias': [atVersion(1, 'acl: *a\n'), 'line 2: aliases are not allowed: write the value out'],
    'a billion laughs': [atVersion(1, 'a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n'), /line 2/, /line 3/, /line 4/],
    'an alias to itself': [atVersion(1, 'acl: &a [*a]\n'), 'line 2: anchors and tags are not allowed'],
    'a merge key': [atVersion(1, 'routes:\n  - <<: {a: 1}\n'), /line 3: routes: unknown field "<<"/],
    'a prototype': [atVersion(1, 'routes:\n  - __proto__: {a: 1}\n'), /line 3: routes: unknown field "__proto__"/],
    'a prototype at the root': [atVersion(1, '__proto__: []\n'), 'line 2: unknown resource "__proto__"'],
    'a tag': [atVersion(1, 'acl: !!seq []\n'), 'line 2: anchors and tags are not allowed'],
    'a tag that runs code': [atVersion(1, 'acl: !!js/function "f"\n'), 'line 2: anchors and tags are not allowed'],
    'a tag that includes': [atVersion(1, `routes:\n  - seq: !include a\n`), /line 3: anchors and tags are not allowed/],
    'a tag of bytes': [atVersion(1, `routes:\n  - match: !!binary YQ==\n`), /line 3: anchors and tags are not allowed/],
    'a directive': ['%TAG ! a:\n---\nacl: []\n', 'line 1: directives are not allowed'],
    'a key with an indicator': [atVersion(1, '? acl\n: []\n'), /line 2: keys with the \? indicator are not allowed/],
    'a key that is not text': [atVersion(1, '1: []\n'), 'line 2: a key must be text'],
    'a key that is a list': [atVersion(1, '[a]: []\n'), 'line 2: a key must be text'],
  },
  'Y7: values of another type': {
    'no for a boolean': [gate('enabled: no'), 'line 5: onboarding_gates: enabled must be true or false'],
    'on for a boolean': [gate('enabled: on'), 'line 5: onboarding_gates: enabled must be true or false'],
    'text for a boolean': [gate('enabled: "true"'), /line 5: .*enabled must be true or false/],
    'digits with an underscore': [
      gate('enabled: true', '1_000'),
      'line 4: onboarding_gates: daily_limit must be a number',
    ],
    'a time of day': [gate('enabled: true', '1:20'), 'line 4: onboarding_gates: daily_limit must be a number'],
    'a number for text': [group('name: 42'), 'line 4: groups: name must be text'],
    'a boolean for text': [group('name: true'), 'line 4: groups: name must be text'],
    'a tilde for text': [group('name: ~'), 'line 4: groups: name must be text'],
    'nothing for text': [group('name:'), 'line 4: groups: name must be text'],
  },
  'Y8: bytes': {
    'a tab as indentation': [atVersion(1, 'acl:\n\t- a\n'), /line 3: contains a tab/],
    'a tab in a text': [atVersion(1, 'acl: "a\tb"\n'), /line 2: contains a tab.*\\t in double quotes/],
    'a NUL': [
      atVersion(1, 'acl: []\n\u0000'),
      'line 3: contains the character U+0000: write it as \\u0000 in double quotes',
    ],
    'a bell and a delete': [atVersion(1, 'a\u0007\nb\u007f\n'), /line 2: .*U\+0007/, /line 3: .*U\+007F/],
    'a carriage return alone': [
      atVersion(1, 'acl: []\rroutes: []\n'),
      'line 2: contains a carriage return without a line feed',
    ],
    'invalid UTF-8': [
      Buffer.concat([Buffer.from(atVersion(1, 'acl: []\n')), Buffer.of(0x61, 0xff)]),
      'line 3: invalid UTF-8',
    ],
    'UTF-16': [Buffer.from('\ufeffconfig_version: 1\n', 'utf16le'), /line 1: invalid UTF-8/, /U\+0000/],
    'half a character': ['acl: "\ud800"', /line 1: contains the character U\+D800/],
  },
  'Y11: invalid rows': {
    'several errors at once': [
      atVersion(1, 'routes:\n  - matc: x\n    seq: a\n  - seq: 1\n    match: room\n    target: ""\ngates: []\n'),
      'the manifest has 7 errors',
      'line 3: routes: unknown field "matc": did you mean match?',
      'line 3: routes: match is required',
      'line 3: routes: target is required',
      'line 4: routes: seq must be a number',
      'line 6: routes: match has "room", which is not key=glob',
      /line 7: routes: target must be a folder/,
      'line 8: unknown resource "gates"',
    ],
    'an unknown choice': [
      atVersion(1, 'web_routes:\n  - {path_prefix: /a, access: open, folder: main}\n'),
      'line 3: web_routes: access must be one of public, auth, deny, redirect',
    ],
    'a column that is not exported': [
      atVersion(1, `routes:\n  - {id: 1, seq: 0, match: "", target: a}\n`),
      /unknown field "id"/,
    ],
    'the value of a secret': [
      atVersion(1, 'secrets:\n  - {scope_kind: folder, owner: main, key: A, value: hush}\n'),
      'line 3: secrets: unknown field "value"',
    ],
    'a rule for one row': [
      atVersion(
        1,
        'web_routes:\n  - {path_prefix: /a, access: public, folder: a}\n  - {path_prefix: /b, access: redirect, folder: a}\n',
      ),
      'line 4: web_routes: redirect_to is required when access is redirect',
    ],
    'a control character in a command of a group': [
      atVersion(
        1,
        `groups:\n  - folder: team\n    name: team\n    product: assistant\n    open: true\n    config: '{"command": "a\\u0000b"}'\n`,
      ),
      'line 7: groups: config.command must not contain control characters other than tab and newline',
    ],
    'a rule for all rows': [
      atVersion(
        1,
        'acl_membership:\n  - {subject: "role:a", role: "role:b"}\n  - {subject: "role:b", role: "role:a"}\n',
      ),
      /line 2: acl_membership: memberships form a cycle/,
    ],
  },
  'Y12: keys': {
    'the same key twice': [
      atVersion(1, `routes:\n  - ${ROUTE}\n  - ${ROUTE}\n`),
      'line 4: routes: duplicate row 0 room=1 main: first in line 3',
    ],
    'the same key in another spelling': [
      atVersion(1, 'network_rules:\n  - {folder: "", target: A.example.}\n  - {folder: "", target: a.example}\n'),
      /line 4: network_rules: duplicate row "" a.example: first in line 3/,
    ],
  },
  'Y17: numbers': {
    'a float': [atVersion(1, 'routes:\n  - {seq: 1.5, match: "", target: a}\n'), 'line 3: 1.5 is not a whole number'],
    'a float that is whole': [
      atVersion(1, 'routes:\n  - {seq: 1.0, match: "", target: a}\n'),
      'line 3: 1.0 is not a whole number',
    ],
    'an exponent': [
      atVersion(1, 'routes:\n  - {seq: 1e3, match: "", target: a}\n'),
      'line 3: 1e3 is not a whole number',
    ],
    infinity: [atVersion(1, 'routes:\n  - {seq: .inf, match: "", target: a}\n'), 'line 3: .inf is not a whole number'],
    'beyond 2^53': [
      atVersion(1, 'routes:\n  - {seq: 9007199254740993, match: "", target: a}\n'),
      'line 3: 9007199254740993 is too large: the limit is 2^53',
    ],
    'beyond the column': [
      atVersion(1, 'routes:\n  - {seq: 1000001, match: "", target: a}\n'),
      /line 3: routes: seq must be at most 1000000/,
    ],
  },
  'the version': {
    'is missing': ['acl: []\n', /line 1: config_version is required/],
    'is missing in a file with another error': [
      'acls: []\n',
      /line 1: config_version is required/,
      /line 1: unknown resource "acls"/,
    ],
    'is a text': ['config_version: "1"\n', 'line 1: config_version must be a whole number of at least 0'],
    'is nothing': ['config_version:\n', 'line 1: config_version must be a whole number of at least 0'],
    'is a list': ['config_version:\n  - a: 1\n', 'line 1: config_version must be a whole number of at least 0'],
    'is negative': ['config_version: -1\n', 'line 1: config_version must be a whole number of at least 0'],
    'is a float': ['config_version: 1.0\n', 'line 1: 1.0 is not a whole number'],
    'is 2^63': ['config_version: 9223372036854775808\n', /line 1: 9223372036854775808 is too large/],
  },
  'syntax errors': {
    'an unclosed quote': [
      atVersion(1, 'acl: []\nroutes:\n  - {seq: 0, match: "\n'),
      /line [45]: missing closing "quote/,
    ],
    'inconsistent indentation': [atVersion(1, `routes:\n  - seq: 0\n   match: ""\n`), /line 4: /],
    'inconsistent indentation in a later batch': [
      atVersion(
        1,
        `routes:\n${Array.from({ length: 9000 }, (_, n) => `  - {seq: 0, match: room=${n}, target: main}\n`).join('')}  - a: b\n   c\n`,
      ),
      /line 900[34]: /,
    ],
  },
}

function gate(enabled: string, limit = '5'): string {
  return atVersion(1, `onboarding_gates:\n  - spec: a\n    daily_limit: ${limit}\n    ${enabled}\n`)
}

function group(name: string): string {
  return atVersion(1, `groups:\n  - folder: a\n    ${name}\n    product: p\n    open: true\n`)
}

test('reads a resource without a value as an empty list', () => {
  for (const body of ['acl:\n', 'acl: []\n', 'acl: null\n', 'acl: ~\nroutes: []\n', '# a\nacl: # b\n\n# c\n'])
    assert.deepEqual(rowsOf(atVersion(1, body), 'acl'), [], body)
  assert.equal(rowsOf(atVersion(1, 'routes:\n'), 'acl'), undefined)
})

for (const [title, cases] of Object.entries(INVALID)) {
  suite(`refuses a manifest (${title})`, () => {
    for (const [name, [manifest, ...errors]] of Object.entries(cases)) {
      test(name, () => {
        const found = errorsOf(manifest)
        for (const error of errors) {
          const isReported = found.some((line) => (typeof error === 'string' ? line === error : error.test(line)))
          assert.ok(isReported, `${error} is not among:\n${found.join('\n')}`)
        }
      })
    }
  })
}

suite('reads a manifest', () => {
  test('with octal and hexadecimal numbers, and booleans of YAML 1.1 as text', () => {
    const given = atVersion(1, 'routes:\n- {seq: 0o17, match: "", target: no}\n- {seq: 0x10, match: "", target: on}\n')
    assert.deepEqual(rowsOf(given, 'routes'), [
      { seq: 15, match: '', target: 'no' },
      { seq: 16, match: '', target: 'on' },
    ])
  })

  test('with a byte order mark, CRLF, document markers, comments and other layouts', () => {
    const plain = atVersion(7, 'acl: []\nroutes:\n  - seq: 0\n    match: room=1\n    target: main\n')
    const same = [
      `\ufeff${plain}`,
      plain.replaceAll('\n', '\r\n'),
      `# about\n---\n${plain}...\n# end\n`,
      plain.replaceAll('  - ', '- ').replaceAll('    ', '  '),
      plain.replaceAll('\n', ' # so\n\n'),
      plain.replace(/^/gm, '  '),
      `{"config_version": 7, "acl": [], "routes": [\n{"seq": 0, "match": "room=1", "target": "main"}\n]}`,
      `"config_version": 7\nacl: [\n]\nroutes: [\n  ${ROUTE},\n]\n`,
    ]
    for (const text of [...same, ...same.map((text) => Buffer.from(text))]) {
      const { version, sections } = read(text)
      assert.deepEqual([version, [...sections.keys()]], [7, ['acl', 'routes']])
      assert.deepEqual(
        sections.get('routes')?.rows.map(({ row }) => row),
        [{ seq: 0, match: 'room=1', target: 'main' }],
      )
    }
  })

  test('with key parts that contain the separator of row titles', () => {
    const given = atVersion(
      1,
      `routes:\n- {seq: 0, match: room=1 verb=a, target: b}\n- {seq: 0, match: room=1, target: b}\n`,
    )
    assert.equal(rowsOf(given, 'routes')?.length, 2)
  })

  test('with the hash of its bytes', () => {
    const text = 'config_version: 1 # é\n'
    const sha256 = createHash('sha256').update(text).digest('hex')
    assert.deepEqual([read(text).sha256, read(Buffer.from(text)).sha256], [sha256, sha256])
  })
})

suite('limits a manifest (Y9)', () => {
  test('to 64 MiB', () => {
    const huge = Buffer.alloc(64 * 1024 * 1024 + 1, 0x23)
    assert.throws(() => read(huge), isRefusal('too_large', 'larger than 64 MiB'))
  })

  test('in depth', () => {
    const deep = atVersion(1, `acl: ${'['.repeat(1000)}${']'.repeat(1000)}\n`)
    assert.throws(() => read(deep), isRefusal('invalid', 'line 2: nested too deeply'))
    const indented = Array.from({ length: 1000 }, (_, depth) => `${' '.repeat(depth)}a:\n`).join('')
    assert.throws(() => read(atVersion(1, indented)), isRefusal('invalid', 'nested too deeply'))
  })

  test('in the number of values of one line', () => {
    assert.throws(
      () => read(atVersion(1, `acl: [${'a,'.repeat(1_000_000)}]\n`)),
      isRefusal('too_large', 'too many values'),
    )
  })

  test('in the length of a field', () => {
    const task = `- {id: a, owner: main, chat_jid: main, status: active, context_mode: group, prompt: "${'x'.repeat(5_000_000)}"}`
    assert.deepEqual(errorsOf(atVersion(1, `scheduled_tasks:\n${task}\n`)), [
      'line 3: scheduled_tasks: prompt is longer than 100000 characters',
    ])
  })

  test('in the reported errors: shows a hundred and counts the rest', () => {
    const found = errorsOf(atVersion(1, `acl:\n${'- x\n'.repeat(250)}`))
    assert.deepEqual([found.length, found[0], found.at(-1)], [102, 'the manifest has 250 errors', 'and 150 more'])
  })
})
