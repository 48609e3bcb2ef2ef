// `npm start` for a newcomer: the printed links and commands work as printed.
import assert from 'node:assert/strict'
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { needs } from '../support/needs.ts'
import { tempDir } from '../support/temp.ts'

const ROOT = dirname(dirname(import.meta.dirname))
const SVC = join(ROOT, 'bin/svc.js')

interface StartProcess {
  readonly child: ChildProcess
  readonly printed: string
  readonly chat: string
  readonly hook: string
  readonly signIn: string
}

function envOf(dir: string): NodeJS.ProcessEnv {
  return { PATH: process.env.PATH, HOME: process.env.HOME, SVC_DATA_DIR: dir, WEB_LISTEN: '127.0.0.1:0' }
}

async function start(t: TestContext, dir: string): Promise<StartProcess> {
  const child = spawn(process.execPath, [SVC, 'start'], { env: envOf(dir), stdio: ['ignore', 'pipe', 'ignore'] })
  t.after(() => void child.kill('SIGKILL'))
  const lines: string[] = []
  for await (const line of createInterface({ input: child.stdout })) {
    lines.push(line)
    if (line.startsWith('Ctrl-C')) break
  }
  const printed = lines.join('\n')
  const chat = /^ {2}(http:\S+\/chat\/\S+)$/m.exec(printed)?.[1] ?? assert.fail(printed)
  const hook = /http:\S+\/hook\/\S+/.exec(printed)?.[0] ?? assert.fail(printed)
  const signIn = /^ {2}(http:\S+\/auth\/link\/\S+)$/m.exec(printed)?.[1] ?? assert.fail(printed)
  return { child, printed, chat, hook, signIn }
}

async function end({ child }: StartProcess): Promise<void> {
  child.kill('SIGINT')
  assert.deepEqual(await once(child, 'exit'), [0, null])
}

interface Round {
  readonly turn_id: string
  readonly status: string
  readonly frames: { kind: string; content: string }[]
}

async function answerOf(chat: string, content: string): Promise<Round> {
  const headers = { 'Content-Type': 'application/json' }
  const posted = await fetch(chat, { method: 'POST', headers, body: JSON.stringify({ content }) })
  assert.equal(posted.status, 200)
  const { turn_id } = JSON.parse(await posted.text())
  return roundOf(chat, turn_id)
}

async function roundOf(chat: string, turnId: string): Promise<Round> {
  for (;;) {
    const round: Round = JSON.parse(await (await fetch(chat + turnId)).text())
    if (round.status !== 'pending') return round
    await pause(50)
  }
}

test('the links of npm start work, and links and messages survive a restart', async (t) => {
  const dir = tempDir(t)
  const first = await start(t, dir)
  const page = await fetch(first.chat, { headers: { Accept: 'text/html' } })
  assert.deepEqual([page.status, page.headers.get('content-type')?.split(';')[0]], [200, 'text/html'])
  assert.equal((await fetch(first.hook, { method: 'POST', body: 'The build is green.' })).status, 204)
  const { turn_id, status, frames } = await answerOf(first.chat, '/say hello')
  assert.deepEqual([status, frames.at(-1)?.content], ['success', 'hello'])
  // The visitor of this link is the operator, so the agent has every tool.
  assert.match((await answerOf(first.chat, 'links')).frames.at(-1)?.content ?? '', /web:main\/start/)
  await end(first)

  const second = await start(t, dir)
  // Only the paths, because each start in this test uses a random port.
  for (const name of ['chat', 'hook'] as const)
    assert.equal(new URL(second[name]).pathname, new URL(first[name]).pathname)
  assert.deepEqual((await roundOf(second.chat, turn_id)).frames.at(-1)?.content, 'hello')
  assert.equal((await fetch(second.hook, { method: 'POST', body: '' })).status, 204)
  const listed = spawnSync(process.execPath, [SVC, 'token', 'demo', 'list', 'main', '--json'], { env: envOf(dir) })
  const jids: { jid: string }[] = JSON.parse(String(listed.stdout))
  assert.deepEqual(jids.map(({ jid }) => jid).sort(), ['hook:main/curl/start', 'web:main/start'])
  await end(second)

  // A revoked link is minted again.
  const revoked = spawnSync(process.execPath, [SVC, 'token', 'demo', 'revoke', 'web:main/start'], { env: envOf(dir) })
  assert.equal(revoked.status, 0)
  const third = await start(t, dir)
  assert.notEqual(new URL(third.chat).pathname, new URL(first.chat).pathname)
  assert.equal((await fetch(new URL(third.chat).origin + new URL(first.chat).pathname)).status, 401)
  assert.equal((await fetch(third.chat)).status, 200)
  await end(third)
})

