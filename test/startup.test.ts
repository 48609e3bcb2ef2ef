// What is loaded before a command answers and before `svc serve` is ready: modules are most of the time that a start takes.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { instance } from './support/svc.ts'
import { tempDir } from './support/temp.ts'

/** Of `svc group list`. */
const OWN_MODULES_MAX = 128

const ROOT = dirname(import.meta.dirname)
const RECORD = pathToFileURL(join(import.meta.dirname, 'support/module-record.ts')).href

async function recorded(t: TestContext) {
  const file = join(tempDir(t), 'modules')
  const svc = await instance(t, { NODE_OPTIONS: `--import ${RECORD}`, SVC_TEST_MODULES: file })
  /** What was loaded since it was asked the last time, from the root of the checkout. */
  const loaded = (): string[] => {
    const urls = readFileSync(file, 'utf8').split('\n')
    writeFileSync(file, '')
    const files = urls.filter((url) => url.startsWith('file:') && url !== RECORD)
    return [...new Set(files.map((url) => relative(ROOT, fileURLToPath(url))))]
  }
  return { svc, loaded }
}

function packagesIn(modules: readonly string[]): string[] {
  const names = modules.flatMap((path) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? [])
  return [...new Set(names)].sort()
}

const below = (modules: readonly string[], folder: string): string[] =>
  modules.filter((path) => path.startsWith(folder))

test('svc group list of a current store loads one part of the tables and no package but zod and croner', async (t) => {
  const { svc, loaded } = await recorded(t)
  loaded()
  assert.deepEqual(await svc.run('group', 'demo', 'list'), { code: 0, stdout: 'main\tmain\n', stderr: '' })
  const modules = loaded()
  assert.deepEqual(packagesIn(modules), ['croner', 'zod'])
  assert.deepEqual(below(modules, 'src/resources').sort(), [
    'src/resources/acl-membership.ts',
    'src/resources/acl.ts',
    'src/resources/groups.ts',
  ])
  const own = below(modules, 'src')
  assert.ok(own.length <= OWN_MODULES_MAX, `${own.length} modules of src, which is more than ${OWN_MODULES_MAX}`)
})

test('svc serve is ready without the agent protocol and the egress proxy', async (t) => {
  const { svc, loaded } = await recorded(t)
  loaded()
  const served = await svc.serve()
  const modules = loaded()
  assert.deepEqual(packagesIn(modules), [
    '@hono/node-server',
    '@pinojs/redact',
    'atomic-sleep',
    'croner',
    'hono',
    // For the signing key, which the first start makes.
    'jose',
    'on-exit-leak-free',
    'pino',
    'pino-std-serializers',
    'quick-format-unescaped',
    'safe-stable-stringify',
    'sonic-boom',
    'thread-stream',
    'zod',
  ])
  assert.deepEqual(below(modules, 'src/egress').sort(), [
    'src/egress/address/host.ts',
    'src/egress/address/ip-address.ts',
    'src/egress/policy/allowlist-entry.ts',
  ])
  await served.stop()
})
