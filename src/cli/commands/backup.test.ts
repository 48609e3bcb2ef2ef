import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { suite, type TestContext, test } from 'node:test'
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import { type Cli, demoCli, demoCliOn, type RunOptions, testCli } from '../../../test/support/cli.ts'
import { type FakeClock, fakeClock } from '../../../test/support/clock.ts'
import { EVERY_CAPABILITY, fakeAdapter } from '../../../test/support/fake-adapter.ts'
import { agent, emptyStore, onEveryEngine } from '../../../test/support/host.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { openTools } from '../../../test/support/tools.ts'
import { until } from '../../../test/support/until.ts'
import { registerChannel } from '../../core/delivery/channel-registrations.ts'
import { outbox } from '../../core/delivery/outbox.ts'
import type { OpenHost } from '../../daemons/process/host.ts'
import { OutboxWorker } from '../../daemons/routd/outbox-worker.ts'
import { createToolList, standaloneTools } from '../../faces/tool-list.ts'
import { sourceOf } from '../../lib/settings.ts'
import { openSnapshot } from '../../store/index.ts'
import { fileTools } from '../../tools/file.ts'
import { voiceTools } from '../../tools/voice.ts'
import {
  type ArchiveEntry,
  makeArchiveHeader,
  makeDirectoryEntry,
  makeTextEntry,
  packArchive,
} from '../backup/archive.ts'
import { findInstance, openInstance } from '../instance/instance.ts'

const BIN = join(import.meta.dirname, '..', '..', '..', 'bin', 'svc.js')
const FOLDER = ['groups', 'main'] as const

/** Adds files of all kinds, a secret, a link and a grant. */
async function fillInstance(cli: Cli): Promise<void> {
  const home = join(cli.root, ...FOLDER)
  fs.mkdirSync(join(home, 'deep', 'er'), { recursive: true })
  fs.writeFileSync(join(home, 'deep', 'er', 'ünï.txt'), 'héllo')
  fs.writeFileSync(join(home, 'run.sh'), '#!/bin/sh\n', { mode: 0o755 })
  fs.chmodSync(join(home, 'run.sh'), 0o755)
  fs.writeFileSync(join(home, 'large'), Buffer.alloc(3_000_000, 'large'))
  fs.symlinkSync('/etc/passwd', join(home, 'passwd'))
  fs.mkdirSync(join(home, 'closed'))
  fs.writeFileSync(join(home, 'closed', 'x'), 'x')
  fs.chmodSync(join(home, 'closed'), 0o500)
  fs.writeFileSync(join(cli.root, 'web', 'pub', 'page.html'), '<p>')
  fs.mkdirSync(join(cli.root, 'logs'), { recursive: true })
  fs.writeFileSync(join(cli.root, 'logs', 'old.log'), 'x')
  await cli.ok('secret demo set main TOKEN --value hidden-value')
  await cli.ok('token demo issue webhook main ci')
  await cli.ok(['group', 'demo', 'grant', 'github:1', '**'])
}

async function restoreCopy(t: TestContext, file: string, flags: readonly string[] = []): Promise<Cli> {
  const cli = testCli(t)
  await cli.ok(['restore', file, 'demo', ...flags])
  return cli
}

const exportYaml = (cli: Cli): Promise<string> => cli.ok('export demo -')