test('npm start prints a link that signs the operator in at localhost, once', async (t) => {
  const dir = tempDir(t)
  const first = await start(t, dir)
  const { origin, hostname, port } = new URL(first.signIn)
  assert.deepEqual([hostname, port], ['localhost', new URL(first.chat).port])
  // One host name for all: cookies of the sign-in are valid in the chat, too.
  for (const link of [first.chat, first.hook]) assert.equal(new URL(link).origin, origin)
  assert.match(first.printed, /chat in a browser\. Its agent has every tool/)
  const redeem = (): Promise<Response> =>
    fetch(first.signIn, {
      method: 'POST',
      body: new URLSearchParams(),
      headers: { Origin: origin, Accept: 'text/html' },
      redirect: 'manual',
    })
  const [signedIn, again] = [await redeem(), await redeem()]
  assert.deepEqual([signedIn.status, again.status], [303, 404])
  const headers = { Cookie: signedIn.headers.getSetCookie()[0]?.split(';')[0] ?? '', Accept: 'application/json' }
  assert.equal(JSON.parse(await (await fetch(`${origin}/auth/me`, { headers })).text()).sub, 'local:operator')
  assert.equal(JSON.parse(await (await fetch(`${origin}/v1/groups`, { headers })).text()).groups.length, 1)
  await end(first)
  const second = await start(t, dir)
  assert.notEqual(new URL(second.signIn).pathname, new URL(first.signIn).pathname)
  await end(second)
  const { stdout } = spawnSync(process.execPath, [SVC, 'audit', 'demo', '--json'], { env: envOf(dir) })
  const actions: { action: string }[] = JSON.parse(String(stdout))
  assert.equal(actions.filter(({ action }) => action === 'acl_membership.add').length, 1)
})

test('the commands printed by npm start work when pasted', needs('curl'), async (t) => {
  const started = await start(t, tempDir(t))
  const lines = started.printed.split('\n').flatMap((line) => /^ {2}((?:curl|id=).*)$/.exec(line)?.[1] ?? [])
  assert.equal(lines.length, 3)
  const { status, stdout } = spawnSync('bash', ['-ec', lines.join('\n')], { encoding: 'utf8' })
  assert.equal(status, 0)
  assert.match(stdout, /^HTTP\/1\.1 204 /)
  assert.match(stdout, /^event: message$/m)
  assert.match(stdout, /^event: round_done\ndata: .*"status":"success"/m)
  await end(started)
})

