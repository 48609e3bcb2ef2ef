import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, chownSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { needs } from '../../test/support/needs.ts'
import { tempDir } from '../../test/support/temp.ts'
import { layout } from '../core/layout.ts'
import { sourceOf } from '../lib/settings.ts'
import { formatUnit, type UnitOptions, writeUnit } from './systemd.ts'

const OPTIONS: UnitOptions = {
  instance: 'demo',
  root: '/srv/data/svc_demo',
  user: 'svc',
  node: '/usr/bin/node',
  program: '/opt/svc/bin/svc.js',
  paths: [],
  turnsMax: 4,
  processesMax: 1024,
}

/** All values of a directive. */
function valuesOf(unit: string, key: string): string[] {
  return unit
    .split('\n')
    .filter((line) => line.startsWith(`${key}=`))
    .map((line) => line.slice(key.length + 1))
}

/** Splits a value as systemd does: quotes, escapes, then specifiers. Commands also have variables. */
function wordsOf(value: string, isCommand = false): string[] {
  const words = [...value.matchAll(/"((?:[^"\\]|\\.)*)"(?: |$)/gs)].map(([, word = '']) => word)
  assert.equal(words.map((word) => `"${word}"`).join(' '), value)
  return words.map((word) => {
    const plain = word.replaceAll(/\\(.)/gs, '$1').replaceAll('%%', '%')
    assert.doesNotMatch(word.replaceAll('%%', ''), /%/)
    if (isCommand) assert.doesNotMatch(word.replaceAll('$$', ''), /\$/)
    return isCommand ? plain.replaceAll('$$', '$') : plain
  })
}

test('every path is read back as it was', () => {
  const path = fc
    .string({ unit: fc.constantFrom(...' %$"\\\'#;=abcé{}[]~*?-'.split('')), minLength: 1 })
    .map((text) => `/x${text}`)
  fc.assert(
    fc.property(path, path, path, (root, node, program) => {
      const unit = formatUnit({ ...OPTIONS, root: `${root}/svc_demo`, node, program })
      assert.deepEqual(
        valuesOf(unit, 'ExecStart').map((value) => wordsOf(value, true)),
        [[node, program, 'serve', 'demo']],
      )
      assert.deepEqual(
        valuesOf(unit, 'ReadWritePaths').map((value) => wordsOf(value)),
        [[`${root}/svc_demo`]],
      )
      assert.deepEqual(wordsOf(valuesOf(unit, 'Environment')[0] ?? ''), [`SVC_DATA_DIR=${root}`])
    }),
  )
})

test('the number of tasks follows from the limits of runs', () => {
  assert.deepEqual(valuesOf(formatUnit(OPTIONS), 'TasksMax'), ['4608'])
  assert.deepEqual(valuesOf(formatUnit({ ...OPTIONS, processesMax: 0 }), 'TasksMax'), ['infinity'])
})

test('homes and temporary directories are hidden unless svc is there', () => {
  const hidden = (change: Partial<UnitOptions>): string[] => {
    const unit = formatUnit({ ...OPTIONS, ...change })
    return [...valuesOf(unit, 'ProtectHome'), ...valuesOf(unit, 'PrivateTmp')]
  }
  assert.deepEqual(hidden({}), ['yes', 'yes'])
  assert.deepEqual(hidden({ root: '/home/ada/svc_demo' }), ['read-only', 'yes'])
  assert.deepEqual(hidden({ root: '/homes/ada/svc_demo' }), ['yes', 'yes'])
  assert.deepEqual(hidden({ node: '/root/.nvm/node' }), ['read-only', 'yes'])
  assert.deepEqual(hidden({ paths: ['/tmp/models'] }), ['yes', 'no'])
  const writable = valuesOf(formatUnit({ ...OPTIONS, paths: ['/tmp/models'] }), 'ReadWritePaths')
  assert.deepEqual(
    writable.map((value) => value.endsWith(' /tmp /var/tmp')),
    [true],
  )
})

test('has no directive that prevents cells or Node', () => {
  const unit = formatUnit(OPTIONS)
  const refused = ['RestrictNamespaces', 'PrivateUsers', 'ProtectKernelTunables', 'ProtectProc', 'RestrictSUIDSGID']
  for (const key of [...refused, 'DynamicUser', 'MemoryDenyWriteExecute', 'ProtectHostname'])
    assert.deepEqual(valuesOf(unit, key), [], key)
})

suite('writing the unit', () => {
  const none = [sourceOf('the test', new Map())]
  const instance = (t: Parameters<typeof tempDir>[0]): ReturnType<typeof layout> => {
    const root = join(tempDir(t), 'svc_demo')
    mkdirSync(root)
    return layout(root)
  }

  test('gives the same file each time, which other users can read', async (t) => {
    const place = instance(t)
    const { path, user } = await writeUnit({ name: 'demo', layout: place, sources: none })
    assert.equal(path, join(place.root, 'svc-demo.service'))
    assert.equal(user, execFileSync('id', ['-nu'], { encoding: 'utf8' }).trim())
    const text = readFileSync(path, 'utf8')
    assert.equal(statSync(path).mode & 0o777, 0o644)
    await writeUnit({ name: 'demo', layout: place, sources: none })
    assert.equal(readFileSync(path, 'utf8'), text)
    assert.match(text, new RegExp(`^ExecStart="${process.execPath}" ".*/bin/svc.js" "serve" "demo"$`, 'm'))
  })

  test('is accepted by systemd-analyze', needs('systemd-analyze'), async (t) => {
    const { path } = await writeUnit({ name: 'demo', layout: instance(t), sources: none })
    const { status, stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', path], { encoding: 'utf8' })
    assert.deepEqual([status, stderr.split('\n').filter((line) => line.includes('svc-demo'))], [0, []])
  })

  test('refuses a directory whose owner is not a user', needs('root'), async (t) => {
    const place = instance(t)
    chownSync(place.root, 54_321, 54_321)
    await assert.rejects(writeUnit({ name: 'demo', layout: place, sources: none }), {
      message: `${place.root} belongs to uid 54321, which is not a user of this machine`,
    })
    assert.equal(statSync(place.env, { throwIfNoEntry: false }), undefined)
  })

  test('refuses a link and a name that a unit cannot contain', async (t) => {
    const place = instance(t)
    const other = join(tempDir(t), 'svc_demo')
    symlinkSync(place.root, other)
    await assert.rejects(writeUnit({ name: 'demo', layout: layout(other), sources: none }), /is a symbolic link/)
    const broken = join(tempDir(t), 'a\nb')
    mkdirSync(join(broken, 'svc_demo'), { recursive: true })
    const written = writeUnit({ name: 'demo', layout: layout(join(broken, 'svc_demo')), sources: none })
    await assert.rejects(written, /a unit cannot contain the path/)
  })

  test('refuses a program that its user cannot read', needs('root'), async (t) => {
    const closed = tempDir(t)
    chmodSync(closed, 0o700)
    const node = join(closed, 'node')
    writeFileSync(node, '', { mode: 0o755 })
    const place = instance(t)
    const nobody = Number(execFileSync('id', ['-u', 'nobody'], { encoding: 'utf8' }))
    chownSync(place.root, nobody, nobody)
    await assert.rejects(writeUnit({ name: 'demo', layout: place, sources: none, node }), {
      message: `the user nobody cannot read ${node}`,
    })
  })
})
