// A backup during load contains every message acknowledged before it, and a killed backup or restore leaves no broken file.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { suite, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { StoredRow } from '../../src/store/engine.ts'
import { openEngine, type StoreAddress } from '../../src/store/index.ts'
import { testCli } from '../support/cli.ts'
import { emptyStore, onEveryEngine } from '../support/host.ts'
import { openLinkedInstance } from '../support/linked-instance.ts'
import { compare, isAcknowledged, load, post } from '../support/load.ts'
import { repeatableRandom } from '../support/repeatable-random.ts'
import { run } from '../support/sql.ts'
import { tempDir } from '../support/temp.ts'
import { until } from '../support/until.ts'

const BIN = join(import.meta.dirname, '..', '..', 'bin', 'svc.js')
const WAL_MAX = 64 * 2 ** 20

async function rowsOf(address: StoreAddress, sql: string): Promise<readonly StoredRow[]> {
  const engine = await openEngine(address)
  try {
    return (await engine.read((tx) => run(tx, sql))).rows
  } finally {
    await engine.close()
  }
}

onEveryEngine('a backup under load', (name) => {
  test('contains all messages acknowledged before it, and the restored instance answers waiting messages', async (t) => {
    const demo = await openLinkedInstance(t, name)
    const [hook, chat] = [await demo.mintHook('load'), await demo.mintChat('wait')]
    // Without routd and runed the message stays unanswered.
    const front = await demo.start({ daemons: ['proxyd', 'webd'] })
    const posted = await post(front.chat(chat), {
      body: JSON.stringify({ content: 'are you there?' }),
      headers: JSON_TYPE,
    })
    assert.ok(isAcknowledged(posted.statusCode), String(posted.statusCode))
    const running = load(front.hook(hook), { clients: 8, padding: () => 4000 })
    await until(() => running.sent.length > 300)
    const before = { sent: [...running.sent] }
    let wal = 0
    const watching = setInterval(() => {
      if (name === 'sqlite') wal = Math.max(wal, statSync(join(demo.root, 'store', 'svc.db-wal')).size)
    }, 5)
    const file = join(tempDir(t), 'backup')
    const made = await demo.run('backup', 'demo', file, '--with-keys')
    clearInterval(watching)
    await running.stop()
    await front.kill()
    assert.equal(made.code, 0, made.stderr)
    assert.ok(wal < WAL_MAX, `the log grew to ${wal} bytes`)
    const cli = testCli(t)
    const target = await emptyStore(t, name)
    const isPostgres = 'url' in target
    await cli.ok(['restore', file, 'demo', ...(isPostgres ? ['--database', target.url] : [])])
    const address = isPostgres ? target : { path: join(cli.root, 'store', 'svc.db') }
    const stored = await rowsOf(address, `select content from messages where jid = '${hook.jid}' and direction = 'in'`)
    const contents = stored.map(({ content }) => content as Uint8Array)
    assert.deepEqual(compare([before], contents).lost, [])
    const { foreign, doubled } = compare([running], contents)
    assert.deepEqual([foreign, doubled], [[], []])
    const served = await demo.start({ root: cli.root })
    const answers = `select id from messages where jid = '${chat.jid}' and direction = 'out'`
    await until(async () => (await rowsOf(address, answers)).length > 0)
    const again = await post(served.chat(chat), { body: JSON.stringify({ content: 'again' }), headers: JSON_TYPE })
    assert.ok(isAcknowledged(again.statusCode))
    await served.kill()
  })
})

const JSON_TYPE = { 'content-type': 'application/json' }

suite('a killed process', () => {
  test('leaves no incomplete backup or instance under its final name', async (t) => {
    const by = repeatableRandom(t)
    const demo = await openLinkedInstance(t)
    const [dir, file] = [tempDir(t), join(tempDir(t), 'whole')]
    assert.equal((await demo.run('backup', 'demo', file)).code, 0)
    const runAndKill = async (args: string[], folder: string): Promise<void> => {
      const env = { PATH: process.env.PATH, HOME: process.env.HOME, SVC_DATA_DIR: folder }
      const child = spawn(process.execPath, [BIN, ...args], { env, stdio: 'ignore' })
      const ended = once(child, 'close')
      await Promise.race([pause(by.between(100, 900)), ended])
      child.kill('SIGKILL')
      await ended
    }
    for (let time = 0; time < 5; time++) {
      const [target, data] = [join(dir, `b${time}`), tempDir(t)]
      await runAndKill(['backup', 'demo', target], dirname(demo.root))
      await runAndKill(['restore', file, 'demo'], data)
      const cli = testCli(t)
      if (existsSync(target)) await cli.ok(['restore', target, 'demo'])
      for (const left of readdirSync(data)) assert.match(left, /^(svc_demo|\.svc_demo\.restoring-[0-9a-f]{16})$/)
      if (!existsSync(join(data, 'svc_demo'))) continue
      const groups = await cli.ok('group demo list', { env: { SVC_DATA_DIR: data } })
      assert.match(groups, /main/)
    }
    for (const left of readdirSync(dir)) assert.match(left, /^b\d(\.partial-[0-9a-f]{16})?$/)
    const store = readdirSync(join(demo.root, 'store'))
    for (const left of store)
      assert.match(
        left,
        /^(last-backup|\.tmp-[0-9a-f]{16}|(svc|search)\.db(-wal|-shm|\.backup-[0-9a-f]{16}(-wal|-shm|-journal)?)?)$/,
      )
  })
})