test('the curl examples of the README and the guide to links work as printed', needs('curl'), async (t) => {
  const dir = tempDir(t)
  const started = await start(t, dir)
  const env = join(dir, 'svc_demo/.env')
  const { host } = new URL(started.chat)
  writeFileSync(env, readFileSync(env, 'utf8').replace(/^WEB_HOST=.*$/m, `WEB_HOST=${host}`))
  writeFileSync(join(dir, 'log.txt'), 'a line\n')
  const bash = (script: string): string => {
    const { status, stdout, stderr } = spawnSync('bash', ['-ec', script], {
      env: envOf(dir),
      cwd: dir,
      encoding: 'utf8',
    })
    assert.equal(status, 0, stderr)
    return stdout
  }
  const example = /^export SVC_DATA_DIR.*?issue chat main.*?(?=```)/ms.exec(
    readFileSync(join(ROOT, 'README.md'), 'utf8'),
  )?.[0]
  const script = example?.replace('$PWD/.svc', dir) ?? assert.fail('the README has no example')
  const output = bash(`svc() { ${process.execPath} ${SVC} "$@"; }\n${script}`)
  assert.match(output, /^\{"turn_id":"[^"]+","status":"(pending|success)"/)
  assert.match(output, /^event: round_done\ndata: .*"status":"success"/m)

  const page = readFileSync(join(ROOT, 'docs/links.md'), 'utf8')
  const curls = (page.match(/^curl .*$/gm) ?? []).map((line) => line.replace(/ +# .*$/, ''))
  const find = (part: string): string => curls.find((line) => line.includes(part)) ?? assert.fail(part)
  const posts = curls.filter((line) => line.endsWith(' $CHAT'))
  writeFileSync(join(dir, 'photo.png'), 'a photo\n')
  const responses = bash(
    `CHAT=${started.chat}; HOOK=${started.hook}\n${posts.join('; echo\n')}; echo\n${find('$HOOK')}`,
  )
  const posted = responses
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  const ids = posted.map(({ turn_id }) => turn_id)
  assert.equal(new Set(ids).size, 4)
  const [file] = posted.flatMap(({ user }) => user.files ?? [])
  const parts = [
    '?after=0',
    '/sse"',
    '?deltas=1',
    '/stop',
    'branch_of=$TURN_ID" -d',
    'branch_of=$TURN_ID" "',
    'topics?',
  ]
  const followed = bash(
    `CHAT=${started.chat}; TURN_ID=${ids[0]}; ID=${file.id}
     ${parts.map(find).join('; echo\n')}; echo
     mkdir got; cd got; ${find('files/$ID')}
     ${find('events"')} --max-time 2 || true`,
  )
  assert.equal(readFileSync(join(dir, 'got/copy.png'), 'utf8'), 'a photo\n')
  assert.equal(followed.match(/"status":"pending","topic":"/g)?.length, 2)
  assert.match(followed, /^\{"topics":\[\{"topic":"/m)
  // Of each of the two streams of the round, and of the stream of the conversation.
  assert.ok((followed.match(/^event: round_done\ndata: .*"status":"success"/gm)?.length ?? 0) >= 3)
  assert.match(followed, /the answer has ended/)
  assert.match(followed, new RegExp(`^\\{"turn_id":"${ids[0]}","status":"success"`, 'm'))
  assert.match(followed, /^data: .*"content":"a line\\n"/m)
  await end(started)
})

test('a checkout runs its sources beside a dist of any age, and a package, which has no sources, its dist', (t) => {
  const root = tempDir(t)
  cpSync(join(ROOT, 'bin'), join(root, 'bin'), { recursive: true })
  writeFileSync(join(root, 'package.json'), '{ "type": "module" }')
  const writeProgram = (folder: string, file: string): void => {
    const directory = join(root, folder, dirname(file))
    mkdirSync(directory, { recursive: true })
    writeFileSync(join(root, folder, file), `export const runProcess = () => console.log('${folder}')`)
  }
  const printed = (name: string): string =>
    execFileSync(process.execPath, [join(root, 'bin', name), 'run'], { env: { HOME: root }, encoding: 'utf8' }).trim()
  const programs = { 'svc.js': 'cli/io', 'egress-proxy.js': 'egress/io' }
  for (const entry of Object.values(programs)) {
    writeProgram('src', `${entry}.ts`)
    writeProgram('dist', `${entry}.js`)
  }
  for (const name of Object.keys(programs)) assert.equal(printed(name), 'src', name)
  rmSync(join(root, 'src'), { recursive: true })
  for (const name of Object.keys(programs)) assert.equal(printed(name), 'dist', name)
})

function commandLineOf(pid: number | string): string[] {
  return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').slice(0, -1)
}

/** Child processes that run svc.js again. */
function nestedLaunches(pid: number): string[] {
  const children = readdirSync(`/proc/${pid}/task`).flatMap((task) =>
    readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').split(' ').filter(Boolean),
  )
  return children.filter((child) => commandLineOf(child).some((word) => word.endsWith('svc.js')))
}

const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
const LAUNCHERS: Record<string, readonly string[]> = {
  'a shell': [SVC],
  'an explicit Node': [process.execPath, SVC],
  'npm start': ['sh', '-c', String(scripts.start).replace(/ start$/, ' "$@"'), 'sh'],
  'bin/node.js': [process.execPath, join(ROOT, 'bin/node.js'), SVC],
}
for (const [launcher, [program = '', ...words]] of Object.entries(LAUNCHERS))
  test(`started by ${launcher}, serve is one process on the bundled Node with a small young generation`, {
    skip: process.platform !== 'linux',
  }, async (t) => {
    const dir = tempDir(t)
    spawnSync(process.execPath, [SVC, 'create', 'demo'], { env: envOf(dir) })
    const env = { ...envOf(dir), LOG_LEVEL: 'error' }
    const child = spawn(program, [...words, 'serve', 'demo', 'webd'], {
      cwd: ROOT,
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    t.after(() => void child.kill('SIGKILL'))
    const lines: string[] = []
    for await (const line of createInterface({ input: child.stdout })) {
      lines.push(line)
      if (line === 'ready') break
    }
    assert.equal(lines.at(-1), 'ready')
    const pid = child.pid ?? assert.fail()
    assert.equal(readlinkSync(`/proc/${pid}/exe`), realpathSync(process.execPath))
    assert.ok(commandLineOf(pid).includes('--max-semi-space-size=4'), commandLineOf(pid).join(' '))
    assert.deepEqual(nestedLaunches(pid), [])
    child.kill('SIGTERM')
    assert.deepEqual(await once(child, 'exit'), [0, null])
  })
