import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { type Instance, instance } from '../../../test/support/svc.ts'
import { tempDir } from '../../../test/support/temp.ts'

/** An instance whose agent client records its arguments, then runs `script`. */
async function createWithClient(t: TestContext, script: string): Promise<Instance & { seen: string }> {
  const folder = tempDir(t)
  const [client, seen] = [join(folder, 'client'), join(folder, 'seen')]
  writeFileSync(client, `#!/bin/sh\n{ pwd; printf '%s\\n' "$@"; cat "$2"; } > '${seen}'\n${script}\n`, { mode: 0o755 })
  return { ...(await instance(t, { AGENT_CLI: client })), seen }
}

/** Listens on the socket of gated. */
async function listenAsGated(t: TestContext, { root }: Instance): Promise<string> {
  const path = join(root, 'ipc', 'main', 'gated.sock')
  mkdirSync(dirname(path), { recursive: true })
  const server = createServer((socket) => socket.on('error', () => undefined))
  await new Promise<void>((resolve) => server.listen(path, resolve))
  t.after(() => server.close())
  return path
}

suite('svc chat', () => {
  test('starts the client with the tools of the root agent and returns its exit code', async (t) => {
    const demo = await createWithClient(t, 'echo hello; exit 7')
    const socket = await listenAsGated(t, demo)
    const { code, stdout } = await demo.run('chat', 'demo')
    assert.deepEqual([code, stdout], [7, 'hello\n'])
    const [cwd, flag, file = '', strict, ...rest] = readFileSync(demo.seen, 'utf8').split('\n')
    assert.deepEqual([cwd, flag, strict], [join(demo.root, 'groups', 'main'), '--mcp-config', '--strict-mcp-config'])
    const { svc } = JSON.parse(rest.join('\n')).mcpServers
    assert.deepEqual([svc.command, svc.args.slice(1), svc.env], [process.execPath, ['bridge', socket], {}])
    assert.ok(!existsSync(file))
  })

  test('reports in the exit code that a signal ended the client', async (t) => {
    const demo = await createWithClient(t, 'kill -TERM $$')
    await listenAsGated(t, demo)
    assert.equal((await demo.run('chat', 'demo')).code, 143)
  })

  test('reports a missing server and the command that starts it', async (t) => {
    const demo = await createWithClient(t, '')
    const { code, stderr } = await demo.run('chat', 'demo')
    assert.equal(code, 1)
    assert.match(stderr, /demo is not being served: no server listens at .*gated\.sock[\s\S]*svc serve demo/)
    assert.ok(!existsSync(demo.seen))
  })

  test('reports a missing client and what to do', async (t) => {
    const demo = await instance(t, { AGENT_CLI: 'no-such-client' })
    await listenAsGated(t, demo)
    const { code, stderr } = await demo.run('chat', 'demo')
    assert.equal(code, 1)
    assert.match(stderr, /cannot start the agent client no-such-client: program not found[\s\S]*AGENT_CLI=/)
  })
})