onEveryEngine('a backup', (engine) => {
  test('restores the same configuration, files, links and sealed secrets', async (t) => {
    const cli = await demoCliOn(t, engine)
    await fillInstance(cli)
    const file = join(tempDir(t), 'b')
    const made = JSON.parse(await cli.ok(['backup', 'demo', file, '--with-keys', '--json']))
    assert.deepEqual([made.engine, made.left_out, made.notes], [engine, [], []])
    assert.equal(fs.statSync(file).mode & 0o777, 0o600)
    assert.equal(made.bytes, fs.statSync(file).size)
    assert.match(fs.readFileSync(join(cli.root, 'store', 'last-backup'), 'utf8'), /^\d{4}-.*Z\n$/)
    const store = await emptyStore(t, engine)
    const flags = 'url' in store ? ['--database', store.url] : []
    const copy = await restoreCopy(t, file, flags)
    assert.equal(await exportYaml(copy), await exportYaml(cli))
    assert.equal(await copy.ok('token demo list main --json'), await cli.ok('token demo list main --json'))
    const home = join(copy.root, ...FOLDER)
    assert.equal(fs.readFileSync(join(home, 'deep', 'er', 'ünï.txt'), 'utf8'), 'héllo')
    assert.deepEqual(fs.readFileSync(join(home, 'large')), Buffer.alloc(3_000_000, 'large'))
    assert.equal(fs.readlinkSync(join(home, 'passwd')), '/etc/passwd')
    const mode = (name: string): number => fs.statSync(join(home, name)).mode & 0o777
    assert.deepEqual([mode('run.sh'), mode('closed')], [0o755, 0o500])
    assert.equal(fs.readFileSync(join(copy.root, 'web', 'pub', 'page.html'), 'utf8'), '<p>')
    assert.deepEqual(fs.readdirSync(join(copy.root, 'logs')), [])
    assert.equal(fs.statSync(join(copy.root, '.env')).mode & 0o777, 0o600)
    assert.match((await copy.run('doctor demo')).stdout, /secrets: all can be decrypted \(1\)/)
    assert.deepEqual(fs.readdirSync(copy.dir), ['svc_demo'])
  })

  test('without the workspaces of another machine says so: in its output, exit code and header, and when it is restored', async (t) => {
    const cli = await demoCliOn(t, engine)
    for (const folder of ['here', 'there', 'there/too']) await cli.ok(`group demo add sandbox:${folder} ${folder}`)
    // The other machine has it.
    fs.rmSync(join(cli.root, 'groups', 'there'), { recursive: true })
    const [file, missing] = [join(tempDir(t), 'b'), ['there', 'there/too']]
    const made = await cli.run(['backup', 'demo', file, '--with-keys', '--json'])
    assert.equal(made.code, 1)
    assert.deepEqual(JSON.parse(made.stdout).missing_workspaces, missing)
    assert.match(made.stderr, /not complete: the workspaces of there, there\/too are not in this data directory/)
    assert.match(
      zstdDecompressSync(fs.readFileSync(file)).toString('latin1'),
      /"missing_workspaces":\["there","there\/too"\]/,
    )
    assert.equal(fs.existsSync(join(cli.root, 'store', 'last-backup')), false)
    const [store, copy] = [await emptyStore(t, engine), testCli(t)]
    const flags = 'url' in store ? ['--database', store.url] : []
    const restored = await copy.run(['restore', file, 'demo', ...flags, '--json'])
    assert.equal(restored.code, 0, restored.stderr)
    assert.deepEqual(JSON.parse(restored.stdout).missing_workspaces, missing)
    assert.match(restored.stderr, /the workspaces of there, there\/too are not in the backup: messages wait until/)
  })

  test('of one engine can be restored to the other', async (t) => {
    const cli = await demoCliOn(t, engine)
    await fillInstance(cli)
    const file = join(tempDir(t), 'b')
    await cli.ok(['backup', 'demo', file])
    const other = await emptyStore(t, engine === 'sqlite' ? 'postgres' : 'sqlite')
    const flags = 'url' in other ? ['--database', other.url] : ['--sqlite']
    if (engine === 'postgres') {
      const refused = await testCli(t).run(['restore', file, 'demo'])
      assert.equal(refused.code, 1)
      assert.match(refused.stderr, /--database postgres:.*--sqlite/)
    }
    const copy = await restoreCopy(t, file, flags)
    assert.equal(await exportYaml(copy), await exportYaml(cli))
  })
})

/** Opens the instance in this process. */
async function openDemo(t: TestContext, cli: Cli, clock: FakeClock): Promise<OpenHost> {
  const environment = sourceOf('the environment', new Map([['SVC_DATA_DIR', cli.dir]]))
  const host = await openInstance(await findInstance('demo', environment), { clock })
  t.after(() => host.close())
  return host
}

