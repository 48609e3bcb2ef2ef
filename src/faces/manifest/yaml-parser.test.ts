// What a manifest may look like: every kind of bad file, and that each is refused with its line before a store is opened.
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

function faultsOf(text: string | Uint8Array): string[] {
  try {
    read(text)
  } catch (error) {
    if (error instanceof Refusal && error.code === 'invalid') return error.message.split('\n')
    throw error
  }
  return []
}

/** Keyed by the row of the catalogue of bad input: what is given, and every fault that must be named. */
const BAD: Record<string, Record<string, [given: string | Uint8Array, ...faults: (string | RegExp)[]]>> = {
  'Y1 and Y2: what is no manifest': {
    'an empty file': ['', 'line 1: the manifest is empty'],
    'only comments': ['# a\n# b\n', 'line 1: the manifest is empty'],
    'two documents': [
      `${atVersion(1, 'acl: []\n')}---\nacl: []\n`,
      'line 3: a second document begins: a manifest is one',
    ],
    'two documents in brackets': ['{config_version: 1}\n---\n{acl: []}\n', /line 2: a second document begins/],
    'a list': ['- acl\n', /line 1: the manifest must be a mapping/],
    'a text': ['acl', /line 1: the manifest must be a mapping/],
    'a number': ['42', /line 1: the manifest must be a mapping/],
    'an unknown key': [atVersion(1, 'rotues: []\n'), 'line 2: "rotues" is no resource: did you mean routes?'],
    'an unknown key that resembles none': [atVersion(1, 'xyz: []\n'), 'line 2: "xyz" is no resource'],
    'a resource that is not exported': [
      atVersion(1, 'route_tokens: []\n'),
      'line 2: route_tokens is no part of a manifest',
    ],
    'a scalar for a resource': [atVersion(1, 'acl: all\n'), 'line 2: acl must be a list of rows'],
    'a mapping for a resource': [atVersion(1, 'acl: {a: 1}\n'), 'line 2: acl must be a list of rows'],
    'a row that is no mapping': [atVersion(1, 'acl:\n  - a\n'), 'line 3: a row must be a mapping of fields'],
    'a row that is nothing': [atVersion(1, 'acl:\n  -\n'), 'line 3: a row must be a mapping of fields'],
  },
  'Y3: what stands twice': {
    'a resource': [atVersion(1, 'acl: []\nacl: []\n'), 'line 3: acl stands here a second time: first in line 2'],
    'a resource in brackets': ['{config_version: 1, acl: [],\n acl: []}', /line 2: acl stands here a second time/],
    'a resource with rows': [
      atVersion(1, `routes:\n  - ${ROUTE}\nroutes:\n  - ${ROUTE}\n`),
      /line 4: routes stands here a second/,
    ],
    'the version': [atVersion(1, 'config_version: 1\n'), /line 2: config_version stands here a second time/],
    'a field': [
      atVersion(1, 'routes:\n- seq: 0\n  seq: 1\n  match: ""\n  target: a\n'),
      /line 4: seq stands here a second time/,
    ],
  },
  'Y4 to Y6: what cannot be seen where it stands': {
    'an anchor': [atVersion(1, 'acl: &a []\n'), 'line 2: a manifest has no anchors and no tags'],
    'an anchor on a row': [atVersion(1, `routes:\n  - &a ${ROUTE}\n`), 'line 3: a manifest has no anchors and no tags'],
    'an alias': [atVersion(1, 'acl: *a\n'), 'line 2: a manifest has no aliases: write the value out'],
    'laughs by the billion': [
      atVersion(1, 'a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n'),
      /line 2/,
      /line 3/,
      /line 4/,
    ],
    'an alias to itself': [atVersion(1, 'acl: &a [*a]\n'), 'line 2: a manifest has no anchors and no tags'],
    'a merge key': [atVersion(1, 'routes:\n  - <<: {a: 1}\n'), /line 3: routes: "<<" is no field/],
    'a prototype': [atVersion(1, 'routes:\n  - __proto__: {a: 1}\n'), /line 3: routes: "__proto__" is no field/],
    'a prototype at the root': [atVersion(1, '__proto__: []\n'), 'line 2: "__proto__" is no resource'],
    'a tag': [atVersion(1, 'acl: !!seq []\n'), 'line 2: a manifest has no anchors and no tags'],
    'a tag that runs code': [atVersion(1, 'acl: !!js/function "f"\n'), 'line 2: a manifest has no anchors and no tags'],
    'a tag that includes': [
      atVersion(1, `routes:\n  - seq: !include a\n`),
      /line 3: a manifest has no anchors and no tags/,
    ],
    'a tag of bytes': [
      atVersion(1, `routes:\n  - match: !!binary YQ==\n`),
      /line 3: a manifest has no anchors and no tags/,
    ],
    'a directive': ['%TAG ! a:\n---\nacl: []\n', 'line 1: a manifest has no directives'],
    'a key with a mark': [atVersion(1, '? acl\n: []\n'), /line 2: a manifest has no keys marked with \?/],
    'a key that is no text': [atVersion(1, '1: []\n'), 'line 2: a key must be text'],
    'a key that is a list': [atVersion(1, '[a]: []\n'), 'line 2: a key must be text'],
  },
  'Y7: words that look like other things': {
    'no where a switch is due': [gate('enabled: no'), 'line 5: onboarding_gates: enabled must be true or false'],
    'on where a switch is due': [gate('enabled: on'), 'line 5: onboarding_gates: enabled must be true or false'],
    'a text where a switch is due': [gate('enabled: "true"'), /line 5: .*enabled must be true or false/],
    'digits with a line': [gate('enabled: true', '1_000'), 'line 4: onboarding_gates: daily_limit must be a number'],
    'a time of day': [gate('enabled: true', '1:20'), 'line 4: onboarding_gates: daily_limit must be a number'],
    'a number where a text is due': [group('name: 42'), 'line 4: groups: name must be text'],
    'a switch where a text is due': [group('name: true'), 'line 4: groups: name must be text'],
    'a tilde where a text is due': [group('name: ~'), 'line 4: groups: name must be text'],
    'nothing where a text is due': [group('name:'), 'line 4: groups: name must be text'],
  },
  'Y8: bytes': {
    'a tab as indentation': [atVersion(1, 'acl:\n\t- a\n'), /line 3: holds a tab/],
    'a tab in a text': [atVersion(1, 'acl: "a\tb"\n'), /line 2: holds a tab.*\\t between double quotes/],
    'a NUL': [
      atVersion(1, 'acl: []\n\u0000'),
      'line 3: holds the character U+0000: write it as \\u0000 between double quotes',
    ],
    'a bell and a delete': [atVersion(1, 'a\u0007\nb\u007f\n'), /line 2: .*U\+0007/, /line 3: .*U\+007F/],
    'a carriage return alone': [
      atVersion(1, 'acl: []\rroutes: []\n'),
      'line 2: holds a carriage return that ends no line',
    ],
    'invalid UTF-8': [
      Buffer.concat([Buffer.from(atVersion(1, 'acl: []\n')), Buffer.of(0x61, 0xff)]),
      'line 3: is not valid UTF-8',
    ],
    'UTF-16': [Buffer.from('\ufeffconfig_version: 1\n', 'utf16le'), /line 1: is not valid UTF-8/, /U\+0000/],
    'half a character': ['acl: "\ud800"', /line 1: holds the character U\+D800/],
  },
  'Y11: rows that do not fit': {
    'all that is wrong at once': [
      atVersion(1, 'routes:\n  - matc: x\n    seq: a\n  - seq: 1\n    match: room\n    target: ""\ngates: []\n'),
      'the manifest has 7 faults',
      'line 3: routes: "matc" is no field: did you mean match?',
      'line 3: routes: match is required',
      'line 3: routes: target is required',
      'line 4: routes: seq must be a number',
      'line 6: routes: match has "room", which is not key=glob',
      /line 7: routes: target must be a folder/,
      'line 8: "gates" is no resource',
    ],
    'a choice that is none': [
      atVersion(1, 'web_routes:\n  - {path_prefix: /a, access: open, folder: main}\n'),
      'line 3: web_routes: access must be one of public, auth, deny, redirect',
    ],
    'a column that is not carried': [
      atVersion(1, `routes:\n  - {id: 1, seq: 0, match: "", target: a}\n`),
      /"id" is no field/,
    ],
    'the value of a secret': [
      atVersion(1, 'secrets:\n  - {scope_kind: folder, owner: main, key: A, value: hush}\n'),
      'line 3: secrets: "value" is no field',
    ],
    'a rule over one row': [
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
    'a rule over all rows': [
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
      'line 4: routes: 0 room=1 main stands in line 3 already',
    ],
    'the same key in another spelling': [
      atVersion(1, 'network_rules:\n  - {folder: "", target: A.example.}\n  - {folder: "", target: a.example}\n'),
      /line 4: network_rules: "" a.example stands in line 3 already/,
    ],
  },
  'Y17: numbers': {
    'a float': [atVersion(1, 'routes:\n  - {seq: 1.5, match: "", target: a}\n'), 'line 3: 1.5 is no whole number'],
    'a float that is whole': [
      atVersion(1, 'routes:\n  - {seq: 1.0, match: "", target: a}\n'),
      'line 3: 1.0 is no whole number',
    ],
    'an exponent': [atVersion(1, 'routes:\n  - {seq: 1e3, match: "", target: a}\n'), 'line 3: 1e3 is no whole number'],
    infinity: [atVersion(1, 'routes:\n  - {seq: .inf, match: "", target: a}\n'), 'line 3: .inf is no whole number'],
    'beyond 2^53': [
      atVersion(1, 'routes:\n  - {seq: 9007199254740993, match: "", target: a}\n'),
      'line 3: 9007199254740993 is beyond 2^53, where numbers are exact',
    ],
    'beyond the column': [
      atVersion(1, 'routes:\n  - {seq: 1000001, match: "", target: a}\n'),
      /line 3: routes: seq must be at most 1000000/,
    ],
  },
  'the version': {
    'is missing': ['acl: []\n', /line 1: config_version is required/],
    'is missing beside another fault': [
      'acls: []\n',
      /line 1: config_version is required/,
      /line 1: "acls" is no resource/,
    ],
    'is a text': ['config_version: "1"\n', 'line 1: config_version must be a whole number of at least 0'],
    'is nothing': ['config_version:\n', 'line 1: config_version must be a whole number of at least 0'],
    'is a list': ['config_version:\n  - a: 1\n', 'line 1: config_version must be a whole number of at least 0'],
    'is negative': ['config_version: -1\n', 'line 1: config_version must be a whole number of at least 0'],
    'is a float': ['config_version: 1.0\n', 'line 1: 1.0 is no whole number'],
    'is 2^63': ['config_version: 9223372036854775808\n', /line 1: 9223372036854775808 is beyond 2\^53/],
  },
  'what the parser says': {
    'a quote that is not closed': [
      atVersion(1, 'acl: []\nroutes:\n  - {seq: 0, match: "\n'),
      /line [45]: missing closing "quote/,
    ],
    'crooked rows': [atVersion(1, `routes:\n  - seq: 0\n   match: ""\n`), /line 4: /],
    'crooked rows in a later batch': [
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

test('a resource with nothing below its key is an empty list', () => {
  for (const body of ['acl:\n', 'acl: []\n', 'acl: null\n', 'acl: ~\nroutes: []\n', '# a\nacl: # b\n\n# c\n'])
    assert.deepEqual(rowsOf(atVersion(1, body), 'acl'), [], body)
  assert.equal(rowsOf(atVersion(1, 'routes:\n'), 'acl'), undefined)
})

for (const [title, cases] of Object.entries(BAD)) {
  suite(`a manifest is refused (${title})`, () => {
    for (const [what, [given, ...faults]] of Object.entries(cases)) {
      test(what, () => {
        const found = faultsOf(given)
        for (const fault of faults) {
          const isThere = found.some((line) => (typeof fault === 'string' ? line === fault : fault.test(line)))
          assert.ok(isThere, `${fault} is not among:\n${found.join('\n')}`)
        }
      })
    }
  })
}

suite('a manifest is read', () => {
  test('by the core schema: octal, hexadecimal, and words of YAML 1.1 as text', () => {
    const given = atVersion(1, 'routes:\n- {seq: 0o17, match: "", target: no}\n- {seq: 0x10, match: "", target: on}\n')
    assert.deepEqual(rowsOf(given, 'routes'), [
      { seq: 15, match: '', target: 'no' },
      { seq: 16, match: '', target: 'on' },
    ])
  })

  test('the same with a byte order mark, CRLF, marks, comments and another layout', () => {
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

  test('with parts of keys that hold whatever joins them for the eye', () => {
    const given = atVersion(
      1,
      `routes:\n- {seq: 0, match: room=1 verb=a, target: b}\n- {seq: 0, match: room=1, target: b}\n`,
    )
    assert.equal(rowsOf(given, 'routes')?.length, 2)
  })

  test('with a fingerprint of its bytes', () => {
    const text = 'config_version: 1 # é\n'
    const sha256 = createHash('sha256').update(text).digest('hex')
    assert.deepEqual([read(text).sha256, read(Buffer.from(text)).sha256], [sha256, sha256])
  })
})

suite('a manifest has limits (Y9)', () => {
  test('64 MiB', () => {
    const huge = Buffer.alloc(64 * 1024 * 1024 + 1, 0x23)
    assert.throws(() => read(huge), isRefusal('too_large', 'larger than 64 MiB'))
  })

  test('depth: a thousand brackets are refused, not followed', () => {
    const deep = atVersion(1, `acl: ${'['.repeat(1000)}${']'.repeat(1000)}\n`)
    assert.throws(() => read(deep), isRefusal('invalid', 'line 2: is nested too deeply'))
    const indented = Array.from({ length: 1000 }, (_, depth) => `${' '.repeat(depth)}a:\n`).join('')
    assert.throws(() => read(atVersion(1, indented)), isRefusal('invalid', 'is nested too deeply'))
  })

  test('values: a single line cannot take all the memory', () => {
    assert.throws(
      () => read(atVersion(1, `acl: [${'a,'.repeat(1_000_000)}]\n`)),
      isRefusal('too_large', 'holds too much'),
    )
  })

  test('one text of 5 MB is one text, and too long for its field', () => {
    const task = `- {id: a, owner: main, chat_jid: main, status: active, context_mode: group, prompt: "${'x'.repeat(5_000_000)}"}`
    assert.deepEqual(faultsOf(atVersion(1, `scheduled_tasks:\n${task}\n`)), [
      'line 3: scheduled_tasks: prompt is longer than 100000 characters',
    ])
  })

  test('faults: a hundred are shown and the rest counted', () => {
    const found = faultsOf(atVersion(1, `acl:\n${'- x\n'.repeat(250)}`))
    assert.deepEqual([found.length, found[0], found.at(-1)], [102, 'the manifest has 250 faults', 'and 150 more'])
  })
})
