import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { isRefusal } from '../../../test/support/host.ts'
import { parse } from '../../lib/text/schema-parser.ts'
import { isPlainValue } from '../values.ts'
import { launchConfig, offeredTools, unsafeMembers, workPaths } from './group-config.ts'
import { Group } from './groups.ts'

const Config = Group.pick({ config: true })
const written = (config: unknown): { config: string } => ({ config: JSON.stringify(config) })

test('rejects control characters in a launch member and names the member', () => {
  const rule = 'must not contain control characters other than tab and newline'
  for (const [name, value] of Object.entries({
    command: 'echo \u0000',
    model: '\u001b[2J',
    runtime: 'demo\r',
    permission_mode: '\u009b',
  }))
    assert.throws(() => parse(Config, written({ [name]: value })), isRefusal('invalid', `config.${name} ${rule}`))
  assert.throws(
    () => parse(Config, written({ command: ['sh', ['-c', '\u0000']] })),
    isRefusal('invalid', 'config.command'),
  )
  assert.throws(() => parse(Config, { config: '[' }), isRefusal('invalid', /^config must be a JSON object$/))
})

test('accepts tabs and newlines, and any text in other members', () => {
  const config = written({ command: 'a\n\tb', note: '\u0000' })
  assert.deepEqual(parse(Config, config), config)
})

test('checks members at any depth', () => {
  const deep = (levels: number) => `{"command": ${'['.repeat(levels - 1)}"\\u0000"${']'.repeat(levels - 1)}}`
  assert.deepEqual(unsafeMembers(deep(64)), ['command'])
  for (const levels of [65, 50_000]) {
    assert.throws(
      () => parse(Config, { config: deep(levels) }),
      isRefusal('invalid', /^config is nested deeper than 64 levels$/),
    )
    const warnings: string[] = []
    assert.deepEqual(
      launchConfig(deep(levels), (sentence) => warnings.push(sentence)),
      {},
    )
    assert.deepEqual(warnings, ['config is nested deeper than 64 levels and is ignored'])
  }
})

test('ignores a stored launch member with control characters and warns', () => {
  const warnings: string[] = []
  const stored = JSON.stringify({ command: 'sh\u0000', model: 'small', other: '\u0000' })
  assert.deepEqual(
    launchConfig(stored, (sentence) => warnings.push(sentence)),
    { model: 'small', other: '\u0000' },
  )
  assert.deepEqual(warnings, ['config.command contains control characters and is ignored'])
  assert.deepEqual(
    launchConfig(undefined, (sentence) => warnings.push(sentence)),
    {},
  )
})

test('an accepted command contains no control character at any depth', () => {
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: 'binary' }), (command) => {
      const texts: string[] = []
      // Visits every key and every text of the value.
      JSON.stringify({ command }, (key, value: unknown) => {
        texts.push(key, ...(typeof value === 'string' ? [value] : []))
        return value
      })
      assert.equal(Config.safeParse(written({ command })).success, texts.every(isPlainValue))
    }),
  )
})

test('accepts a list of at most 200 tool names and globs', () => {
  const many = (count: number) => written({ tools: Array.from({ length: count }, () => 'reply') })
  for (const config of [written({ tools: [] }), written({ tools: ['reply', 'send*', '*'] }), many(200)])
    assert.deepEqual(parse(Config, config), config)
  assert.throws(
    () => parse(Config, written({ tools: 'reply' })),
    isRefusal('invalid', /^config\.tools must be a list of/),
  )
  assert.throws(() => parse(Config, many(201)), isRefusal('invalid', 'config.tools has more than 200 entries'))
  for (const glob of ['', 'a b', 'a\u0000', 5, 'x'.repeat(129)])
    assert.throws(
      () => parse(Config, written({ tools: [glob] })),
      isRefusal('invalid', /^config\.tools must be tool names/),
    )
})

test('offers the tools that a glob matches, or all without config.tools', () => {
  const offered = offeredTools({ tools: ['reply', 'send*'] })
  assert.deepEqual(
    ['reply', 'send', 'send_file', 'replying', 'resend'].filter((name) => offered?.has(name)),
    ['reply', 'send', 'send_file'],
  )
  assert.equal(offeredTools({ tools: [] })?.has('reply'), false)
  assert.equal(offeredTools({}), undefined)
})

test('ignores stored tools that are not a list and warns', () => {
  const warnings: string[] = []
  assert.deepEqual(
    launchConfig('{"tools": "reply", "model": "small"}', (sentence) => warnings.push(sentence)),
    { model: 'small' },
  )
  assert.match(warnings.join(), /^config\.tools must be a list .*; it is ignored$/)
})

test('accepts at most 16 directories at the top of the workspace as work paths', () => {
  const many = (count: number) => written({ work_paths: Array.from({ length: count }, (_, at) => `d${at}`) })
  for (const config of [
    written({ work_paths: [] }),
    written({ work_paths: ['data', 'Berichte ä', '_x.d-1'] }),
    many(16),
  ])
    assert.deepEqual(parse(Config, config), config)
  assert.throws(() => parse(Config, many(17)), isRefusal('invalid', 'config.work_paths has more than 16 entries'))
  assert.throws(
    () => parse(Config, written({ work_paths: 'data' })),
    isRefusal('invalid', /must be a list of directory/),
  )
  for (const path of ['', '.', '..', '.claude', 'a/b', '/a', 'a\u0000', '~', 5, 'x'.repeat(65), '-x', ' a'])
    assert.throws(
      () => parse(Config, written({ work_paths: [path] })),
      isRefusal('invalid', /must be names of directories/),
    )
  assert.deepEqual(parse(Config, written({ work_paths: ['x'.repeat(64)] })), written({ work_paths: ['x'.repeat(64)] }))
  for (const path of ['skills', 'PERSONA.md', 'claude.md', 'System.MD'])
    assert.throws(
      () => parse(Config, written({ work_paths: [path] })),
      isRefusal('invalid', `must not contain ${path}`),
    )
})

test('data is writable by default, and nothing if stored work paths are not valid', () => {
  assert.deepEqual(workPaths({}), ['data'])
  assert.deepEqual(workPaths({ work_paths: [] }), [])
  const warnings: string[] = []
  const config = launchConfig('{"work_paths": [".claude"]}', (sentence) => warnings.push(sentence))
  assert.deepEqual(workPaths(config), [])
  assert.match(
    warnings.join(),
    /^config\.work_paths must be names .*; it is ignored, and nothing is writable at reach work$/,
  )
})
