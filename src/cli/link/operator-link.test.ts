import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { type Cli, demoCli, demoCliOn } from '../../../test/support/cli.ts'
import { isRefusal, onEveryEngine } from '../../../test/support/host.ts'
import { tokenHashFromUrl } from '../../core/links/link-token.ts'
import { openKeyring } from '../../core/secrets/keyring.ts'
import { sourceOf } from '../../lib/settings.ts'
import { findInstance } from '../instance/instance.ts'
import { findOperatorLink } from './operator-link.ts'

async function findDemo({ root }: Cli) {
  return findInstance('demo', sourceOf('the test', new Map([['SVC_DATA_DIR', dirname(root)]])))
}

async function readProvenHash(cli: Cli, folder: string): Promise<string> {
  const configured = await findDemo(cli)
  const { proof: link } = await findOperatorLink(configured, folder)
  assert.match(link, /^~[\w-]{43}\.[\w-]{43}$/)
  return Buffer.from(tokenHashFromUrl(link, openKeyring(configured.settings.SECRETS_KEY)) ?? '').toString('hex')
}

async function mint(cli: Cli, words: string): Promise<string> {
  const token = /^token: (.*)$/m.exec(await cli.ok(`token demo issue ${words}`))?.[1] ?? ''
  return createHash('sha256').update(token).digest('hex')
}

onEveryEngine('the link that svc send uses', (engine) => {
  test("is the newest link of the folder's own chat, proven without the token", async (t) => {
    const cli = await demoCliOn(t, engine)
    await cli.ok('group demo add slack:1 team')
    await mint(cli, 'chat main')
    const newest = await mint(cli, 'chat main')
    for (const other of ['chat main site', 'webhook main ci', 'chat team']) await mint(cli, other)
    assert.equal(await readProvenHash(cli, 'main'), newest)
  })

  test('is reported as missing, with the command that mints one', async (t) => {
    const cli = await demoCliOn(t, engine)
    await mint(cli, 'chat main site')
    const configured = await findDemo(cli)
    await assert.rejects(findOperatorLink(configured, 'main'), (error) => {
      assert.equal(Object(error).hint, 'svc token demo issue chat main mints one')
      return isRefusal('not_found', 'main has no chat link of its own (web:main)')(error)
    })
    await assert.rejects(findOperatorLink(configured, 'nobody'), isRefusal('not_found', 'there is no group nobody'))
    await assert.rejects(findOperatorLink(configured, '../etc'), isRefusal('invalid', 'the folder must be names'))
  })
})

test('finds the link while another process writes, and writes nothing', async (t) => {
  const cli = await demoCli(t)
  const hash = await mint(cli, 'chat main')
  const file = join(cli.root, 'store/svc.db')
  const writer = new DatabaseSync(file)
  t.after(() => writer.close())
  writer.exec('begin immediate')
  const before = [readFileSync(file), readFileSync(`${file}-wal`)]
  assert.equal(await readProvenHash(cli, 'main'), hash)
  assert.deepEqual([readFileSync(file), readFileSync(`${file}-wal`)], before)
})

test('uses a link of a version that did not store targets', async (t) => {
  const cli = await demoCli(t)
  const hash = await mint(cli, 'chat main')
  const store = new DatabaseSync(join(cli.root, 'store/svc.db'))
  store.exec('update route_tokens set target_folder = null')
  store.close()
  assert.equal(await readProvenHash(cli, 'main'), hash)
})

test('reports that SECRETS_KEY is missing', async (t) => {
  const cli = await demoCli(t)
  await mint(cli, 'chat main')
  const env = join(cli.root, '.env')
  writeFileSync(env, readFileSync(env, 'utf8').replace(/^SECRETS_KEY=.*$/m, ''))
  const { code, stderr } = await cli.run('send demo main hello')
  assert.equal(code, 1)
  assert.match(stderr, /SECRETS_KEY is not set/)
})
