// Checks the documents against the program: settings, defaults, commands, metrics and examples.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import type { ActionName } from '../src/core/delivery/channel.ts'
import { CONNECTED_PLATFORMS } from '../src/core/delivery/platform-accounts.ts'
import { hintFor } from '../src/core/delivery/platforms.ts'
import { ALL_SETTINGS, DAEMON_NAMES } from '../src/daemons/settings.ts'
import { metricsText } from '../src/egress/admin/metrics.ts'
import { egressCommands } from '../src/egress/commands/index.ts'
import { RUN_SETTINGS } from '../src/egress/run/settings.ts'
import { SERVE_SETTINGS } from '../src/egress/settings/serve-settings.ts'
import { readToml } from '../src/egress/settings/settings-file.ts'
import { demoCli } from './support/cli.ts'

const root = join(import.meta.dirname, '..')
const read = (path: string): string => readFileSync(join(root, path), 'utf8')

test('the operating guide lists every setting with its default', () => {
  const guide = read('docs/operating.md')
  const perDaemon = new Set(
    DAEMON_NAMES.flatMap((name) => [`${name.toUpperCase()}_LISTEN`, `${name.toUpperCase()}_URL`]),
  )
  for (const [key, { initial }] of Object.entries(ALL_SETTINGS)) {
    if (perDaemon.has(key)) continue
    const row = guide.split('\n').find((line) => line.startsWith(`| \`${key}\` |`))
    assert.ok(row, `${key} is missing`)
    if (initial) assert.ok(row.includes(`\`${initial}\``), `${key} has another default in the guide`)
  }
  for (const name of DAEMON_NAMES) assert.ok(guide.includes(`\`${name}\``), name)
})

suite('the guide to egress-proxy', () => {
  const guide = read('docs/egress.md')
  test('lists every setting with its default', () => {
    for (const [key, { initial }] of Object.entries({ ...SERVE_SETTINGS, ...RUN_SETTINGS })) {
      const row = guide.split('\n').find((line) => line.startsWith(`| \`${key}\` |`))
      assert.ok(row, `${key} is missing`)
      if (initial) assert.ok(row.includes(`\`${initial}\``), `${key} has another default in the guide`)
    }
  })
  test('has an example settings file without unknown keys', () => {
    const toml = /```toml\n([^`]*)```/.exec(guide)?.[1] ?? assert.fail('no example found')
    assert.deepEqual(readToml(toml, 'the example', SERVE_SETTINGS).warnings, [])
  })
  test('lists every command and every metric', () => {
    for (const noun of Object.keys(egressCommands))
      assert.ok(guide.includes(`\`${noun}`) || guide.includes(` ${noun}`), noun)
    const dial = { counts: [], sumS: 0 }
    const counted = { connections: 0, tunnels: 0, bytesUp: 0, bytesDown: 0, droppedLines: 0 }
    const text = metricsText({ ...counted, decisions: [], errors: [], denied: [], dial, dns: dial }, 0)
    for (const [, name = ''] of text.matchAll(/^# TYPE (egress_\w+)/gm)) assert.ok(guide.includes(name), name)
  })
})

test('the table of tools gives the hint of each tool that a platform does not have', () => {
  const [, part = ''] = read('docs/channels.md').split('## What agents can do where')
  const rows = (part.split('\n## ')[0] ?? '').matchAll(/^\| (`[^|]+) \|([^|]+)\|([^|]+)\|([^|]+)\|([^|]+)\|$/gm)
  const hints: string[] = []
  for (const [, names = '', ...cells] of rows) {
    const tools = [...names.matchAll(/`(\w+)`/g)].flatMap(([, name]) => (name === undefined ? [] : [name]))
    let shown = ''
    for (const [at, platform] of CONNECTED_PLATFORMS.entries()) {
      const cell = cells[at]?.trim() ?? ''
      shown = cell === 'the same' ? shown : cell
      const [, call] = /^`(\w+(?:\(.*\))?)`/.exec(shown) ?? []
      if (call === undefined) continue
      for (const tool of tools) {
        // Names of tools are those of actions.
        const hint = hintFor(platform, tool as ActionName)
        assert.ok(hint.includes(call), `${tool} on ${platform}: ${hint}`)
        hints.push(tool)
      }
    }
  }
  assert.ok(hints.length > 20 && hints.includes('post') && hints.includes('pane_set_title'), hints.join())
})

test('the manifest in the guide to runtimes applies to a new instance and removes nothing', async (t) => {
  const stdin = /```yaml\n([^`]*)```/.exec(read('docs/runtimes.md'))?.[1] ?? assert.fail('no example found')
  const cli = await demoCli(t)
  assert.equal(await cli.ok('apply demo -', { stdin }), '+ groups team\napplied -; config_version: 1 -> 2\n')
  assert.match(await cli.ok('export demo'), /folder: team\n(?: {4}.*\n)* {4}config: .*command/)
})

test('the README has the commands to start and to test', () => {
  const readme = read('README.md')
  assert.ok(readme.includes('npm ci && npm start'))
  assert.ok(readme.includes('npm ci && npm test'))
})