onEveryEngine('a restored instance', (engine) => {
  test('delivers files, pictures and voice messages that were still in the outbox', async (t) => {
    const cli = await demoCliOn(t, engine)
    const clock = fakeClock()
    const [adapter, room] = [await fakeAdapter(t), 'telegram:group/1']
    const host = await openDemo(t, cli, clock)
    const wanted = { name: 'teled', url: adapter.url, jid_prefixes: ['telegram:'], capabilities: EVERY_CAPABILITY }
    await host.engine.transaction((tx) => registerChannel(tx, host, wanted))
    adapter.behave({ status: 503 })
    const [home, sound] = [join(cli.root, ...FOLDER), join(cli.root, 'speech', 'x.ogg')]
    for (const name of ['report.txt', 'older.txt', 'cat.png']) fs.writeFileSync(join(home, name), `this is ${name}`)
    fs.writeFileSync(sound, 'good morning')
    const speech = { synthesize: async () => ({ path: sound, mime: 'audio/ogg' }) }
    const list = createToolList(standaloneTools([...fileTools, ...voiceTools]))
    const tools = await openTools(t, { ...host, speech }, agent('main'), { list })
    for (const name of ['report.txt', 'older.txt'])
      await tools.call('send_file', { chatJid: room, filepath: `/home/node/${name}` })
    await tools.call('post', { chatJid: room, content: 'look', media: ['/home/node/cat.png'] })
    await tools.call('send_voice', { chatJid: room, text: 'good morning' })
    // Earlier versions stored absolute paths.
    await host.engine.transaction(async (tx) => {
      const older = (await outbox.list(tx)).find(({ payload }) => payload.includes('older.txt')) ?? assert.fail()
      const payload = JSON.parse(older.payload)
      payload.path = join(cli.root, payload.path)
      await outbox.update(tx, { message_seq: older.message_seq }, { payload: JSON.stringify(payload) })
    })
    const file = join(tempDir(t), 'b')
    await cli.ok(['backup', 'demo', file, '--with-keys'])
    await host.close()
    fs.renameSync(cli.root, `${cli.root}.old`)
    const store = await emptyStore(t, engine)
    const copy = await restoreCopy(t, file, 'url' in store ? ['--database', store.url] : [])
    let picture = ''
    adapter.behave(({ path, body }) => {
      if (path === '/post') picture = fs.readFileSync(String(body.media_paths), 'utf8')
      return 'ok'
    })
    clock.advance(60_000)
    const restored = await openDemo(t, copy, clock)
    const before = adapter.requests.length
    const worker = new OutboxWorker({ host: restored, log: { warn: () => {} } })
    t.after(() => worker.close())
    const states = async () => (await restored.engine.read((tx) => outbox.list(tx))).map(({ state }) => state)
    await until(async () => (await states()).every((state) => state !== 'pending' && state !== 'sending'))
    assert.deepEqual(await states(), ['sent', 'sent', 'sent', 'sent'])
    const sent = adapter.requests.slice(before).flatMap(({ file: part }) => (part ? [[part.name, part.text]] : []))
    assert.deepEqual(sent, [
      ['report.txt', 'this is report.txt'],
      ['older.txt', 'this is older.txt'],
      ['voice.ogg', 'good morning'],
    ])
    assert.equal(picture, 'this is cat.png')
    await until(() => fs.readdirSync(join(copy.root, 'outbox')).length === 0)
  })
})

suite('a backup without keys', () => {
  test('contains no secret settings and lists the missing ones, as doctor does after a restore', async (t) => {
    const cli = await demoCli(t)
    await fillInstance(cli)
    const env = fs.readFileSync(join(cli.root, '.env'), 'utf8')
    const key = /^SECRETS_KEY=(.*)$/m.exec(env)?.[1] ?? assert.fail()
    const file = join(tempDir(t), 'b')
    assert.match(
      await cli.ok(['backup', 'demo', file]),
      /keys: not included; keep these elsewhere: CHANNEL_SECRET, SECRETS_KEY/,
    )
    const bytes = zstdDecompressSync(fs.readFileSync(file))
    for (const secret of [key, 'hidden-value']) assert.equal(bytes.includes(secret), false)
    const copy = testCli(t)
    const { code, stderr } = await copy.run(['restore', file, 'demo'])
    assert.equal(code, 0, stderr)
    assert.match(stderr, /left out of the backup; add them to .*CHANNEL_SECRET, SECRETS_KEY/)
    const doctor = await copy.run('doctor demo')
    assert.equal(doctor.code, 1)
    assert.match(doctor.stdout, /keys: left out of the backup .*: CHANNEL_SECRET, SECRETS_KEY/)
    fs.appendFileSync(join(copy.root, '.env'), `SECRETS_KEY=${key}\nCHANNEL_SECRET=new\n`)
    const cured = await copy.run('doctor demo')
    assert.match(cured.stdout, /secrets: all can be decrypted \(1\)/)
    assert.doesNotMatch(cured.stdout, /left out/)
  })
})

