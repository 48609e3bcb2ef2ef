import assert from 'node:assert/strict'
import { closeSync, openSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { type Cli, demoCli } from '../../../test/support/cli.ts'
import { instance } from '../../../test/support/svc.ts'
import { tempDir } from '../../../test/support/temp.ts'

const WEBD = '{"level":"info","time":"2026-01-02T03:04:05.006Z","daemon":"webd","msg":"b"}'
/** Two containers; each writes to both streams, with the times of the engine. */
const DOCKER = `#!/bin/sh
case "$1" in
ps) echo c1; echo c2 ;;
inspect) echo 'c1 webd'; echo 'c2 runed' ;;
logs)
  echo "$@" >> "$0.calls"
  case "$*" in
  *c1) echo '2026-01-02T03:04:05.000000002Z ${WEBD}' >&2 ;;
  *c2) echo '2026-01-02T03:04:05.000000001Z a'; echo '2026-01-02T03:04:05.000000003Z c' >&2 ;;
  esac
  case "$*" in *--follow*) exec sleep 600 ;; esac ;;
esac
`

/** A line of another program than svc. */
const entry = (msg: string, nanosecond: number): string =>
  JSON.stringify({ time: `2026-01-02T03:04:05.00000000${nanosecond}Z`, daemon: 'runed', msg })

/** An instance with a compose file, and a `docker` that answers for its containers. */
async function composeCli(t: TestContext, script = DOCKER): Promise<Cli> {
  const cli = await demoCli(t)
  writeFileSync(join(cli.root, 'docker-compose.yml'), '')
  const folder = tempDir(t)
  writeFileSync(join(folder, 'docker'), script, { mode: 0o755 })
  const { PATH } = process.env
  process.env.PATH = `${folder}:${PATH}`
  t.after(() => {
    process.env.PATH = PATH
  })
  return cli
}

test('prints the lines of all containers in the order of their times', async (t) => {
  const cli = await composeCli(t)
  const local = new Date('2026-01-02T03:04:05.006Z').toTimeString().slice(0, 8)
  const lines = [
    `[${local}.000] LOG: a {"daemon":"runed"}`,
    `[${local}.006] INFO: b {"daemon":"webd"}`,
    `[${local}.000] LOG: c {"daemon":"runed"}`,
  ]
  assert.equal(await cli.ok('logs demo'), `${lines.join('\n')}\n`)
  assert.equal(await cli.ok('logs demo --json'), `${entry('a', 1)}\n${WEBD}\n${entry('c', 3)}\n`)
  assert.equal(await cli.ok('logs demo --json --limit 1'), `${entry('c', 3)}\n`)
})

test('prints only the lines of one daemon', async (t) => {
  const cli = await composeCli(t)
  assert.equal(await cli.ok('logs demo webd --json'), `${WEBD}\n`)
  const { code, stderr } = await cli.run('logs demo web')
  assert.deepEqual([code, stderr], [1, 'svc: unknown daemon "web"\nhint: known: runed, webd\n'])
})

test('follows until Ctrl-C', async (t) => {
  const cli = await composeCli(t)
  const { promise: stopped, resolve: stop } = Promise.withResolvers<void>()
  let lines = ''
  const heard = (text: string): void => {
    lines += text
    if (lines.split('\n').length === 4) stop()
  }
  assert.equal((await cli.run('logs demo --follow --json', { stopped, heard })).code, 0)
  assert.deepEqual(lines.split('\n').toSorted(), ['', entry('a', 1), entry('c', 3), WEBD].toSorted())
})

test('refuses a time that it cannot read', async (t) => {
  const cli = await demoCli(t)
  for (const since of ['yesterday', '1', '2026-13-45', '-1h'])
    assert.match(
      (await cli.run(['logs', 'demo', `--since=${since}`])).stderr,
      /--since must be a duration such as 2h or/,
    )
})

test('says where the log is if there are no containers and no unit', async (t) => {
  const nowhere = await (await demoCli(t)).run('logs demo')
  assert.equal(nowhere.code, 1)
  assert.match(
    nowhere.stderr,
    /demo has no containers and no systemd unit, so there is no log\nhint: svc generate demo --systemd/,
  )

  const demo = await instance(t)
  const file = join(demo.root, 'svc.log')
  const descriptor = openSync(file, 'a')
  const served = await demo.serve(['timed'], {}, descriptor)
  closeSync(descriptor)
  const { code, stderr } = await demo.run('logs', 'demo')
  assert.equal(code, 1)
  assert.ok(stderr.includes(`process ${served.child.pid} serves demo and writes its log to ${file}\n`), stderr)
  assert.ok(stderr.includes(`tail -f ${file}`))
})
