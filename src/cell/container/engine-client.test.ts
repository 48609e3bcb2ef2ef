import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { createServer as createSocketServer } from 'node:net'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { isRefusal } from '../../../test/support/host.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { EngineClient } from './engine-client.ts'

const VERSION = { ApiVersion: '1.41', MinAPIVersion: '1.12' }

/** Responses by method and path without its version. */
async function fakeEngine(
  t: TestContext,
  responses: Readonly<Record<string, readonly [number, unknown]>>,
): Promise<{ socket: string; calls: string[] }> {
  const socket = join(tempDir(t), 'engine.sock')
  const calls: string[] = []
  const all: typeof responses = { 'GET /version': [200, VERSION], 'GET /info': [200, {}], ...responses }
  const server = createServer((request, response) => {
    calls.push(`${request.method} ${request.url}`)
    const [path = ''] = (request.url ?? '').replace(/^\/v[\d.]+/, '').split('?')
    const [status, body] = all[`${request.method} ${path}`] ?? [404, { message: 'page not found' }]
    response.writeHead(status).end(typeof body === 'string' ? body : JSON.stringify(body))
  })
  t.after(() => {
    server.close()
    server.closeAllConnections()
  })
  server.listen(socket)
  await once(server, 'listening')
  return { socket, calls }
}

async function open(t: TestContext, socket: string): Promise<EngineClient> {
  const engine = await EngineClient.open(socket)
  t.after(() => engine.close())
  return engine
}

suite('the client of a container engine', () => {
  test('uses the newest common version of the API', async (t) => {
    for (const [version, prefix] of [
      [{ ApiVersion: '1.41', MinAPIVersion: '1.12' }, '/v1.41/'],
      [{ ApiVersion: '1.44' }, '/v1.44/'],
      [{ ApiVersion: '1.52', MinAPIVersion: '1.44' }, '/v1.44/'],
      [{ ApiVersion: '1.60', MinAPIVersion: '1.50' }, '/v1.50/'],
    ] as const) {
      const { socket, calls } = await fakeEngine(t, { 'GET /version': [200, version] })
      await open(t, socket)
      assert.ok(calls[1]?.startsWith(`GET ${prefix}`), calls.join())
    }
    const { socket } = await fakeEngine(t, { 'GET /version': [200, { ApiVersion: '1.40' }] })
    await assert.rejects(EngineClient.open(socket), isRefusal('unavailable', 'too old (API 1.40)'))
  })

  test('recognizes podman, rootless engines and mapped users', async (t) => {
    const podman = await fakeEngine(t, {
      'GET /version': [200, { ...VERSION, Components: [{ Name: 'Podman Engine' }] }],
      'GET /info': [200, { SecurityOptions: ['name=seccomp', 'name=rootless'] }],
    })
    const { kind, isRootless, mapsUsers } = await open(t, podman.socket)
    assert.deepEqual({ kind, isRootless, mapsUsers }, { kind: 'podman', isRootless: true, mapsUsers: false })
    const docker = await fakeEngine(t, { 'GET /info': [200, { SecurityOptions: ['name=userns'] }] })
    assert.equal((await open(t, docker.socket)).mapsUsers, true)
  })

  test('names a missing socket and one where nothing answers', async (t) => {
    const folder = tempDir(t)
    await assert.rejects(EngineClient.open(join(folder, 'none')), isRefusal('unavailable', 'no container engine at'))
    const silent = join(folder, 'silent')
    const server = createSocketServer((socket) => socket.destroy())
    server.listen(silent)
    await once(server, 'listening')
    t.after(() => void server.close())
    await assert.rejects(EngineClient.open(silent), isRefusal('unavailable', 'does not answer ('))
  })

  test('refuses answers that are not of an engine', async (t) => {
    for (const body of ['', 'hello', '[]', { ApiVersion: 1 }, { ApiVersion: 'new' }]) {
      const { socket } = await fakeEngine(t, { 'GET /version': [200, body] })
      await assert.rejects(EngineClient.open(socket), (error) => {
        assert.ok(isRefusal('unavailable', 'container engine')(error))
        return true
      })
    }
  })

  test('passes on the reason of a failed call', async (t) => {
    const { socket } = await fakeEngine(t, {
      'POST /containers/create': [400, { message: 'invalid mount config' }],
      'POST /containers/a/start': [500, 'not JSON'],
      'DELETE /containers/a': [500, { message: 'busy' }],
    })
    const engine = await open(t, socket)
    await assert.rejects(
      engine.create('a', {}),
      isRefusal('unavailable', 'cannot create a container: invalid mount config'),
    )
    await assert.rejects(engine.start('a'), isRefusal('unavailable', 'cannot start a container: status 500'))
    await assert.rejects(engine.remove('a'), isRefusal('unavailable', 'cannot remove a container: busy'))
  })

  test('finds images, lists by label, and does not mind a container that is gone', async (t) => {
    const { socket, calls } = await fakeEngine(t, {
      'GET /images/a%2Fb%3A1/json': [200, { Config: { Env: ['LANG=C', 'PATH=/bin:/opt'] } }],
      'GET /containers/json': [
        200,
        [
          { Id: 'x', Labels: { a: 'b' } },
          { Id: 'y', Labels: null },
        ],
      ],
    })
    const engine = await open(t, socket)
    assert.deepEqual(await engine.imagePath('a/b:1'), { path: '/bin:/opt' })
    assert.equal(await engine.imagePath('missing'), undefined)
    assert.deepEqual(await engine.list('a=b'), [
      { id: 'x', labels: { a: 'b' } },
      { id: 'y', labels: {} },
    ])
    assert.match(calls.at(-1) ?? '', /all=true&filters=%7B%22label%22%3A%5B%22a%3Db%22%5D%7D$/)
    await engine.remove('gone')
  })

  test('waits for the end of a removal that is already in progress', async (t) => {
    const inProgress = [409, { message: 'removal in progress' }] as const
    const { socket, calls } = await fakeEngine(t, {
      'DELETE /containers/ending': inProgress,
      'POST /containers/ending/wait': [200, { StatusCode: 0 }],
      'DELETE /containers/gone': inProgress,
      'DELETE /containers/stuck': inProgress,
      'POST /containers/stuck/wait': [500, { message: 'device busy' }],
    })
    const engine = await open(t, socket)
    await engine.remove('ending')
    assert.equal(calls.at(-1), 'POST /v1.41/containers/ending/wait?condition=removed')
    await engine.remove('gone')
    await assert.rejects(engine.remove('stuck'), isRefusal('unavailable', 'cannot remove a container: device busy'))
  })
})