/** Runs a command and collects the bytes that it writes to stdout. */
async function runPiped(cli: Cli, line: string, options: RunOptions = {}) {
  const written: Buffer[] = []
  const ran = await cli.run(line, { ...options, output: (bytes) => written.push(bytes) })
  return { ...ran, output: Buffer.concat(written) }
}

suite('a backup without a file', () => {
  test('goes to stdout and comes from stdin, and all messages go to stderr', async (t) => {
    const cli = await demoCli(t)
    await fillInstance(cli)
    const made = await runPiped(cli, 'backup demo - --with-keys --json')
    assert.deepEqual([made.code, made.stdout], [0, ''], made.stderr)
    assert.equal(JSON.parse(made.stderr).bytes, made.output.length)
    const plain = await cli.run('backup demo -')
    assert.match(plain.stderr, /^file: -\nbytes: \d+\n(.*\n)*keys: not included/)
    const copy = testCli(t)
    const restored = await copy.run('restore - demo', { stdin: made.output })
    assert.equal(restored.code, 0, restored.stderr)
    assert.equal(await exportYaml(copy), await exportYaml(cli))
    assert.equal(fs.readFileSync(join(copy.root, ...FOLDER, 'deep', 'er', 'ünï.txt'), 'utf8'), 'héllo')
    assert.deepEqual(fs.readdirSync(copy.dir), ['svc_demo'])
  })

  test('is not written to or read from a terminal', async (t) => {
    const cli = await demoCli(t)
    const { code, stderr, output } = await runPiped(cli, 'backup demo -', { terminal: true })
    assert.deepEqual([code, output.length], [1, 0])
    assert.match(
      stderr,
      /stdout is a terminal, but a backup is binary; nothing was written\nhint: .*svc backup demo - >/,
    )
    const restored = await cli.run('restore - two', { ask: async () => '' })
    assert.equal(restored.code, 1)
    assert.match(restored.stderr, /stdin is a terminal; nothing was changed/)
  })

  test('is refused if it is damaged or cut short, and leaves no files, even if the data directory is missing', async (t) => {
    const cli = await demoCli(t)
    const { output } = await runPiped(cli, 'backup demo -')
    // A single bit of compressed data may have no meaning, so bits are flipped in the archive, and 64 bytes in the file.
    const archive = zstdDecompressSync(output)
    archive[archive.length >> 1] = (archive[archive.length >> 1] ?? 0) ^ 1
    const overwritten = Buffer.from(output).fill(0xff, output.length >> 1, (output.length >> 1) + 64)
    const flipped = zstdCompressSync(archive)
    for (const stdin of [flipped, overwritten, output.subarray(0, -9), output.subarray(0, 0), Buffer.from('hello')])
      for (const dir of [cli.dir, join(cli.dir, 'new', 'dir')]) {
        const { code, stderr } = await cli.run('restore - two', { stdin, env: { SVC_DATA_DIR: dir } })
        assert.equal(code, 1)
        assert.match(stderr, /^svc: (stdin|the archive) is (damaged|cut short|not a backup)/)
        assert.deepEqual(fs.readdirSync(cli.dir), ['svc_demo'])
      }
    const env = { SVC_DATA_DIR: join(cli.dir, 'new', 'dir') }
    assert.equal((await cli.run('restore - two', { stdin: output, env })).code, 0)
    assert.deepEqual(fs.readdirSync(join(cli.dir, 'new', 'dir')), ['svc_two'])
  })

  test('fails if the reader closes the pipe early', async (t) => {
    const cli = await demoCli(t)
    fs.writeFileSync(join(cli.root, ...FOLDER, 'large'), randomBytes(3_000_000))
    const env = { PATH: process.env.PATH, HOME: process.env.HOME, SVC_DATA_DIR: cli.dir }
    const child = spawn(process.execPath, [BIN, 'backup', 'demo', '-'], { env, stdio: ['ignore', 'pipe', 'pipe'] })
    child.stdout.once('data', () => child.stdout.destroy())
    const stderr = text(child.stderr)
    assert.deepEqual(await once(child, 'close'), [1, null])
    assert.equal(await stderr, 'svc: stdout was closed before the archive was complete\n')
  })
})

