import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { refused } from '../../test/support/host.ts'
import { needs } from '../../test/support/needs.ts'
import { fault, openRuntime } from '../../test/support/runtimes.ts'
import { heard, type ToolSocket, toolSocket } from '../../test/support/tool-socket.ts'
import { openCell } from './cell.ts'
import type { Job } from './runtime.ts'

interface Sealed extends ToolSocket {
  /** What this line of shell prints inside. */
  shell(command: string, given?: Partial<Job>): Promise<string>
}

/** A workspace as an instance has it: beside others. */
async function sealed(t: TestContext, settings: Record<string, string> = {}): Promise<Sealed> {
  const socket = await toolSocket(t)
  const runtime = await openRuntime(t, 'command', { SANDBOX: 'bwrap', ...settings })
  const home = join(socket.home, 'groups', 'team')
  mkdirSync(home, { recursive: true })
  mkdirSync(join(socket.home, 'groups', 'other'))
  writeFileSync(join(socket.home, 'groups', 'other', 'secret'), 'of another')
  const job = (given: Partial<Job> = {}): Job =>
    socket.job({ folder: 'team', home, logFile: join(home, 'logs', 't1.log'), ...given })
  return {
    ...socket,
    home,
    job,
    shell: async (command, given) => (await runtime.run(job({ config: { command }, ...given }))).result ?? '',
  }
}

suite('a process in a cell', needs('bubblewrap'), () => {
  test('T12: has its workspace at /home/node, and can write there', async (t) => {
    const { shell, home } = await sealed(t)
    assert.equal(
      await shell('pwd; echo $HOME; echo $SVC_SOCKET; echo text > note; id -u'),
      `/home/node\n/home/node\n/run/ipc/gated.sock\n${process.getuid?.()}`,
    )
    assert.equal(readFileSync(join(home, 'note'), 'utf8'), 'text\n')
  })

  test('sees no other workspace, no other file of anybody, and no other process', async (t) => {
    const { shell, home } = await sealed(t)
    const other = join(dirname(home), 'other', 'secret')
    assert.equal(await shell(`cat ${other} 2>/dev/null || echo none`), 'none')
    for (const folder of ['/root', '/home', '/srv', '/var', '/tmp']) {
      const seen = (await shell(`ls ${folder} 2>/dev/null || true`)).split('\n').filter(Boolean)
      // The program itself may lie there, and the workspace lies at /home/node.
      const ours = [import.meta.dirname, '/home/node'].flatMap((path) =>
        path.startsWith(`${folder}/`) ? [path.slice(folder.length + 1).split('/')[0]] : [],
      )
      assert.deepEqual(
        seen.filter((name) => !ours.includes(name)),
        [],
        folder,
      )
    }
    assert.equal(
      await shell(`test -e /proc/${process.pid}/environ && grep -c node /proc/${process.pid}/cmdline || echo none`),
      'none',
    )
    assert.equal(await shell('(echo x > /usr/bin/svc-test) 2>/dev/null || echo no'), 'no')
    assert.equal(await shell('mount -t tmpfs none /usr 2>/dev/null || echo no'), 'no')
  })

  test('is told its secrets, which no list of processes shows, and nothing can act before the cell', async (t) => {
    const { shell, home } = await sealed(t)
    writeFileSync(join(home, 'evil.so'), 'not even a library')
    const env = { MY_KEY: 'mine', LD_PRELOAD: join(home, 'evil.so') }
    assert.match(await shell('echo $MY_KEY; tr "\\0" " " < /proc/1/cmdline', { env }), /^mine\n(?!.*mine)/)
  })

  test('may read what SANDBOX_PATHS names', async (t) => {
    const { home } = await toolSocket(t)
    writeFileSync(join(home, 'shown'), 'hello')
    const { shell } = await sealed(t, { SANDBOX_PATHS: `${home}/nothing:${join(home, 'shown')}` })
    assert.equal(await shell(`cat ${join(home, 'shown')}`), 'hello')
  })

  test('a workspace that is a link to elsewhere is not entered', async (t) => {
    const { shell, home } = await sealed(t)
    renameSync(home, `${home}-moved`)
    symlinkSync(join(dirname(home), 'other'), home)
    await assert.rejects(shell('ls'), fault('terminal', /is a link to somewhere else/))
  })

  test('what cannot be started there is said', async (t) => {
    const { job } = await sealed(t)
    const runtime = await openRuntime(t, 'command', { SANDBOX: 'bwrap' })
    const running = runtime.run(job({ config: { command: ['no-such-program'] } }))
    await assert.rejects(running, fault('terminal', /no-such-program could not be started/))
  })

  test('a stop ends all that runs in it', async (t) => {
    const { shell } = await sealed(t)
    await assert.rejects(
      shell("trap '' TERM; setsid sleep 1000 & sleep 1000", { hangMs: 300 }),
      fault('again', /no sign of life/),
    )
  })

  test('the demo works there, each folder in its own', async (t) => {
    const { job, said, home } = await sealed(t)
    const runtime = await openRuntime(t, 'demo', { SANDBOX: 'bwrap' })
    for (const text of ['/say one', '/say two']) await runtime.run(job(heard(text)))
    const other = join(dirname(home), 'other')
    writeFileSync(join(other, 'demo.script'), '/say from {folder}')
    await runtime.run(job({ ...heard('hi'), folder: 'other', home: other }))
    assert.deepEqual(said, ['one', 'two', 'from other'])
    const without = runtime.run(job({ ...heard('hi'), folder: 'new', home: join(dirname(home), 'new') }))
    await assert.rejects(without, fault('terminal', /no workspace/))
    mkdirSync(join(dirname(home), 'new'))
    const mute = { ...heard('hi'), folder: 'new', home: join(dirname(home), 'new'), socket: join(home, 'none.sock') }
    await assert.rejects(runtime.run(job(mute)), fault('unavailable', /socket of new is not there/))
  })
})

suite('without bubblewrap', () => {
  const withoutPrograms = (t: TestContext): void => {
    const { PATH } = process.env
    process.env.PATH = '/nowhere'
    t.after(() => {
      process.env.PATH = PATH
    })
  }

  test('SANDBOX=bwrap is refused, and nothing said warns', async (t) => {
    withoutPrograms(t)
    const warnings: string[] = []
    await assert.rejects(openCell('bwrap', [], assert.fail), refused('unavailable', 'bubblewrap is not installed'))
    assert.equal((await openCell(undefined, [], (sentence) => warnings.push(sentence))).kind, 'none')
    assert.match(warnings.join(), /bubblewrap is not installed.*SANDBOX=none/)
    assert.equal((await openCell('none', [], assert.fail)).kind, 'none')
    assert.equal(warnings.length, 1)
  })
})
