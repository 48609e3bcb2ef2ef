import assert from 'node:assert/strict'
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { suite, test } from 'node:test'
import { type Cli, demoCli } from '../../../test/support/cli.ts'
import { needs } from '../../../test/support/needs.ts'

interface Finding {
  readonly check: string
  readonly status: string
  readonly detail: string
}

const runDoctor = async (cli: Cli, flags: string, env: Record<string, string> = {}) => {
  const { code, stdout, stderr } = await cli.run(`doctor demo ${flags} --json`.replaceAll('  ', ' '), { env })
  return { code, stderr, findings: JSON.parse(stdout) as Finding[] }
}
const modeOf = (path: string): number => statSync(path).mode & 0o777

/** Makes a file look as if it was written long ago. */
function age(path: string, hours: number): void {
  const at = Date.now() / 1000 - hours * 3600
  utimesSync(path, at, at)
}

suite('svc doctor --fix', () => {
  test('corrects modes and missing directories, and reports each', async (t) => {
    const cli = await demoCli(t)
    const [env, groups, logs] = ['.env', 'groups', 'logs'].map((name) => join(cli.root, name))
    assert.ok(env && groups && logs)
    chmodSync(env, 0o644)
    chmodSync(groups, 0o755)
    rmSync(logs, { recursive: true })
    const before = await runDoctor(cli, '')
    assert.deepEqual(
      before.findings.filter(({ status }) => status === 'wrong').map(({ check }) => check),
      ['.env', 'directories', 'privacy'],
    )
    assert.deepEqual([before.code, modeOf(env), modeOf(groups), existsSync(logs)], [1, 0o644, 0o755, false])

    const { code, findings } = await runDoctor(cli, '--fix')
    assert.equal(code, 0)
    assert.deepEqual(
      findings.filter(({ detail }) => detail.startsWith('fixed: ')).map(({ detail }) => detail),
      [`set the mode of ${env} to 600`, `create ${logs}`, `let only the owner enter ${groups}`].map(
        (detail) => `fixed: ${detail}`,
      ),
    )
    assert.deepEqual([modeOf(env), modeOf(groups) & 0o007, modeOf(logs)], [0o600, 0, 0o700])
    assert.deepEqual(
      (await runDoctor(cli, '--fix')).findings.filter(({ detail }) => /fixed/.test(detail)),
      [],
    )
  })

  test('removes what crashed processes left, but only after a confirmation', async (t) => {
    const cli = await demoCli(t)
    const old = join(cli.root, '.tmp-0123456789abcdef')
    const backup = join(cli.root, 'store', '.tmp-0123456789abcdef')
    const fresh = join(cli.root, '.tmp-fedcba9876543210')
    const other = join(cli.root, '.tmp-mine')
    const restoring = join(dirname(cli.root), '.svc_demo.restoring-0123456789abcdef')
    for (const path of [old, backup, fresh, other]) writeFileSync(path, '')
    mkdirSync(restoring)
    age(old, 2)
    age(backup, 2)
    age(other, 2)
    age(restoring, 8 * 24)
    const socket = join(cli.root, 'ipc', '.s0123456789a')
    mkdirSync(dirname(socket), { recursive: true })
    writeFileSync(socket, '')
    const all = [old, backup, restoring, socket]

    const { code, stderr, findings } = await runDoctor(cli, '--fix')
    assert.deepEqual([code, findings.find(({ check }) => check === 'files')?.status], [0, 'note'])
    assert.match(stderr, /^not done without --yes: remove /m)
    const refused = await cli.run('doctor demo --fix', { typed: ['n'] })
    assert.ok(refused.stderr.includes(`remove ${all.join(' and ')}? [y/N]`), refused.stderr)
    assert.deepEqual(all.map(existsSync), [true, true, true, true])

    assert.match((await cli.run('doctor demo --fix', { typed: ['y'] })).stdout, /✓ files: fixed: remove /)
    assert.deepEqual(all.map(existsSync), [false, false, false, false])
    assert.deepEqual([existsSync(fresh), existsSync(other)], [true, true])
  })

  test('keeps the socket of a process that runs', async (t) => {
    const cli = await demoCli(t)
    const socket = join(cli.root, 'ipc', '.s0123456789a')
    mkdirSync(dirname(socket), { recursive: true })
    const server = createServer((connection) => connection.end('{"pid":1,"urls":{}}')).listen(socket)
    t.after(() => server.close())
    const { findings } = await runDoctor(cli, '--fix --yes')
    assert.equal(findings.find(({ check }) => check === 'files')?.detail, 'nothing was left by crashed processes')
    assert.ok(existsSync(socket))
  })

  test('refuses flags that do not go together', async (t) => {
    const cli = await demoCli(t)
    assert.match((await cli.run('doctor demo --yes')).stderr, /--yes confirms what --fix removes\nhint: add --fix/)
    assert.match((await cli.run('doctor demo --sandbox --fix')).stderr, /--sandbox does not go with --fix/)
  })
})

test('svc doctor --sandbox starts only the sandbox', needs('bubblewrap'), async (t) => {
  const cli = await demoCli(t)
  const { code, findings } = await runDoctor(cli, '--sandbox')
  assert.deepEqual([code, findings.map(({ check, status }) => [check, status])], [0, [['agents', 'ok']]])
  const failed = await runDoctor(cli, '--sandbox', { AGENT_UID: '0' })
  assert.deepEqual([failed.code, failed.findings[0]?.status], [1, 'wrong'])
})

test('svc doctor reports a compose file that is outdated or was edited', async (t) => {
  const cli = await demoCli(t)
  const compose = async () => (await runDoctor(cli, '')).findings.find(({ check }) => check === 'compose')
  assert.equal(await compose(), undefined)
  await cli.ok('generate demo')
  const file = join(cli.root, 'docker-compose.yml')
  assert.equal((await compose())?.detail, `${file} is up to date`)
  writeFileSync(join(cli.root, '.env'), 'ASSISTANT_NAME=Other\n', { flag: 'a' })
  assert.match((await compose())?.detail ?? '', /is not what this version and these settings give$/)
  writeFileSync(file, `${readFileSync(file, 'utf8')}# mine\n`)
  assert.match((await compose())?.detail ?? '', /was edited by hand, and svc generate does not overwrite it$/)
})
