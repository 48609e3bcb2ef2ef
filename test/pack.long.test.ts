// Builds, packs and installs the package as npm does, in a copy of the checkout: a dist/ in the checkout itself would
// make every other test run outdated code.
import assert from 'node:assert/strict'
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { after, before, suite, test } from 'node:test'
import { Script } from 'node:vm'
import { tempDir } from './support/temp.ts'

const ROOT = dirname(import.meta.dirname)
const TIMEOUT_MS = 5 * 60_000

interface Manifest {
  readonly name: string
  readonly files: readonly string[]
  readonly bin: Record<string, string>
  readonly optionalDependencies: Record<string, string>
}

/** Without the variables that npm and the test runner set for their children: they would confuse the inner npm. */
function cleanEnvironment(): NodeJS.ProcessEnv {
  const inherited = /^(npm_(package|lifecycle)_|npm_config_local_prefix$|npm_command$|INIT_CWD$|NODE_TEST_CONTEXT$)/
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !inherited.test(name)))
}

function run(cwd: string, command: 'npm' | 'npx', ...args: string[]): string {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, encoding: 'utf8', env: cleanEnvironment() })
  assert.equal(status, 0, `${command} ${args.join(' ')}\n${stdout}\n${stderr}`)
  return stdout
}

/** Copies all files that a commit would contain, and links node_modules. */
function copyCheckout(to: string): void {
  // git refuses a clone of another user unless it is listed as safe.
  const list = ['-c', `safe.directory=${ROOT}`, 'ls-files', '-z', '--cached', '--others', '--exclude-standard']
  const paths = execFileSync('git', list, { cwd: ROOT, encoding: 'utf8' }).split('\0')
  // git still lists files whose deletion is not committed.
  const isFile = (path: string): boolean => statSync(join(ROOT, path), { throwIfNoEntry: false })?.isFile() ?? false
  for (const path of paths.filter(isFile)) cpSync(join(ROOT, path), join(to, path))
  symlinkSync(join(ROOT, 'node_modules'), join(to, 'node_modules'))
}

suite('the packed and installed package', { timeout: TIMEOUT_MS }, () => {
  const temp = tempDir({ after })
  const checkout = join(temp, 'checkout')
  const target = join(temp, 'target')
  const manifest: Manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  const installed = join(target, 'node_modules', manifest.name)
  let files: string[] = []

  before(
    () => {
      mkdirSync(checkout)
      copyCheckout(checkout)
      run(checkout, 'npm', 'pack', '--silent', '--pack-destination', temp)
      const tarball = readdirSync(temp).find((name) => name.endsWith('.tgz')) ?? 'none.tgz'
      mkdirSync(target)
      writeFileSync(join(target, 'package.json'), '{"private": true}')
      run(target, 'npm', 'install', '--prefer-offline', '--no-audit', '--no-fund', join(temp, tarball))
      files = globSync('**/*', { cwd: installed, exclude: ['node_modules'], withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name).slice(installed.length + 1))
    },
    { timeout: TIMEOUT_MS },
  )

  test('its commands print their usage on the bundled Node', () => {
    // Platforms without a Node in the optional dependencies use the installed one.
    if (existsSync(join(target, 'node_modules/.bin/node'))) {
      const version = run(target, 'npx', '--no-install', 'node', '--version').trim()
      assert.ok(Object.values(manifest.optionalDependencies).includes(version.slice(1)), version)
    }
    for (const command of Object.keys(manifest.bin))
      assert.match(run(target, 'npx', '--no-install', command, '--help'), /usage/i, command)
  })

  test('its proxy serves from the installed files, including worker threads', async (t) => {
    const none = ['--admin', '', '--transparent', '']
    const args = ['proxy', 'serve', '--listen', '127.0.0.1:0', ...none]
    const front = join(installed, manifest.bin['egress-proxy'] ?? 'none')
    const child = spawn(process.execPath, [front, ...args], { env: { ...cleanEnvironment(), HOME: temp } })
    t.after(() => void child.kill('SIGKILL'))
    let output = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk) => {
        output += chunk
        if (output.includes('\nready\n') && !child.killed) child.kill('SIGTERM')
      })
    await once(child, 'close')
    assert.equal(child.exitCode, 0, output)
    assert.match(output, /^forward 127\.0\.0\.1:[1-9]\d*$/m)
  })

  test('its proxy starts as a library in another program', () => {
    const program = `import { startProxy } from '${manifest.name}/egress'
      const proxy = await startProxy({ listen: { host: '127.0.0.1', port: 0 }, log: () => {} })
      console.log(proxy.forward.port > 0)
      await proxy.close()`
    const output = execFileSync(process.execPath, ['--input-type=module', '-e', program], {
      cwd: target,
      encoding: 'utf8',
    })
    assert.equal(output, 'true\n')
  })

  test('it contains every module as JavaScript with types', () => {
    const modules = globSync('src/**/*.ts', { cwd: checkout }).filter((path) => !/\.(test|contract)\.ts$/.test(path))
    const built = modules.map((path) => path.replace(/^src/, 'dist').replace(/\.ts$/, ''))
    assert.ok(built.length > 0)
    assert.deepEqual(
      built.flatMap((path) => [`${path}.js`, `${path}.d.ts`]).filter((path) => !files.includes(path)),
      [],
    )
  })

  test('it contains all other files of src', () => {
    const assets = globSync('src/**/*.*', { cwd: checkout }).filter((path) => !path.endsWith('.ts'))
    assert.deepEqual(
      assets.filter((path) => !files.includes(path.replace(/^src/, 'dist'))),
      [],
    )
  })

  test('its chat page is complete', async () => {
    const { chatPage } = await import(join(installed, 'dist/web/chat/page.js'))
    const { body } = chatPage({ name: 'svc', folder: 'main' })
    const code = /<script>([\s\S]*)<\/script>/.exec(body)?.[1] ?? ''
    assert.ok(code.length > 10_000)
    assert.doesNotThrow(() => new Script(code))
  })

  test('its passkey script is complete', async () => {
    const { buildPasskeyScript } = await import(join(installed, 'dist/web/pages/passkey-script.js'))
    const { body } = buildPasskeyScript()
    assert.match(body, /navigator\.credentials\.get/)
    assert.doesNotThrow(() => new Script(body))
  })

  test('it contains no sources, tests, secrets or unlisted files', () => {
    const listed = new RegExp(`^(${manifest.files.join('|')}|package\\.json|README.*|LICENSE.*)(/|$)`)
    const unwanted = /(^|\/)(\.env|\.npmrc|\.svc|test)(\/|$)|\.(test|contract)\.|\.(pem|key|db|tgz)$|(?<!\.d)\.ts$/
    assert.deepEqual(
      files.filter((path) => !listed.test(path) || unwanted.test(path)),
      [],
    )
  })

  test('no file contains a path of the build machine or a private key', () => {
    const forbidden = [ROOT, temp, '-----BEGIN PRIVATE KEY-----\nM']
    const leaking = files.filter((path) => {
      const text = readFileSync(join(installed, path), 'utf8')
      return forbidden.some((part) => text.includes(part))
    })
    assert.deepEqual(leaking, [])
  })
})
