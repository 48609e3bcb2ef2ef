// An acknowledged message is stored even if the disk is full or fails (P18).
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { openLinkedInstance } from '../support/linked-instance.ts'
import { compare, load, post, statuses } from '../support/load.ts'
import { needs } from '../support/needs.ts'
import { buildShim, watchDisk } from '../support/power-cut/shim.ts'
import { repeatableRandom } from '../support/repeatable-random.ts'
import { tempDir } from '../support/temp.ts'
import { until } from '../support/until.ts'

const CLIENTS = 8
const DISK_MIB = 136
/** Deleting it makes room for the turns of the stored messages, which write several times their size. */
const BALLAST_MIB = 120

suite('a full disk', needs('root'), () => {
  test('causes 503 responses, loses no acknowledged message, and the server recovers when there is room', async (t) => {
    const demo = await openLinkedInstance(t)
    const link = await demo.mintHook('load')
    const disk = tempDir(t)
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${DISK_MIB}m`, 'tmpfs', disk])
    // Not in t.after(): the folder would be deleted before the unmount.
    try {
      const root = join(disk, 'svc_demo')
      cpSync(demo.root, root, { recursive: true })
      const ballast = join(disk, 'ballast')
      writeFileSync(ballast, Buffer.alloc(BALLAST_MIB * 2 ** 20))
      const served = await demo.start({ root })
      const running = load(served.hook(link), { clients: CLIENTS, padding: () => 64 * 1024 })
      await until(() => (statuses(running)['503'] ?? 0) > 20)
      const door = new URL(served.hook(link)).origin
      const health = async (): Promise<number> => (await fetch(`${door}/health`)).status
      await until(async () => (await health()) === 503)
      const refusal = await fetch(served.hook(link), { method: 'POST', body: Buffer.alloc(512 * 1024) })
      assert.equal(refusal.status, 503)
      const bodies = (await refusal.text()) + (await (await fetch(`${door}/health`)).text())
      assert.doesNotMatch(bodies, /svc_demo|svc\.db|\/tmp/)
      await running.stop()
      assert.deepEqual(Object.keys(statuses(running)).sort(), ['204', '503'])
      assert.equal(
        running.sent.every(({ status, retryAfter }) => status !== 503 || Number(retryAfter) > 0),
        true,
      )
      rmSync(ballast)
      await until(async () => (await health()) === 200)
      const again = load(served.hook(link), { clients: CLIENTS, padding: () => 1000, messages: 200 })
      await again.begun
      await again.ended
      await served.kill()
      const { stderr } = await served.ended
      assert.doesNotMatch(stderr, /"stack"|internal error/)
      const stored = (await demo.inbound(link, root)).map(({ content }) => content)
      const { lost, doubled, foreign } = compare([running, again], stored)
      assert.deepEqual([lost, doubled, foreign], [[], [], []])
      const restarted = await demo.start({ root })
      assert.equal((await post(restarted.hook(link), { body: 'x' })).statusCode, 204)
      await restarted.kill()
    } finally {
      execFileSync('umount', ['-l', disk])
    }
  })
})

suite('a disk that becomes read-only', needs('root'), () => {
  test('ends the process with one message and no stack trace', async (t) => {
    const demo = await openLinkedInstance(t)
    const link = await demo.mintHook('load')
    const [image, disk] = [join(tempDir(t), 'image'), tempDir(t)]
    execFileSync('truncate', ['-s', '64M', image])
    execFileSync('mkfs.ext4', ['-q', '-F', image])
    execFileSync('mount', ['-o', 'loop', image, disk])
    try {
      const root = join(disk, 'svc_demo')
      cpSync(demo.root, root, { recursive: true })
      const served = await demo.start({ root })
      assert.equal((await post(served.hook(link), { body: 'x' })).statusCode, 204)
      // What the kernel does on a damaged file system.
      execFileSync('mount', ['-o', 'remount,abort', disk])
      await post(served.hook(link), { body: 'x' }).catch(() => undefined)
      const { code, stderr } = await served.ended
      assert.equal(code, 1, stderr)
      const plain = stderr.split('\n').filter((line) => line !== '' && !line.startsWith('{'))
      assert.equal(plain.length, 1, stderr)
      assert.match(
        plain[0] ?? '',
        /^svc: the disk under .*svc\.db reported an error; (nothing was changed|the last changes may be lost)$/,
      )
    } finally {
      execFileSync('umount', ['-l', disk])
    }
  })
})

suite('a store file that disappears while the server runs', () => {
  for (const [how, remove] of Object.entries({
    removed: (path: string) => rmSync(path),
    replaced: (path: string) => {
      cpSync(path, `${path}.other`)
      renameSync(`${path}.other`, path)
    },
  }))
    test(`because it was ${how}: nothing more is acknowledged and the process ends with a message`, async (t) => {
      const demo = await openLinkedInstance(t)
      const link = await demo.mintHook('load')
      const served = await demo.start()
      assert.equal((await post(served.hook(link), { body: 'x' })).statusCode, 204)
      remove(join(demo.root, 'store', 'svc.db'))
      const answer = await post(served.hook(link), { body: 'x' }).catch(() => undefined)
      assert.notEqual(answer?.statusCode, 204)
      const { code, stderr } = await served.ended
      assert.equal(code, 1, stderr)
      assert.match(stderr, /^svc: the store at .*svc\.db was removed or replaced/m)
    })
})

suite('a failing disk', needs('compiler'), () => {
  test('ends the process when the log cannot be synced, without losing acknowledged messages', async (t) => {
    const [by, shim] = [repeatableRandom(t), buildShim(t)]
    const demo = await openLinkedInstance(t)
    const [hook, chat] = [await demo.mintHook('load'), await demo.mintChat('load')]
    for (let round = 0; round < 4; round++) {
      // At a chat the failed sync may be that of an answer.
      const link = round % 2 === 0 ? hook : chat
      const root = demo.copy()
      const at = by.between(20, 100)
      const disk = watchDisk(t, shim, root, { fail: { ending: '-wal', at } })
      const served = await demo.start({ root, env: disk.env })
      const url = link === hook ? served.hook(link) : served.chat(link)
      const running = load(url, { clients: CLIENTS, padding: () => by.below(500) })
      const { code, stderr } = await served.ended
      await running.ended
      assert.ok(code !== null && code > 0, `exit code ${code}: ${stderr}`)
      assert.match(stderr, /the disk under .* reported an error/)
      assert.equal(stderr.includes(link.token), false)
      for (const left of [disk.cut('none', by), root]) {
        const stored = (await demo.inbound(link, left)).map(({ content }) => content)
        const { lost, doubled, foreign, acknowledged } = compare([running], stored)
        t.diagnostic(`sync ${at} failed: ${acknowledged} acknowledged, ${stored.length} stored`)
        assert.deepEqual([lost, doubled, foreign], [[], [], []])
      }
      const again = await demo.start({ root })
      assert.equal((await post(again.hook(hook), { body: 'x' })).statusCode, 204)
      await again.kill()
    }
  })

  test('ends the process when the database file cannot be synced, with acknowledged messages still in the log', async (t) => {
    const [by, shim] = [repeatableRandom(t), buildShim(t)]
    const demo = await openLinkedInstance(t)
    const link = await demo.mintHook('load')
    const root = demo.copy()
    const disk = watchDisk(t, shim, root, { fail: { ending: 'svc.db', at: by.between(1, 3) } })
    const served = await demo.start({ root, env: disk.env })
    const running = load(served.hook(link), {
      clients: CLIENTS,
      padding: () => by.between(32, 64) * 1024,
    })
    const { code, stderr } = await served.ended
    await running.ended
    assert.ok(code !== null && code > 0, `exit code ${code}: ${stderr}`)
    assert.match(stderr, /the disk under .* reported an error/)
    // Pages that the disk lost are still in the page cache and in the log. A power cut at this moment may lose messages:
    // the kernel does not report which of the earlier checkpointed pages it failed to write.
    const stored = (await demo.inbound(link, root)).map(({ content }) => content)
    const { lost, doubled, foreign, acknowledged } = compare([running], stored)
    assert.deepEqual([lost, doubled, foreign], [[], [], []])
    assert.ok(acknowledged > 0)
  })
})
