// The cell of an agent: what its processes see, may write and may use, and how a cell that cannot start is reported.
import assert from 'node:assert/strict'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { openCell } from '../../src/cell/open-cell.ts'
import { CELL_SETTINGS, type CellSettings } from '../../src/cell/settings.ts'
import { UnconfinedCell } from '../../src/cell/unconfined-cell.ts'
import { Directory } from '../../src/lib/files/directory.ts'
import { readSettings, sourceOf } from '../../src/lib/settings.ts'
import type { Job } from '../../src/runtimes/runtime.ts'
import { agentDir, giveToAgents, makeAgentDir } from '../support/agent-files.ts'
import { isRefusal } from '../support/host.ts'
import { needs } from '../support/needs.ts'
import { isRunFault, openRuntime } from '../support/runtimes.ts'
import { tempDir } from '../support/temp.ts'
import { messagesOf, type ToolSocket, toolSocket, VISITOR_VIEW } from '../support/tool-socket.ts'
import { until } from '../support/until.ts'

interface CellFixture extends ToolSocket {
  /** Runs a shell line in the cell and returns its output. */
  shell(command: string, given?: Partial<Job>): Promise<string>
}

/** A workspace beside others, as in an instance. */
async function openCellFixture(t: TestContext, settings: Record<string, string> = {}): Promise<CellFixture> {
  const socket = await toolSocket(t)
  const runtime = await openRuntime(t, 'command', { SANDBOX: 'bwrap', ...settings })
  const groups = makeAgentDir(join(socket.home, 'groups'))
  const home = makeAgentDir(join(groups, 'team'))
  writeFileSync(join(makeAgentDir(join(groups, 'other')), 'secret'), 'of another')
  const job = (given: Partial<Job> = {}): Job =>
    socket.job({ folder: 'team', home, logFile: join(socket.home, 't1.log'), ...given })
  return {
    ...socket,
    home,
    job,
    shell: async (command, given) => (await runtime.run(job({ config: { command }, ...given }))).result ?? '',
  }
}

function settingsOf(settings: Record<string, string> = {}): CellSettings {
  return readSettings(CELL_SETTINGS, [sourceOf('the test', new Map(Object.entries(settings)))])
}

