// A client generated from the OpenAPI documents compiles, rejects wrong types, and works against a served app.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { symlinkSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { after, before, suite, type TestContext, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { serve } from '@hono/node-server'
import openapiTS, { astToString } from 'openapi-typescript'
import { DAEMON_NAMES } from '../src/daemons/settings.ts'
import { openapiText } from '../src/faces/openapi.ts'
import { resourcesServedBy } from '../src/faces/operations.ts'
import { resources } from '../src/resources/index.ts'
import { testHost } from './support/host.ts'
import { restApp } from './support/rest.ts'
import { tempDir } from './support/temp.ts'

const ROOT = dirname(import.meta.dirname)
const TIMEOUT_MS = 15 * 60_000

const TSCONFIG = {
  compilerOptions: {
    target: 'es2024',
    module: 'nodenext',
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    allowImportingTsExtensions: true,
    types: ['node'],
  },
  include: ['*.ts'],
}

/** Example client code over the generated types; the lines marked as errors must be errors. */
const CLIENT = `
import createClient from 'openapi-fetch'
import type { paths } from './routd.ts'
import type { paths as OnbodPaths } from './onbod.ts'

const open = (baseUrl: string, bearer: string) =>
  createClient<paths>({ baseUrl, headers: { Authorization: \`Bearer \${bearer}\` } })

export async function links(baseUrl: string, bearer: string) {
  const { GET, POST, DELETE } = open(baseUrl, bearer)
  const chat = await POST('/v1/route_tokens/chat', {})
  const hook = await POST('/v1/route_tokens/hook', { body: { source_label: 'ci', jid_suffix: 'main', context: 'a build' } })
  const texts: string[] = [hook.data?.token ?? '', hook.data?.url ?? '', chat.data?.jid ?? '']
  const list = await GET('/v1/route_tokens', { params: { query: { limit: 10 } } })
  const contexts: (string | undefined)[] = (list.data?.tokens ?? []).map(({ context }) => context)
  const revoked = await DELETE('/v1/route_tokens/{jid}', { params: { path: { jid: hook.data?.jid ?? '' } } })
  const deleted: number | undefined = revoked.data?.deleted
  const again = await DELETE('/v1/route_tokens/{jid}', { params: { path: { jid: hook.data?.jid ?? '' } } })
  const code: string | undefined = again.error?.code
  return { texts, contexts, deleted, code, statuses: [chat, hook, list, revoked, again].map(({ response }) => response.status) }
}

export async function routes(baseUrl: string, bearer: string) {
  const { GET, POST, PATCH, DELETE } = open(baseUrl, bearer)
  const made = await POST('/v1/routes', { body: { match: 'room=1', target: 'team' } })
  const id: number = made.data?.id ?? 0
  const changed = await PATCH('/v1/routes/{id}', { params: { path: { id } }, body: { seq: 5 } })
  const list = await GET('/v1/routes')
  const gone = await DELETE('/v1/routes/{id}', { params: { path: { id } } })
  const left = await GET('/v1/routes')
  return { made: made.data, changed: changed.data, list: list.data, gone: gone.data, left: left.data }
}

export function never() {
  const { GET, POST, PATCH, DELETE } = open('', '')
  const onbod = createClient<OnbodPaths>()
  return [
    // @ts-expect-error: a label is required
    () => POST('/v1/route_tokens/hook', { body: { jid_suffix: 'a' } }),
    // @ts-expect-error: a label is text
    () => POST('/v1/route_tokens/hook', { body: { source_label: 1 } }),
    // @ts-expect-error: a suffix is text
    () => POST('/v1/route_tokens/chat', { body: { jid_suffix: ['a'] } }),
    // @ts-expect-error: there is no such path
    () => GET('/v1/network_rules'),
    // @ts-expect-error: this path has no such method
    () => PATCH('/v1/groups', {}),
    // @ts-expect-error: an id is a number
    () => DELETE('/v1/routes/{id}', { params: { path: { id: 'one' } } }),
    // @ts-expect-error: callers cannot set this state
    () => PATCH('/v1/tasks/{id}', { params: { path: { id: 'a' } }, body: { status: 'firing' } }),
    // @ts-expect-error: there is no such action
    () => onbod.PATCH('/v1/onboarding/{jid}', { params: { path: { jid: 'a:b' } }, body: { action: 'greet' } }),
  ]
}
`

interface Client {
  links(baseUrl: string, bearer: string): Promise<Record<string, unknown>>
  routes(baseUrl: string, bearer: string): Promise<Record<string, unknown>>
}

suite('a generated client', { timeout: TIMEOUT_MS }, () => {
  const folder = tempDir({ after })

  before(async () => {
    symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
    writeFileSync(join(folder, 'package.json'), '{"type": "module"}')
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(TSCONFIG))
    for (const daemon of DAEMON_NAMES) {
      const document: Parameters<typeof openapiTS>[0] = openapiText(daemon, resourcesServedBy(daemon, resources))
      writeFileSync(join(folder, `${daemon}.ts`), astToString(await openapiTS(document)))
    }
    writeFileSync(join(folder, 'client.ts'), CLIENT)
  })

  async function serveRoutd(t: TestContext): Promise<string> {
    const { host, groups, operator } = await testHost(t)
    await groups('main', 'team')
    await operator('github:op')
    const server = serve({
      fetch: restApp(host, resourcesServedBy('routd', resources)).fetch,
      port: 0,
      hostname: '127.0.0.1',
    })
    t.after(() => server.close())
    await once(server, 'listening')
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  }

  const load = (): Promise<Client> => import(pathToFileURL(join(folder, 'client.ts')).href)

  test('compiles for every daemon and rejects wrong types', () => {
    const tsc = join(ROOT, 'node_modules/typescript/bin/tsc')
    const { status, stdout } = spawnSync(process.execPath, [tsc, '-p', folder], { encoding: 'utf8' })
    assert.equal(status, 0, stdout)
  })

  test('mints, lists and revokes links', async (t) => {
    const client = await load()
    const { texts, contexts, deleted, code, statuses } = await client.links(await serveRoutd(t), 'github:op@team')
    assert.deepEqual(statuses, [201, 201, 200, 200, 404])
    const [token, url, jid] = texts as string[]
    assert.match(token ?? '', /^[A-Za-z0-9_-]{43}$/)
    assert.deepEqual([url, jid], [`http://localhost:8080/hook/${token}`, 'web:team'])
    assert.deepEqual((contexts as unknown[]).toSorted(), ['a build', undefined])
    assert.deepEqual([deleted, code], [1, 'not_found'])
  })

  test('creates, changes, lists and deletes a route', async (t) => {
    const client = await load()
    const { made, changed, list, gone, left } = await client.routes(await serveRoutd(t), 'github:op')
    const route = { id: 1, seq: 0, match: 'room=1', target: 'team' }
    assert.deepEqual(made, route)
    assert.deepEqual(changed, { ...route, seq: 5 })
    assert.deepEqual(list, { routes: [{ ...route, seq: 5 }] })
    assert.deepEqual(gone, { deleted: true, id: 1 })
    assert.deepEqual(left, { routes: [] })
  })
})