suite('svc backup', () => {
  test('replaces a file only with --force', async (t) => {
    const cli = await demoCli(t)
    const file = join(tempDir(t), 'b')
    fs.writeFileSync(file, 'mine')
    const { code, stderr } = await cli.run(['backup', 'demo', file])
    assert.equal(code, 1)
    assert.match(stderr, /already exists; nothing was changed/)
    assert.equal(fs.readFileSync(file, 'utf8'), 'mine')
    await cli.ok(['backup', 'demo', file, '--force'])
    assert.notEqual(fs.readFileSync(file, 'utf8'), 'mine')
    assert.equal(fs.readdirSync(join(file, '..')).length, 1)
    assert.match((await cli.run(['backup', 'demo', join(file, '..', 'no', 'b')])).stderr, /directory does not exist/)
    assert.match((await cli.run(['backup', 'demo', '/dev/null'])).stderr, /not a regular file/)
  })

  test('continues on odd files in a workspace, follows no links, and lists what it leaves out', async (t) => {
    const cli = await demoCli(t)
    const home = join(cli.root, ...FOLDER)
    execFileSync('mkfifo', [join(home, 'pipe')])
    fs.symlinkSync('/', join(home, 'root'))
    fs.symlinkSync('nowhere', join(home, 'dangling'))
    fs.symlinkSync('/somewhere', join(cli.root, 'groups', 'elsewhere'))
    fs.writeFileSync(Buffer.concat([Buffer.from(`${home}/odd-`), Buffer.from([0xff])]), 'x')
    fs.mkdirSync(join(home, 'd/'.repeat(150)), { recursive: true })
    const file = join(tempDir(t), 'b')
    const { notes } = JSON.parse(await cli.ok(['backup', 'demo', file, '--json']))
    assert.deepEqual(notes.map((note: string) => /symbolic link|not UTF-8|too deeply/.exec(note)?.[0]).sort(), [
      'not UTF-8',
      'symbolic link',
      'too deeply',
    ])
    const copy = await restoreCopy(t, file)
    const names = fs.readdirSync(join(copy.root, ...FOLDER))
    assert.equal(fs.readlinkSync(join(copy.root, ...FOLDER, 'root')), '/')
    assert.equal(fs.readlinkSync(join(copy.root, 'groups', 'elsewhere')), '/somewhere')
    assert.deepEqual([names.includes('dangling'), names.includes('pipe')], [true, false])
  })

  test('keeps the holes of files, and does not read them', async (t) => {
    const cli = await demoCli(t)
    const home = join(cli.root, ...FOLDER)
    // Reading this many zeros would take hours.
    const [size, at] = [2 ** 42, 2 ** 41]
    for (const name of ['holes', 'nothing']) {
      fs.writeFileSync(join(home, name), '')
      fs.truncateSync(join(home, name), size)
    }
    const content = randomBytes(1_500_000)
    const opened = fs.openSync(join(home, 'holes'), 'r+')
    fs.writeSync(opened, content, 0, content.length, at)
    fs.closeSync(opened)
    const file = join(tempDir(t), 'b')
    const made = JSON.parse(await cli.ok(['backup', 'demo', file, '--with-keys', '--json']))
    assert.deepEqual(made.notes, [])
    const copy = await restoreCopy(t, file)
    for (const [name, blocks] of [
      ['holes', 8 * 1024 * 1024],
      ['nothing', 65_536],
    ] as const) {
      const stats = fs.statSync(join(copy.root, ...FOLDER, name))
      assert.equal(stats.size, size)
      assert.ok(stats.blocks * 512 <= blocks, `${name}: ${stats.blocks}`)
    }
    const restored = fs.openSync(join(copy.root, ...FOLDER, 'holes'), 'r')
    t.after(() => fs.closeSync(restored))
    const read = Buffer.alloc(content.length + 2)
    fs.readSync(restored, read, 0, read.length, at - 1)
    assert.deepEqual(read, Buffer.concat([Buffer.alloc(1), content, Buffer.alloc(1)]))
  })

  test('leaves out a file that is larger than others can restore, and says so', async (t) => {
    const cli = await demoCli(t)
    for (const [name, size] of [
      ['largest', 2 ** 43],
      ['larger', 2 ** 43 + 1],
    ] as const) {
      fs.writeFileSync(join(cli.root, ...FOLDER, name), '')
      fs.truncateSync(join(cli.root, ...FOLDER, name), size)
    }
    const file = join(tempDir(t), 'b')
    const made = JSON.parse(await cli.ok(['backup', 'demo', file, '--with-keys', '--json']))
    assert.deepEqual(made.notes, [
      'files/groups/main/larger is larger than 8796093022208 bytes and is not in the backup',
    ])
  })

  test('restores an archive of the first format', async (t) => {
    const cli = await demoCli(t)
    const { steps, tables, counters } = await openSnapshot({ path: join(cli.root, 'store', 'svc.db') }, 0)
    const entries = [
      ...['files', 'files/groups', 'files/groups/main'].map((path) => makeDirectoryEntry(path, 0)),
      makeTextEntry('files/groups/main/a', 'x', 0),
    ]
    const file = join(tempDir(t), 'b')
    fs.writeFileSync(file, zstdCompressSync(await makeArchive(entries, { format: 1, steps, tables, counters })))
    await cli.ok(['restore', file, 'two'])
    assert.equal(fs.readFileSync(join(cli.dir, 'svc_two', ...FOLDER, 'a'), 'utf8'), 'x')
  })

  test('refuses a damaged store', async (t) => {
    const cli = await demoCli(t)
    const store = join(cli.root, 'store', 'svc.db')
    const bytes = fs.readFileSync(store)
    bytes.fill(0x5a, 3 * 4096, 9 * 4096)
    fs.writeFileSync(store, bytes)
    const dir = tempDir(t)
    const { code, stderr } = await cli.run(['backup', 'demo', join(dir, 'b')])
    assert.equal(code, 1)
    assert.match(stderr, /^svc: the store at .* is damaged/)
    assert.deepEqual([fs.readdirSync(dir), fs.readdirSync(join(cli.root, 'store'))], [[], ['svc.db']])
  })

  test('shows progress only on a terminal', async (t) => {
    const cli = await demoCli(t)
    const dir = tempDir(t)
    assert.equal((await cli.run(['backup', 'demo', join(dir, 'a')])).stderr, '')
    assert.match((await cli.run(['backup', 'demo', join(dir, 'b')], { terminal: true })).stderr, /copying the store/)
  })
})

