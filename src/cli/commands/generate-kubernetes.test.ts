import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { testCli } from '../../../test/support/cli.ts'

const DATABASE = 'postgres://svc:password@db.example.com/svc'

/** An instance of which only these lines of .env exist: its database is in the cluster. */
function instance(t: TestContext, env: string) {
  const cli = testCli(t)
  mkdirSync(cli.root)
  const path = join(cli.root, '.env')
  writeFileSync(path, env, { mode: 0o600 })
  return { cli, path, env: () => readFileSync(path, 'utf8'), file: (name: string) => join(cli.root, name) }
}

suite('svc generate --kubernetes', () => {
  test('writes both files, adds missing keys to .env, and prints the commands of kubectl', async (t) => {
    const lines = `# mine\nDATABASE_URL=${DATABASE}\nWEB_HOST=chat.example.com\nSVC_IMAGE=example.com/svc:1\n`
    const { cli, env, path, file } = instance(t, lines)
    const { code, stdout, stderr } = await cli.run('generate demo --kubernetes')
    assert.deepEqual([code, stderr], [0, ''])
    assert.equal(
      stdout,
      `${file('kubernetes.yml')}: no secrets, mode 0644\n${file('kubernetes-secrets.yml')}: secrets, mode 0600\n\nnext:\n` +
        '  kubectl create namespace svc-demo\n' +
        `  kubectl apply --server-side -n svc-demo -f ${file('kubernetes-secrets.yml')} -f ${file('kubernetes.yml')}\n` +
        '  kubectl -n svc-demo rollout status statefulset/svc-demo-files\n',
    )
    assert.match(env(), /^# mine\nDATABASE_URL=.*\n(.*\n)*CHANNEL_SECRET=[0-9a-f]{64}\nSECRETS_KEY=[0-9a-f]{64}\n$/)
    assert.equal(statSync(path).mode & 0o777, 0o600)
    const written = env()
    assert.match(await cli.ok('generate demo --kubernetes'), /kubernetes\.yml: unchanged\n/)
    assert.equal(env(), written)
  })

  test('takes missing keys from the environment', async (t) => {
    const { cli, env } = instance(t, `DATABASE_URL=${DATABASE}\n`)
    await cli.ok('generate demo --kubernetes', { env: { SECRETS_KEY: 'k'.repeat(64) } })
    assert.match(env(), /^SECRETS_KEY=k{64}$/m)
  })

  test('changes nothing if it refuses', async (t) => {
    const { cli, env, file } = instance(t, 'WEB_HOST=chat.example.com\n')
    const { code, stdout, stderr } = await cli.run('generate demo --kubernetes')
    assert.deepEqual([code, stdout], [1, ''])
    assert.match(
      stderr,
      /^svc: Kubernetes needs a PostgreSQL database, but \S+ has no DATABASE_URL\nhint: set DATABASE_URL /,
    )
    assert.equal(env(), 'WEB_HOST=chat.example.com\n')
    assert.equal(existsSync(file('kubernetes-secrets.yml')), false)
    const both = await cli.run('generate demo --kubernetes --postgres')
    assert.match(both.stderr, /^svc: --postgres is a service of the compose file/)
  })

  test('never prints a setting', async (t) => {
    const { cli } = instance(t, `DATABASE_URL=postgres://svc:hunter2hunter2@localhost/svc\n`)
    const { stdout, stderr } = await cli.run('generate demo --kubernetes')
    assert.doesNotMatch(stdout + stderr, /hunter2/)
  })
})
