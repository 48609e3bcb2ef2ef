// A disk that is full, or that fails, never makes an acknowledgement false (P18).
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
/** Gone, it leaves room for the turns of what was stored until then: they write several times its size. */
const BALLAST_MIB = 120

suite('a disk that is full', needs('root'), () => {
  test('is a 503, every acknowledged message stays, and it goes on when there is room', async (t) => {
    const demo = await openLinkedInstance(t)
    const link = await demo.mintHook('load')
    const disk = tempDir(t)
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${DISK_MIB}m`, 'tmpfs', disk])
    // Not in a hook: the folder's own removal would come first.
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
      const told = (await refusal.text()) + (await (await fetch(`${door}/health`)).text())
      assert.doesNotMatch(told, /svc_demo|svc\.db|\/tmp/)
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
  test('ends the process with one sentence and no stack', async (t) => {
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
      // As the kernel does with a file system that it finds damaged.
      execFileSync('mount', ['-o', 'remount,abort', disk])
      await post(served.hook(link), { body: 'x' }).catch(() => undefined)
      const { code, stderr } = await served.ended
      assert.equal(code, 1, stderr)
      const plain = stderr.split('\n').filter((line) => line !== '' && !line.startsWith('{'))
      assert.equal(plain.length, 1, stderr)
      assert.match(plain[0] ?? '', /^svc: the disk under .*svc\.db reported an error; nothing was changed$/)
    } finally {
      execFileSync('umount', ['-l', disk])
    }
  })
})

suite('a store that is taken away under the program', () => {
  for (const [how, take] of Object.entries({
    removed: (path: string) => rmSync(path),
    replaced: (path: string) => {
      cpSync(path, `${path}.other`)
      renameSync(`${path}.other`, path)
    },
  }))
    test(`and ${how} gets no acknowledgement any more, and the process ends with a sentence`, async (t) => {
      const demo = await openLinkedInstance(t)
      const link = await demo.mintHook('load')
      const served = await demo.start()
      assert.equal((await post(served.hook(link), { body: 'x' })).statusCode, 204)
      take(join(demo.root, 'store', 'svc.db'))
      const answer = await post(served.hook(link), { body: 'x' }).catch(() => undefined)
      assert.notEqual(answer?.statusCode, 204)
      const { code, stderr } = await served.ended
      assert.equal(code, 1, stderr)
      assert.match(stderr, /^svc: the store at .*svc\.db was removed or replaced/m)
    })
})

suite('a disk that fails', needs('compiler'), () => {
  test('to sync the log ends the process, and nothing is acknowledged that is not kept', async (t) => {
    const [by, shim] = [repeatableRandom(t), buildShim(t)]
    const demo = await openLinkedInstance(t)
    const [hook, chat] = [await demo.mintHook('load'), await demo.mintChat('load')]
    for (let round = 0; round < 4; round++) {
      // At a chat it may be the sync of whoever writes the answers.
      const link = round % 2 === 0 ? hook : chat
      const root = demo.copy()
      const at = by.between(20, 100)
      const disk = watchDisk(t, shim, root, { fail: { ending: '-wal', at } })
      const served = await demo.start({ root, env: disk.env })
      const url = link === hook ? served.hook(link) : served.chat(link)
      const running = load(url, { clients: CLIENTS, padding: () => by.below(500) })
      const { code, stderr } = await served.ended
      await running.ended
      assert.ok(code !== null && code > 0, `it ended with ${code}: ${stderr}`)
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

  test('to sync the file behind the log ends the process, and what was acknowledged is still in the log', async (t) => {
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
    assert.ok(code !== null && code > 0, `it ended with ${code}: ${stderr}`)
    assert.match(stderr, /the disk under .* reported an error/)
    // What the disk has forgotten is still in the memory of the machine, and in the log. That a power cut in this very
    // moment loses nothing either is not promised: of pages that were brought over before, nobody is told.
    const stored = (await demo.inbound(link, root)).map(({ content }) => content)
    const { lost, doubled, foreign, acknowledged } = compare([running], stored)
    assert.deepEqual([lost, doubled, foreign], [[], [], []])
    assert.ok(acknowledged > 0)
  })
})