suite('a process in a cell', needs('bubblewrap', 'kernel'), () => {
  test('has its workspace at /home/node, can write there, and is never root', async (t) => {
    const { shell, home } = await openCellFixture(t)
    const uid = process.getuid?.() === 0 ? 60_000 : process.getuid?.()
    assert.equal(
      await shell('pwd; echo $HOME; echo $SVC_SOCKET; echo text > note; id -u; id -un'),
      `/home/node\n/home/node\n/run/ipc/gated.sock\n${uid}\nagent`,
    )
    assert.equal(readFileSync(join(home, 'note'), 'utf8'), 'text\n')
  })

  test('sees no other workspace, no files of users, and no other process', async (t) => {
    const { shell, home } = await openCellFixture(t)
    const other = join(dirname(home), 'other', 'secret')
    assert.equal(await shell(`cat ${other} 2>/dev/null || echo none`), 'none')
    assert.equal(await shell('ls /home /tmp /run /var'), '/home:\nnode\n\n/run:\nipc\n\n/tmp:\n\n/var:\nrun\ntmp')
    assert.equal(await shell('ls -d /root /srv /mnt /media /boot /sys 2>/dev/null || echo none'), 'none')
    assert.equal((await shell('ls /proc | grep -c "^[0-9]"').then(Number)) < 8, true)
    assert.equal(await shell('(echo x > /usr/bin/svc-test) 2>/dev/null || echo no'), 'no')
  })

  test('can write only to its workspace and its temporary directories', async (t) => {
    const { shell } = await openCellFixture(t)
    const places = '/ /dev /run /run/ipc /etc /home /svc /var /proc /usr /opt'
    assert.equal(await shell(`for at in ${places}; do touch $at/x 2>/dev/null && echo $at; done; true`), '')
    assert.equal(
      await shell('for at in /tmp /var/tmp /dev/shm /home/node; do touch $at/x && echo $at; done'),
      '/tmp\n/var/tmp\n/dev/shm\n/home/node',
    )
  })

  test('has a bounded /tmp', async (t) => {
    const { shell } = await openCellFixture(t, { AGENT_MAX_MEMORY: '256MiB' })
    assert.match(await shell('dd if=/dev/zero of=/tmp/x bs=1M count=65 2>&1; true'), /No space left/)
    assert.match(await shell('dd if=/dev/zero of=/tmp/x bs=1M count=63 2>&1'), /63\+0 records out/)
  })

  test('gets its secrets, which no process list shows, and they cannot affect the setup of the cell', async (t) => {
    const { shell, home } = await openCellFixture(t)
    writeFileSync(join(home, 'evil.so'), 'not even a library')
    const env = { MY_KEY: 'mine', LD_PRELOAD: join(home, 'evil.so') }
    assert.match(await shell('echo $MY_KEY; tr "\\0" " " < /proc/1/cmdline', { env }), /^mine\n(?!.*mine)/)
  })

  test('gets no variable that contains a control character', async (t) => {
    const { shell } = await openCellFixture(t)
    const env = { GOOD: 'a\tb\nc', BAD: 'x\u0000--bind\u0000/\u0000/mnt', ALSO: 'x\u001b[2J', SVC_TURN: 'forged' }
    assert.equal(
      await shell('env | grep -aE "^(BAD|ALSO)" || echo none; ls /mnt 2>&1 | head -1', { env }),
      "none\nls: cannot access '/mnt': No such file or directory",
    )
    assert.equal(await shell('printf %s "$GOOD" | od -An -c; echo $SVC_TURN', { env }), 'a  \\t   b  \\n   c\nt1')
  })

  test('can read the paths of SANDBOX_PATHS at their original place', async (t) => {
    const shown = agentDir(t)
    writeFileSync(join(shown, 'text'), 'hello')
    const { shell } = await openCellFixture(t, { SANDBOX_PATHS: `${shown}/nothing:${shown}` })
    assert.equal(await shell(`cat ${shown}/text; touch ${shown}/x 2>/dev/null || echo no`), 'hellono')
  })

  test('inherits no descriptor and writes no core dump', async (t) => {
    const { shell } = await openCellFixture(t)
    // Without `ls` and pipelines, because both open descriptors themselves.
    const list = `perl -e 'print grep { -e "/proc/self/fd/$_" } 0 .. 255'`
    assert.equal(await shell(`ulimit -c; ulimit -Hc; exec ${list}`), '0\n0\n012')
  })

  test('has resource limits and cannot raise them', async (t) => {
    const { shell } = await openCellFixture(t, {
      AGENT_MAX_PROCESSES: '20',
      AGENT_MAX_FILES: '64',
      AGENT_MAX_CPU: '90s',
    })
    assert.equal(
      await shell('ulimit -Hn; ulimit -Ht; ulimit -Hp; ulimit -n 65 2>/dev/null || echo no'),
      '64\n90\n20\nno',
    )
    const forks = 'for (1 .. 30) { my $pid = fork; if (!defined $pid) { print $_; last } if (!$pid) { sleep 9; exit } }'
    // The limit also counts the processes of bubblewrap, the shell and Perl.
    assert.equal(await shell(`perl -e '${forks}'`), '18')
  })

  test('is ended when it uses more memory than allowed', async (t) => {
    const { shell } = await openCellFixture(t, { AGENT_MAX_MEMORY: '300MiB' })
    const hold = (mebibytes: number): string => `perl -e 'vec($held, (${mebibytes} << 20) - 1, 8) = 1; sleep 100'`
    // Each of them stays below the limit for one process.
    await assert.rejects(
      shell(`${hold(200)} & ${hold(200)} & wait`),
      isRunFault('terminal', /more than 300 MiB of memory/),
    )
    await assert.rejects(shell(hold(400)), isRunFault('retryable', /Out of memory/))
  })

  test('reports a missing program differently from a failing one', async (t) => {
    const { job } = await openCellFixture(t)
    const runtime = await openRuntime(t, 'command', { SANDBOX: 'bwrap' })
    const start = (command: string[]): Promise<unknown> => runtime.run(job({ config: { command } }))
    await assert.rejects(
      start(['no-such-program']),
      isRunFault('terminal', /^no-such-program could not be started: no such file/),
    )
    await assert.rejects(
      start(['/etc/passwd']),
      isRunFault('terminal', /^\/etc\/passwd could not be started: permission denied/),
    )
    await assert.rejects(start(['/bin/false']), isRunFault('retryable', /exit code 1/))
    await assert.rejects(start(['/bin/true', 'a\0b']), isRunFault('terminal', /contains a NUL/))
  })

  test('does not start without its workspace', async (t) => {
    const { shell, home } = await openCellFixture(t)
    renameSync(home, `${home}-moved`)
    await assert.rejects(shell('ls'), isRunFault('terminal', /no workspace/))
  })

  test('reports a failed setup to the operator but not to visitors', async (t) => {
    const { shell } = await openCellFixture(t)
    await assert.rejects(shell('ls', { socket: '/no/such/socket' }), (error) => {
      assert.ok(isRunFault('unavailable', /^its cell could not be set up: .*\/no\/such\/socket/)(error))
      assert.equal(Reflect.get(Object(error), 'failure'), 'failed')
      return true
    })
  })

  test('ends together with all its child processes', async (t) => {
    const { shell } = await openCellFixture(t)
    await assert.rejects(
      shell("trap '' TERM; setsid sleep 1000 & sleep 1000", { hangMs: 300 }),
      isRunFault('retryable', /no activity/),
    )
  })

  test('gets SIGTERM before it is killed', async (t) => {
    const { shell, home } = await openCellFixture(t)
    const stop = new AbortController()
    const running = shell("trap 'echo bye > bye; exit' TERM; echo ready > ready; while :; do sleep 0.1; done", {
      signal: stop.signal,
    })
    await until(() => existsSync(join(home, 'ready')))
    stop.abort()
    await assert.rejects(running, isRunFault('retryable', /it was stopped/))
    assert.equal(readFileSync(join(home, 'bye'), 'utf8'), 'bye\n')
  })

  test('can run the programs that come with svc, wherever svc is installed', async (t) => {
    const { shell } = await openCellFixture(t)
    assert.equal(await shell('/svc/node_modules/.bin/node -p process.version'), process.version)
  })
})

