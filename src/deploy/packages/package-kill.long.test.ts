// Packages when the process dies in the middle of a change, at each change of a file.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { after, suite, test } from 'node:test'
import { demoCli } from '../../../test/support/cli.ts'
import { openFileHalter } from '../../../test/support/halted-files.ts'
import { listTree, packageDir } from '../../../test/support/package-files.ts'
import { CHANGED_PACKAGE, type PackageHost, packageHost } from '../../../test/support/package-host.ts'
import { recoverPackages } from './package-change.ts'

suite('a change of a package that is killed', () => {
  const halter = openFileHalter()
  after(() => halter.close())

  /** Kills the change at each of its steps. Each time the next command must find the state before or after it. */
  async function killEverywhere(
    host: PackageHost,
    { change, undo }: { change(): Promise<unknown>; undo(): Promise<unknown> },
  ): Promise<{ steps: number; undone: number; completed: number }> {
    const before = await host.state()
    await change()
    const done = await host.state()
    await undo()
    assert.deepEqual(await host.state(), before)
    const counts = { steps: 0, undone: 0, completed: 0 }
    for (;;) {
      const { isHalted } = await halter.run(counts.steps + 1, change)
      if (!isHalted) return counts
      counts.steps++
      const notes = await recoverPackages(host.instance)
      const found = await host.state()
      const isDone = isEqual(found, done)
      if (!isDone) assert.deepEqual(found, before, `killed at change ${counts.steps}`)
      assert.doesNotMatch(notes.join(), isDone ? /undid/ : /completed/)
      counts[isDone ? 'completed' : 'undone']++
      assert.deepEqual(await recoverPackages(host.instance), [])
      if (isDone) await undo()
    }
  }

  const isEqual = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b)

  test('is undone or completed: an install', async (t) => {
    const host = await packageHost(t, 'sqlite', ['main'])
    const added = await host.load()
    const counts = await killEverywhere(host, { change: () => host.install(added), undo: () => host.remove() })
    assert.ok(counts.undone > 10 && counts.completed > 10, JSON.stringify(counts))
  })

  test('is undone or completed: an upgrade', async (t) => {
    const host = await packageHost(t, 'sqlite', ['main'])
    const [old, added] = [await host.load(), await host.load(CHANGED_PACKAGE)]
    await host.install(old)
    const counts = await killEverywhere(host, { change: () => host.upgrade(added), undo: () => host.upgrade(old) })
    assert.ok(counts.undone > 10 && counts.completed > 10, JSON.stringify(counts))
  })

  test('is undone or completed: a removal', async (t) => {
    const host = await packageHost(t, 'sqlite', ['main'])
    const added = await host.load()
    await host.install(added)
    const counts = await killEverywhere(host, { change: () => host.remove(), undo: () => host.install(added) })
    assert.ok(counts.undone > 2 && counts.completed > 10, JSON.stringify(counts))
  })

  test('is undone or completed: a recovery that is killed again', async (t) => {
    const host = await packageHost(t, 'sqlite', ['main'])
    const added = await host.load()
    await host.install(added)
    const done = await host.state()
    await host.remove()
    const before = await host.state()
    const { changes } = await halter.run(Number.POSITIVE_INFINITY, () => host.install(added))
    await host.remove()
    for (const at of [Math.floor(changes / 2), Math.floor(changes * 0.8)]) {
      await halter.run(at, () => host.install(added))
      for (let step = 1; ; step++) {
        const { isHalted } = await halter.run(step, () => recoverPackages(host.instance))
        if (!isHalted) break
      }
      const found = await host.state()
      if (isEqual(found, done)) await host.remove()
      else assert.deepEqual(found, before)
    }
  })
})

const ROOT = join(import.meta.dirname, '../../..')
const KILLER = join(ROOT, 'test/support/self-killer.ts')

test('svc packages, killed at some of its writes, leaves the state before or after it', async (t) => {
  const cli = await demoCli(t)
  const dir = packageDir(t)
  const state = async (): Promise<unknown> => {
    // The command completes or undoes what was interrupted, so it comes first.
    const list = await cli.ok('packages demo list --json')
    const files = listTree(cli.root, (path) => !/^(store|ipc|logs)/.test(path))
    return { list, files, rows: await cli.ok('export demo') }
  }
  const before = await state()
  await cli.ok(`packages demo install ${dir} --yes`)
  const done = await state()
  await cli.ok('packages demo remove gate --yes')
  const ends: string[] = []
  for (let at = 1; ends.at(-1) !== 'finished'; at += 6) {
    const args = ['--import', KILLER, join(ROOT, 'bin/svc.js'), 'packages', 'demo', 'install', dir, '--yes']
    const env = { PATH: process.env.PATH, SVC_DATA_DIR: cli.dir, KILL_AT: String(at), KILL_BELOW: cli.root }
    const child = spawn(process.execPath, args, { env, stdio: 'ignore' })
    const [code, signal] = await once(child, 'close')
    assert.ok(code === 0 || signal === 'SIGKILL', `${code} ${signal} at ${at}`)
    const found = await state()
    const isDone = JSON.stringify(withoutTimes(found)) === JSON.stringify(withoutTimes(done))
    if (!isDone) assert.deepEqual(found, before, `killed at ${at}`)
    ends.push(code === 0 ? 'finished' : isDone ? 'completed' : 'undone')
    if (isDone) await cli.ok('packages demo remove gate --yes')
  }
  assert.deepEqual([...new Set(ends)], ['undone', 'completed', 'finished'])
})

function withoutTimes(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value).replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'then'))
}