suite('svc restore', () => {
  test('does not change an existing instance and suggests what to do', async (t) => {
    const cli = await demoCli(t)
    const file = join(tempDir(t), 'b')
    await cli.ok(['backup', 'demo', file])
    const before = fs.readFileSync(join(cli.root, '.env'))
    const { code, stderr } = await cli.run(['restore', file, 'demo'])
    assert.equal(code, 1)
    assert.match(
      stderr,
      /already exists; nothing was changed\nhint: restore under another name, or move it away first: mv /,
    )
    assert.deepEqual(fs.readFileSync(join(cli.root, '.env')), before)
    assert.match((await cli.run(['restore', `${file}x`, 'two'])).stderr, /does not exist/)
    assert.match((await cli.run(['restore', cli.root, 'two'])).stderr, /not a regular file/)
    await cli.ok(['restore', file, 'two'])
    assert.deepEqual(fs.readdirSync(cli.dir), ['svc_demo', 'svc_two'])
  })

  test('refuses a damaged archive with one sentence and writes nothing', async (t) => {
    const cli = await demoCli(t)
    const [file, bad] = [join(tempDir(t), 'b'), join(tempDir(t), 'bad')]
    await cli.ok(['backup', 'demo', file])
    const whole = fs.readFileSync(file)
    const flipped = (at: number): Buffer => {
      const bytes = Buffer.from(whole)
      bytes[at] = (bytes[at] ?? 0) ^ 0x10
      return bytes
    }
    const inside = zstdDecompressSync(whole)
    inside[inside.indexOf('ASSISTANT_NAME')] = 0x42
    const cases = [
      ...[0, 40, 200, whole.length >> 1, whole.length - 3].map(flipped),
      ...[0, 10, whole.length >> 1, whole.length - 1].map((length) => whole.subarray(0, length)),
      zstdCompressSync(inside),
      zstdCompressSync(Buffer.from('hello')),
      Buffer.from('hello'),
    ]
    for (const [index, bytes] of cases.entries()) {
      fs.writeFileSync(bad, bytes)
      const { code, stderr } = await cli.run(['restore', bad, 'two'])
      assert.equal(code, 1, `case ${index}`)
      assert.match(stderr, /^svc: .*(damaged|cut short|not a backup)[^\n]*\n(hint: .*\n)?$/, `case ${index}`)
      assert.deepEqual(fs.readdirSync(cli.dir), ['svc_demo'])
    }
  })

  test('refuses an intact archive with forged content', async (t) => {
    const cli = await demoCli(t)
    const bad = join(tempDir(t), 'bad')
    const hostile: [RegExp, ArchiveEntry[], object?][] = [
      [/no place/, [makeTextEntry('evil', '', 0)]],
      [/no place/, [makeDirectoryEntry('files', 0), makeTextEntry('files/evil', '', 0)]],
      [
        /not a settings file/,
        [makeDirectoryEntry('settings', 0), { ...makeTextEntry('settings/.env', '', 0), kind: 'link', link: '/etc' }],
      ],
      [/not a settings file/, [makeDirectoryEntry('settings', 0), makeTextEntry('settings/evil', '', 0)]],
      [/unknown table/, [makeDirectoryEntry('store', 0), makeDirectoryEntry('store/evil', 0)]],
      [/newer svc/, [], { steps: [['groups', 999]] }],
      [/newer svc/, [], { format: 3 }],
      [/are not those of its svc version/, [], { tables: [{ name: 'groups; drop table x', columns: ['a'] }] }],
      [/header is not valid/, [], { engine: 'other' }],
      [/header is not valid/, [], { format: 0 }],
      [
        /list of the parts/,
        [
          makeDirectoryEntry('files', 0),
          makeDirectoryEntry('files/groups', 0),
          { ...makeTextEntry('files/groups/x', '1', 0), realSize: 9 },
        ],
      ],
    ]
    for (const [message, entries, header] of hostile) {
      fs.writeFileSync(bad, zstdCompressSync(await makeArchive(entries, header)))
      const { code, stderr } = await cli.run(['restore', bad, 'two'])
      assert.equal(code, 1)
      assert.match(stderr, message)
      assert.deepEqual(fs.readdirSync(cli.dir), ['svc_demo'])
    }
  })

  test('refuses rows that do not fit their tables and leaves no files', async (t) => {
    const cli = await demoCli(t)
    const bad = join(tempDir(t), 'bad')
    const { steps, tables, counters } = await openSnapshot({ path: join(cli.root, 'store', 'svc.db') }, 0)
    const store = [makeDirectoryEntry('store', 0), makeDirectoryEntry('store/groups', 0)]
    for (const line of [
      '[1]\n',
      'x\n',
      '["a"',
      `${JSON.stringify(tables.find(({ name }) => name === 'groups')?.columns.map(() => null))}\n`,
    ]) {
      const entries = [...store, makeTextEntry('store/groups/00000001.jsonl', line, 0)]
      fs.writeFileSync(bad, zstdCompressSync(await makeArchive(entries, { steps, tables, counters })))
      const { code, stderr } = await cli.run(['restore', bad, 'two'])
      assert.equal(code, 1)
      assert.match(stderr, /does not fit the table groups|cut short/)
      assert.deepEqual(fs.readdirSync(cli.dir), ['svc_demo'])
    }
  })
})

async function makeArchive(entries: readonly ArchiveEntry[], header: object = {}): Promise<Buffer> {
  const about = makeArchiveHeader({
    ...{ svc: '1', instance: 'x', created_at: '2026-01-01T00:00:00.000Z', engine: 'sqlite', has_keys: false },
    ...{ left_out: [], missing_workspaces: [], steps: [], tables: [], counters: {} },
  })
  const chunks: Uint8Array[] = []
  const all = (async function* () {
    yield* entries
  })()
  // The cast allows invalid headers.
  for await (const chunk of packArchive({ ...about, ...header } as typeof about, all)) chunks.push(chunk)
  return Buffer.concat(chunks)
}