suite('a cell below a directory that other users cannot enter', needs('root', 'bubblewrap', 'kernel'), () => {
  const makeClosedGroups = (t: TestContext): string => {
    const closed = tempDir(t)
    chmodSync(closed, 0o700)
    const groups = join(closed, 'groups')
    mkdirSync(groups)
    giveToAgents(groups)
    return groups
  }

  test('shows the workspace and nothing beside it', async (t) => {
    const groups = makeClosedGroups(t)
    writeFileSync(join(groups, '..', 'secret'), 'not yours')
    const home = makeAgentDir(join(groups, 'team'))
    const { job } = await toolSocket(t)
    const runtime = await openRuntime(t, 'command', { SANDBOX: 'bwrap' }, { groups })
    const command =
      'echo text > note; id -u; ls -a; find / -name secret -not -path "/usr/*" -not -path "/proc/*" 2>/dev/null | head'
    const { result } = await runtime.run(job({ folder: 'team', home, config: { command } }))
    assert.equal(result, '60000\n.\n..\nnote')
    assert.equal(readFileSync(join(home, 'note'), 'utf8'), 'text\n')
  })

  test("shows the public part of the workspace and the directory of a visitors' chat", async (t) => {
    const groups = makeClosedGroups(t)
    const home = makeAgentDir(join(groups, 'team'))
    for (const [path, text] of [
      ['PERSONA.md', 'who'],
      ['work.md', 'at work'],
      [join(basename(makeAgentDir(join(home, 'facts'))), 'a.md'), 'a fact'],
    ] as const)
      writeFileSync(join(home, path), text)
    const chats = join(groups, '..', 'chats')
    const path = makeAgentDir(join(chats, 'team', 'one'))
    const { job } = await toolSocket(t)
    const runtime = await openRuntime(t, 'command', { SANDBOX: 'bwrap' }, { groups, chats })
    const chat = { path, open: async () => (await Directory.open(path)) ?? assert.fail(), ...VISITOR_VIEW }
    const command = 'echo text > ~/note; cat PERSONA.md facts/a.md; echo; ls -A; touch x facts/x 2>/dev/null; true'
    const { result } = await runtime.run(job({ folder: 'team', home, chat, config: { command } }))
    assert.equal(result, 'whoa fact\n.claude\nPERSONA.md\nfacts')
    assert.equal(readFileSync(join(path, 'note'), 'utf8'), 'text\n')
  })

  test('leaves no mount behind', async (t) => {
    const mounts = (): string[] => readFileSync('/proc/self/mountinfo', 'utf8').split('\n')
    const before = mounts().length
    const cell = await openCell({
      settings: settingsOf(),
      groups: makeClosedGroups(t),
      chats: '/nowhere',
      files: '/nowhere',
    })
    assert.equal(mounts().length, before)
    const [view = ''] = readdirSync(tmpdir()).filter((name) => name.startsWith(`svc-view-${process.pid}-`))
    assert.deepEqual(readdirSync(join(tmpdir(), view)), [])
    await cell.close()
    assert.ok(!existsSync(join(tmpdir(), view)))
  })
})

