import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { type Instance, instance } from '../../../test/support/svc.ts'
import { tempDir } from '../../../test/support/temp.ts'

/** An instance whose client writes down what it is given, and ends as it is told. */
async function withClient(t: TestContext, script: string): Promise<Instance & { seen: string }> {
  const folder = tempDir(t)
  const [client, seen] = [join(folder, 'client'), join(folder, 'seen')]
  writeFileSync(client, `#!/bin/sh\n{ pwd; printf '%s\\n' "$@"; cat "$2"; } > '${seen}'\n${script}\n`, { mode: 0o755 })
  return { ...(await instance(t, { AGENT_CLI: client })), seen }
}

/** Somebody who listens where gated does. */
async function listening(t: TestContext, { root }: Instance): Promise<string> {
  const path = join(root, 'ipc', 'main', 'gated.sock')
  mkdirSync(dirname(path), { recursive: true })
  const server = createServer((socket) => socket.on('error', () => undefined))
  await new Promise<void>((resolve) => server.listen(path, resolve))
  t.after(() => server.close())
  return path
}

suite('svc chat', () => {
  test('starts the client on the tools of the root agent, and ends as it ends', async (t) => {
    const demo = await withClient(t, 'echo hello; exit 7')
    const socket = await listening(t, demo)
    const { code, stdout } = await demo.run('chat', 'demo')
    assert.deepEqual([code, stdout], [7, 'hello\n'])
    const [cwd, flag, file = '', strict, ...rest] = readFileSync(demo.seen, 'utf8').split('\n')
    assert.deepEqual([cwd, flag, strict], [join(demo.root, 'groups', 'main'), '--mcp-config', '--strict-mcp-config'])
    const { svc } = JSON.parse(rest.join('\n')).mcpServers
    assert.deepEqual([svc.command, svc.args.slice(1), svc.env], [process.execPath, ['bridge', socket], {}])
    assert.ok(!existsSync(file))
  })

  test('a client that a signal ended shows in the exit code', async (t) => {
    const demo = await withClient(t, 'kill -TERM $$')
    await listening(t, demo)
    assert.equal((await demo.run('chat', 'demo')).code, 143)
  })

  test('without a server, one sentence and how to start it', async (t) => {
    const demo = await withClient(t, '')
    const { code, stderr } = await demo.run('chat', 'demo')
    assert.equal(code, 1)
    assert.match(stderr, /nobody serves the tools of demo: .*gated\.sock does not answer[\s\S]*svc serve demo/)
    assert.ok(!existsSync(demo.seen))
  })

  test('without the client, one sentence and what to do', async (t) => {
    const demo = await instance(t, { AGENT_CLI: 'no-such-client' })
    await listening(t, demo)
    const { code, stderr } = await demo.run('chat', 'demo')
    assert.equal(code, 1)
    assert.match(stderr, /no-such-client could not be started: there is no such program[\s\S]*AGENT_CLI=/)
  })
})
