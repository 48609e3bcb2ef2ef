// The documents are held against the program where a machine can.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { ALL_SETTINGS, DAEMON_NAMES } from '../src/daemons/settings.ts'
import { metricsText } from '../src/egress/admin/metrics.ts'
import { commands } from '../src/egress/commands/index.ts'
import { RUN_SETTINGS } from '../src/egress/run/settings.ts'
import { SERVE } from '../src/egress/settings.ts'
import { readToml } from '../src/egress/settings-file.ts'
import { demoCli } from './support/cli.ts'

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

suite('the guide to egress-proxy', () => {
  const guide = read('docs/egress.md')
  test('has every setting with its default', () => {
    for (const [key, { initial }] of Object.entries({ ...SERVE, ...RUN_SETTINGS })) {
      const row = guide.split('\n').find((line) => line.startsWith(`| \`${key}\` |`))
      assert.ok(row, `${key} is missing`)
      if (initial) assert.ok(row.includes(`\`${initial}\``), `${key} has another default there`)
    }
  })
  test('has an example of a file in which every key is known', () => {
    const toml = /```toml\n([^`]*)```/.exec(guide)?.[1] ?? assert.fail('there is none')
    assert.deepEqual(readToml(toml, 'the example', SERVE).warnings, [])
  })
  test('has every command, and every metric', () => {
    for (const noun of Object.keys(commands)) assert.ok(guide.includes(`\`${noun}`) || guide.includes(` ${noun}`), noun)
    const dial = { counts: [], sumS: 0 }
    const counted = { connections: 0, tunnels: 0, bytesUp: 0, bytesDown: 0, droppedLines: 0 }
    const text = metricsText({ ...counted, decisions: [], errors: [], denied: [], dial, dns: dial }, 0)
    for (const [, name = ''] of text.matchAll(/^# TYPE (egress_\w+)/gm)) assert.ok(guide.includes(name), name)
  })
})

test('the manifest of the guide to runtimes can be applied to a new instance, and removes nothing there', async (t) => {
  const stdin = /```yaml\n([^`]*)```/.exec(read('docs/runtimes.md'))?.[1] ?? assert.fail('there is none')
  const cli = await demoCli(t)
  assert.equal(await cli.ok('apply demo -', { stdin }), '+ groups team\napplied -; config_version: 1 -> 2\n')
  assert.match(await cli.ok('export demo'), /folder: team\n(?: {4}.*\n)* {4}config: .*command/)
})

test('links between the documents lead somewhere', () => {
  for (const path of [
    'README.md',
    'CONTRIBUTING.md',
    'docs/operating.md',
    'docs/links.md',
    'docs/agents.md',
    'docs/channels.md',
    'docs/egress.md',
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
