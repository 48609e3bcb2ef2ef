// The documents are held against the program where a machine can.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { ALL_SETTINGS, DAEMON_NAMES } from '../src/daemons/settings.ts'

const root = join(import.meta.dirname, '..')
const read = (path: string): string => readFileSync(join(root, path), 'utf8')

test('every setting and its default stand in the operating guide', () => {
  const guide = read('docs/operating.md')
  const perDaemon = new Set(
    DAEMON_NAMES.flatMap((name) => [`${name.toUpperCase()}_LISTEN`, `${name.toUpperCase()}_URL`]),
  )
  for (const [key, { initial }] of Object.entries(ALL_SETTINGS)) {
    if (perDaemon.has(key)) continue
    const row = guide.split('\n').find((line) => line.startsWith(`| \`${key}\` |`))
    assert.ok(row, `${key} is missing`)
    if (initial) assert.ok(row.includes(`\`${initial}\``), `${key} has another default there`)
  }
  for (const name of DAEMON_NAMES) assert.ok(guide.includes(`\`${name}\``), name)
})

test('links between the documents lead somewhere', () => {
  for (const path of [
    'README.md',
    'CONTRIBUTING.md',
    'docs/operating.md',
    'docs/links.md',
    'docs/agents.md',
    'docs/channels.md',
    'docs/widget.md',
    'docs/runtimes.md',
    'docs/architecture.md',
  ]) {
    for (const [, target] of read(path).matchAll(/\]\(((?!https?:)[^)#]+)[^)]*\)/g)) {
      assert.doesNotThrow(() => readFileSync(join(root, path, '..', target ?? '')), `${path} → ${target}`)
    }
  }
})

test('the README gives the two commands that a newcomer needs', () => {
  const readme = read('README.md')
  assert.ok(readme.includes('npm ci && npm start'))
  assert.ok(readme.includes('npm ci && npm test'))
})
