// `svc` as real processes: pipes, signals, concurrent processes, loaded modules and old Node versions.
import assert from 'node:assert/strict'
import { type ChildProcessWithoutNullStreams, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  cpSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { DatabaseSync } from 'node:sqlite'
import { suite, type TestContext, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { needs, oldNode } from '../support/needs.ts'
import { tempDir } from '../support/temp.ts'

const ROOT = dirname(dirname(import.meta.dirname))
const SVC = join(ROOT, 'bin/svc.js')

interface Workspace {
  readonly dir: string
  readonly root: string
  readonly env: NodeJS.ProcessEnv
  run(...args: string[]): { code: number | null; stdout: string; stderr: string }
  /** Runs a shell line in which `$SVC` is the command. */
  shell(line: string): { code: number | null; stdout: string; stderr: string }
  start(...args: string[]): ChildProcessWithoutNullStreams
}

function openWorkspace(t: TestContext): Workspace {
  const dir = tempDir(t)
  const { NODE_TEST_CONTEXT: _context, NO_COLOR: _colour, NODE_COMPILE_CACHE: _cache, ...inherited } = process.env
  const env = {
    ...inherited,
    SVC_DATA_DIR: dir,
    XDG_CACHE_HOME: join(dir, 'cache'),
    SVC: `${process.execPath} ${SVC}`,
    WEB_LISTEN: '127.0.0.1:0',
  }
  const run = (command: string, args: readonly string[]) => {
    const { status, stdout, stderr } = spawnSync(command, args, { env, encoding: 'utf8', cwd: dir })
    return { code: status, stdout, stderr }
  }
  return {
    dir,
    root: join(dir, 'svc_demo'),
    env,
    run: (...args) => run(process.execPath, [SVC, ...args]),
    shell: (line) => run('bash', ['-c', `set -o pipefail; ${line}`]),
    start: (...args) => {
      const child = spawn(process.execPath, [SVC, ...args], { env, cwd: dir })
      t.after(() => void child.kill('SIGKILL'))
      return child
    },
  }
}

/** A workspace with the instance `demo`. */
function createDemo(t: TestContext): Workspace {
  const workspace = openWorkspace(t)
  const { code, stderr } = workspace.run('create', 'demo')
  assert.equal(code, 0, stderr)
  return workspace
}

async function waitForExit(
  child: ChildProcessWithoutNullStreams,
): Promise<{ code: number | null; signal: string | null }> {
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  return { code: child.exitCode, signal: child.signalCode }
}

async function readUrls(child: ChildProcessWithoutNullStreams): Promise<Map<string, string>> {
  const urls = new Map<string, string>()
  for await (const line of createInterface({ input: child.stdout })) {
    if (line === 'ready') return urls
    const [name = '', url = ''] = line.split(' ')
    urls.set(name, url)
  }
  throw new Error('svc serve ended before it was ready')
}

suite('the launcher', () => {
  const help = readFileSync(join(ROOT, 'bin/help.txt'), 'utf8')

  test('prints help on request, and without arguments to stderr with exit code 1', (t) => {
    const { run } = openWorkspace(t)
    for (const word of ['--help', '-h', 'help']) assert.deepEqual(run(word), { code: 0, stdout: help, stderr: '' })
    assert.deepEqual(run(), { code: 1, stdout: '', stderr: help })
  })

  test('prints its version', (t) => {
    const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
    const { node, sqlite } = process.versions
    const stdout = `svc ${version}\nnode ${node}\nsqlite ${sqlite}\n`
    for (const word of ['--version', 'version'])
      assert.deepEqual(openWorkspace(t).run(word), { code: 0, stdout, stderr: '' })
    assert.deepEqual(JSON.parse(openWorkspace(t).run('--version', '--json').stdout), { svc: version, node, sqlite })
  })

  test('suggests setting SVC_DATA_DIR when the instance is in ./.svc', (t) => {
    const { dir, shell } = openWorkspace(t)
    const { stdout, stderr } = shell(
      'SVC_DATA_DIR=$PWD/.svc $SVC create demo > made; unset SVC_DATA_DIR; export PREFIX=$PWD/none\n' +
        '$SVC group demo list; echo $?; $SVC group dmeo list; echo $?',
    )
    assert.equal(stdout, '1\n1\n')
    const message = (name: string): string =>
      `svc: there is no instance ${name}: ${dir}/none/data/svc_${name} does not exist\n` +
      `hint: demo is in ./.svc: export SVC_DATA_DIR=${dir}/.svc\n`
    assert.equal(stderr, message('demo') + message('dmeo'))
  })

  test('caches compiled code only in a directory that other users cannot write', (t) => {
    const { run, dir } = createDemo(t)
    const cache = join(dir, 'cache/svc/compiled')
    assert.equal(statSync(cache).mode & 0o777, 0o700)
    assert.ok(readdirSync(cache).length > 0)
    chmodSync(cache, 0o777)
    const before = readdirSync(cache, { recursive: true })
    assert.equal(run('gate', 'demo', 'list').code, 0)
    assert.deepEqual(readdirSync(cache, { recursive: true }), before)
  })

  test('loads neither other commands nor the server for a command', (t) => {
    const { env, root } = createDemo(t)
    const list = join(root, 'loaded')
    const hook = `import{registerHooks}from'node:module';import{appendFileSync}from'node:fs';
      registerHooks({load(url,context,next){appendFileSync(${JSON.stringify(list)},url+'\\n');return next(url,context)}})`
    const preload = `data:text/javascript,${encodeURIComponent(hook)}`
    execFileSync(process.execPath, ['--import', preload, SVC, 'token', 'demo', 'list', 'main'], { env, stdio: 'pipe' })
    const loaded = readFileSync(list, 'utf8')
    assert.match(loaded, /cli\/commands\/token\.ts/)
    assert.doesNotMatch(loaded, /commands\/(?!token|index)|hono|pino|node_modules\/(yaml|jose|pg)\/|daemons\/serve/)
  })

  const old = oldNode()
  test('on an old Node continues with the bundled Node', needs('old node'), (t) => {
    const { env, root } = createDemo(t)
    const { status, stdout, stderr } = spawnSync(old ?? '', [SVC, 'group', 'demo', 'list'], { env, encoding: 'utf8' })
    assert.deepEqual([status, stdout, stderr], [0, 'main\tmain\n', ''], root)
    assert.equal(spawnSync(old ?? '', [SVC, 'gate', 'demo', 'rm', 'x'], { env }).status, 1)
  })
  test('started by a shell, executes the bundled Node with its arguments and its exit code', needs('old node'), (t) => {
    const { env, root } = createDemo(t)
    const path = { ...env, PATH: `${dirname(old ?? '')}:/usr/bin:/bin` }
    const { status, stdout, stderr } = spawnSync(SVC, ['group', 'demo', 'list'], { env: path, encoding: 'utf8' })
    assert.deepEqual([status, stdout, stderr], [0, 'main\tmain\n', ''], root)
    assert.equal(spawnSync(SVC, ['gate', 'demo', 'rm', 'x y'], { env: path }).status, 1)
    const link = join(root, 'svc')
    symlinkSync(SVC, link)
    // Through a symbolic link as well.
    const own = spawnSync(link, ['version'], { env: path, encoding: 'utf8' })
    assert.match(own.stdout, new RegExp(`^node ${process.versions.node}$`, 'm'))
  })
  test('on an old Node without the bundled one reports that in one line', needs('old node'), (t) => {
    const { dir, env } = openWorkspace(t)
    cpSync(join(ROOT, 'bin'), join(dir, 'alone/bin'), { recursive: true })
    writeFileSync(join(dir, 'alone/package.json'), '{"type": "module", "version": "1"}')
    const front = join(dir, 'alone/bin/svc.js')
    const { status, stderr } = spawnSync(old ?? '', [front, 'group', 'demo', 'list'], { env, encoding: 'utf8' })
    assert.equal(status, 1)
    assert.match(stderr, /^svc needs Node 24 or newer, but this is v\d+\.\d+\.\d+[^\n]*\n$/)
    assert.equal(spawnSync(old ?? '', [front, '--help'], { env, encoding: 'utf8' }).stdout, help)
  })
})

suite('pipes', () => {
  test('a reader that closes the pipe early causes no error', (t) => {
    const { shell } = createDemo(t)
    for (const line of [
      '$SVC help | head -1',
      '$SVC help gate | head -1',
      '$SVC export demo 2>/dev/null | head -1',
      '$SVC network demo list | true',
    ]) {
      const { code, stderr } = shell(line)
      assert.deepEqual([code, stderr], [0, ''], line)
    }
  })
  test('a closed stdout or stderr does not crash the command', (t) => {
    const { shell } = createDemo(t)
    for (const line of ['$SVC gate demo list >&-', '$SVC group demo list >&- 2>&-', '$SVC --help >&-'])
      assert.equal(shell(line).code, 0, line)
    assert.equal(shell('$SVC gate demo rm x 2>&-').code, 1)
  })
  test('a full disk is reported with exit code 1', (t) => {
    const { code, stderr } = createDemo(t).shell('$SVC export demo > /dev/full')
    assert.equal(code, 1)
    assert.match(stderr, /svc: cannot write to stdout: the disk is full/)
  })
  test('output to a pipe is plain UTF-8 in any locale', (t) => {
    const { shell } = createDemo(t)
    const { code, stdout } = shell('LANG=C LC_ALL=C COLUMNS=1 $SVC doctor demo | cat')
    assert.equal(code, 0)
    assert.doesNotMatch(stdout, /\u001b|\ufffd/)
    assert.match(stdout, /^✓ directory/)
  })
  test('a manifest and a secret can be read from a pipe', (t) => {
    const { shell, root } = createDemo(t)
    const { code, stderr } = shell(
      '$SVC export demo 2>/dev/null | $SVC apply demo - && printf s3cret | $SVC secret demo set main K -v -',
    )
    assert.deepEqual([code, stderr], [0, ''])
    assert.doesNotMatch(readFileSync(join(root, 'store/svc.db'), 'latin1'), /s3cret/)
  })
})

suite('concurrent commands', () => {
  test('three that create the same instance agree on its keys', async (t) => {
    const { start, run, root } = openWorkspace(t)
    const children = [1, 2, 3].map(() => start('create', 'demo'))
    for (const child of children) {
      let errors = ''
      child.stderr.on('data', (chunk) => {
        errors += chunk
      })
      assert.equal((await waitForExit(child)).code, 0, errors)
    }
    assert.equal(run('group', 'demo', 'list').stdout, 'main\tmain\n')
    assert.deepEqual(readdirSync(root).sort(), [
      ...[
        '.env',
        'cells',
        'channels',
        'chats',
        'files',
        'groups',
        'ipc',
        'logs',
        'outbox',
        'skills',
        'speech',
        'store',
        'web',
      ],
    ])
    assert.equal(run('doctor', 'demo').code, 0)
  })
  test('a command waits for another writer', async (t) => {
    const { start, run, root } = createDemo(t)
    const writer = new DatabaseSync(join(root, 'store/svc.db'))
    t.after(() => writer.close())
    writer.exec('begin immediate')
    const waiting = start('gate', 'demo', 'add', 'team', '5')
    await untilOpen(waiting.pid, join(root, 'store/svc.db-wal'))
    assert.equal(waiting.exitCode, null)
    writer.exec('commit')
    assert.deepEqual(await waitForExit(waiting), { code: 0, signal: null })
    assert.match(run('gate', 'demo', 'list').stdout, /^team\t5\tyes$/m)
  })
  test('a killed command leaves all or nothing and can be repeated', async (t) => {
    const { start, run } = createDemo(t)
    for (const [at, signal] of (['SIGINT', 'SIGTERM', 'SIGKILL', 'SIGKILL', 'SIGKILL'] as const).entries()) {
      const child = start('group', 'demo', 'add', `slack:${at}`, `team${at}`)
      await new Promise((resolve) => setTimeout(resolve, 150 + at * 60))
      child.kill(signal)
      await waitForExit(child)
      assert.equal(run('doctor', 'demo').code, 0, `after ${signal}`)
      assert.equal(run('group', 'demo', 'add', `slack:${at}`, `team${at}`).code, 0)
    }
    assert.equal(run('group', 'demo', 'list').stdout.split('\n').length, 7)
    assert.equal(run('export', 'demo').stdout.match(/match: room=/g)?.length, 5)
  })
})

/** Waits until a process has opened a file, and so will wait for its lock. */
async function untilOpen(pid: number | undefined, path: string): Promise<void> {
  const fds = `/proc/${pid}/fd`
  const hasOpened = (): boolean => readdirSync(fds).some((fd) => linkOf(join(fds, fd)) === path)
  while (!hasOpened()) await setImmediate()
}

function linkOf(path: string): string | undefined {
  try {
    return readlinkSync(path)
  } catch {
    // The descriptor was closed after the listing.
    return undefined
  }
}

suite('signals', () => {
  test('Ctrl-C ends a command that waits for input', async (t) => {
    const { start, run } = createDemo(t)
    const child = start('secret', 'demo', 'set', 'main', 'K', '--value', '-')
    await new Promise((resolve) => child.stdin.write('half a sec', resolve))
    child.kill('SIGINT')
    assert.deepEqual(await waitForExit(child), { code: null, signal: 'SIGINT' })
    assert.equal(run('secret', 'demo', 'list', 'main').stdout, '')
  })
  test('a shell sees exit code 130', (t) => {
    // With job control (set -m), because otherwise background jobs ignore SIGINT.
    const waiting = 'set -m; $SVC secret demo set main K -v - < <(exec sleep 9 2>/dev/null) & sleep 1'
    assert.equal(createDemo(t).shell(`${waiting}; kill -INT $!; wait $!`).code, 130)
  })
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    test(`${signal} shuts svc serve down with exit code 0`, async (t) => {
      const { start, env } = createDemo(t)
      const child = start('serve', 'demo')
      const urls = await readUrls(child)
      const answer = await fetch(`${urls.get('proxyd')}/health`)
      assert.equal(answer.status, 200)
      child.kill(signal)
      assert.deepEqual(await waitForExit(child), { code: 0, signal: null }, JSON.stringify(env.SVC_DATA_DIR))
    })
})

test('a whole session: create, configure, export, apply, serve, request and revoke', async (t) => {
  const { run, start, dir, root } = createDemo(t)
  const svc = (...args: string[]): string => {
    const { code, stdout, stderr } = run(...args)
    assert.equal(code, 0, `svc ${args.join(' ')}: ${stderr}`)
    return stdout
  }
  svc('group', 'demo', 'add', 'discord:1/2', 'team', '--product', 'support')
  svc('group', 'demo', 'grant', 'github:42', 'team/**')
  svc('token', 'demo', 'issue', 'webhook', 'team', 'ci', '-c', 'Build results: say what broke.')
  svc('export', 'demo', join(dir, 'acme.yaml'))
  assert.match(svc('apply', 'demo', join(dir, 'acme.yaml'), '--dry-run'), /nothing would change but config_version/)
  assert.equal(run('apply', 'demo', join(dir, 'acme.yaml')).code, 0)
  assert.equal(run('apply', 'demo', join(dir, 'acme.yaml')).code, 2)
  const bearer = svc('bearer', 'demo', 'github:42').trim()
  const child = start('serve', 'demo')
  const door = (await readUrls(child)).get('proxyd')
  const answer = await fetch(`${door}/v1/route_tokens`, { headers: { Authorization: `Bearer ${bearer}` } })
  const { tokens }: { tokens: { jid: string }[] } = JSON.parse(await answer.text())
  assert.deepEqual(
    tokens.map(({ jid }) => jid),
    ['hook:team/ci'],
  )
  assert.equal(svc('token', 'demo', 'revoke', 'hook:team/ci'), 'revoked hook:team/ci (1 token)\n')
  child.kill('SIGTERM')
  assert.equal((await waitForExit(child)).code, 0)
  assert.equal(run('doctor', 'demo').code, 0, root)
})