suite('the demo', needs('root'), () => {
  test('drops root before its first turn', async (t) => {
    const { job } = await toolSocket(t)
    const runtime = await openRuntime(t, 'demo')
    await runtime.run(job(messagesOf('/say hello')))
    const children = readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').trim().split(' ')
    const about = (pid: string, file: string): string =>
      existsSync(`/proc/${pid}/${file}`) ? readFileSync(`/proc/${pid}/${file}`, 'utf8') : ''
    const demos = children.filter((pid) => about(pid, 'cmdline').includes('demo/agent'))
    assert.ok(demos.length > 0)
    for (const pid of demos) assert.match(about(pid, 'status'), /^Uid:\t60000\t60000\t60000\t60000$/m)
  })
})

suite('without working cells', () => {
  const { PATH } = process.env
  const withPath = (t: TestContext, path: string): void => {
    process.env.PATH = path
    t.after(() => {
      process.env.PATH = PATH
    })
  }

  test('the error names bubblewrap or perl and how to install them', async (t) => {
    const programs = tempDir(t)
    withPath(t, programs)
    const open = () => openCell({ settings: settingsOf(), groups: programs, chats: '/nowhere', files: '/nowhere' })
    await assert.rejects(open(), isRefusal('unavailable', 'bubblewrap is not installed'))
    writeFileSync(join(programs, 'bwrap'), '#!/bin/sh\necho why not >&2\nexit 1\n', { mode: 0o755 })
    await assert.rejects(open(), isRefusal('unavailable', 'perl is not installed'))
    withPath(t, `${programs}:/usr/bin:/bin`)
    await assert.rejects(open(), isRefusal('unavailable', '(why not)'))
  })

  test('runs fail and the warning says how to fix it', async (t) => {
    const socket = await toolSocket(t)
    withPath(t, '/nowhere')
    const warnings: string[] = []
    const runtime = await openRuntime(
      t,
      'command',
      { SANDBOX: 'bwrap' },
      { warn: (sentence) => warnings.push(sentence) },
    )
    const running = runtime.run(socket.job({ config: { command: 'true' } }))
    await assert.rejects(running, isRunFault('unavailable', /^agents cannot run: /))
    assert.deepEqual(warnings, [
      'agents cannot run: bubblewrap is not installed; apt-get install bubblewrap perl-base, or set SANDBOX=none in .env to run agents without a sandbox',
    ])
  })
})

test('a cell rejects arguments and variables with a NUL', async (t) => {
  const home = agentDir(t)
  symlinkSync('nowhere', join(home, 'socket'))
  const cell = new UnconfinedCell(undefined, { processes: 1, memoryBytes: 1, files: 1, cpuMs: 1 })
  const place = { folder: 'a', home, socket: '', openHome: async () => ({ fd: -1, close: async () => undefined }) }
  await fc.assert(
    fc.asyncProperty(fc.array(fc.string()), fc.dictionary(fc.string(), fc.string()), async (argv, env) => {
      const hasNul = [...argv, ...Object.entries(env).flat()].some((text) => text.includes('\0'))
      const preparing = cell.prepareSpawn(place, argv, env)
      if (hasNul)
        await assert.rejects(
          preparing,
          isRefusal('invalid', 'an argument or environment variable of a run contains a NUL character'),
        )
      else await preparing
    }),
  )
})
