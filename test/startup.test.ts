// Modules that a command and `svc serve` load at startup: loading modules takes most of the startup time.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { instance } from './support/svc.ts'
import { tempDir } from './support/temp.ts'

/** Modules of src loaded by `svc group list`. */
const OWN_MODULES_MAX = 145

const ROOT = dirname(import.meta.dirname)
const RECORD = pathToFileURL(join(import.meta.dirname, 'support/module-record.ts')).href

async function recordModules(t: TestContext) {
  const file = join(tempDir(t), 'modules')
  const svc = await instance(t, { NODE_OPTIONS: `--import ${RECORD}`, SVC_TEST_MODULES: file })
  /** The modules loaded since the last call, relative to the root of the checkout. */
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

test('svc group list on a current store loads only its own tables and the packages zod and croner', async (t) => {
  const { svc, loaded } = await recordModules(t)
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
  assert.ok(own.length <= OWN_MODULES_MAX, `${own.length} modules of src are more than ${OWN_MODULES_MAX}`)
})

test('svc serve becomes ready without loading the agent protocol and the egress proxy', async (t) => {
  const { svc, loaded } = await recordModules(t)
  loaded()
  const served = await svc.serve()
  const modules = loaded()
  assert.deepEqual(packagesIn(modules), [
    '@hono/node-server',
    '@pinojs/redact',
    'atomic-sleep',
    'croner',
    'hono',
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
    'src/egress/address/address-class.ts',
    'src/egress/address/ip-address.ts',
  ])
  await served.stop()
})
