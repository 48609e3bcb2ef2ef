// Attacks on and with processes: signals, priorities, memory, daemonized children and excessive use of resources.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync, readFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { type TestContext, test } from 'node:test'
import { processTree } from '../../src/cell/resource-usage.ts'
import {
  agentUidOf,
  attackHost,
  FailedAttack,
  forEachUser,
  openAttackHost,
  openFifoGate,
  type SvcUser,
} from '../support/attack.ts'
import { perl, perlCall, python } from '../support/attack-programs.ts'
import { processesWith } from '../support/processes.ts'
import { until } from '../support/until.ts'

/** Signals that are ignored without a handler, so that a leaking cell would not end processes of the machine. */
const HARMLESS = ['URG', 'WINCH', 'CONT']

/** Counts signals until stdin ends, then prints the count. */
const VICTIM = `$| = 1; my $count = 0; $SIG{$_} = sub { $count++ } for qw(${HARMLESS.join(' ')});
my $secret = 'secret' . ' of the victim'; print "ready\\n"; 1 until !defined sysread(STDIN, my $text, 1) ? 0 : 1; print "$count\\n";`

interface Victim {
  readonly child: ChildProcess & { readonly pid: number }
  /** Ends the process and returns the number of received signals. */
  signals(): Promise<number>
}

/** A process on the host with the user of the agents. */
async function startVictim(t: TestContext, user: SvcUser): Promise<Victim> {
  const uid = agentUidOf(user)
  const identity = process.getuid?.() === 0 ? { uid, gid: uid } : {}
  const child = spawn('perl', ['-e', VICTIM], { ...identity, stdio: ['pipe', 'pipe', 'inherit'], cwd: '/' })
  t.after(() => void child.kill('SIGKILL'))
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  assert.equal((await lines.next()).value, 'ready')
  const { pid } = child
  assert.ok(pid !== undefined)
  return {
    child: Object.assign(child, { pid }),
    signals: async () => {
      child.stdin.end()
      return Number((await lines.next()).value)
    },
  }
}

function markOf(run: number): string {
  return `svc-test-${process.pid}-${Math.trunc(performance.now())}-${run}`
}

/** A shell command that starts processes outside of its session and group, which ignore signals. */
function daemonize(mark: string, count: number): string {
  const sleep = `(trap "" TERM HUP INT; exec perl -e "sleep 1000" ${mark}) > /dev/null 2>&1 < /dev/null &`
  return `for n in $(seq ${count}); do setsid sh -c '${sleep}'; done; until [ $(grep -la ${mark} /proc/[0-9]*/cmdline 2>/dev/null | wc -l) -gt ${count} ]; do :; done`
}

function statusOf(pid: number): Record<string, string> {
  const lines = readFileSync(`/proc/${pid}/status`, 'utf8').split('\n')
  return Object.fromEntries(lines.map((line) => line.split(/:\s*/, 2)))
}

forEachUser('processes', ['python'], (user) => {
  const host = attackHost(user, {
    ...{ AGENT_MAX_PROCESSES: '60', AGENT_MAX_FILES: '256', AGENT_MAX_MEMORY: '256MiB', AGENT_MAX_CPU: '30s' },
  })

  test('of a cell are never root and have no capabilities, as seen from the host', async (t) => {
    const { attack, home, pid } = host()
    const gate = openFifoGate(join(home(), 'gate'))
    t.after(() => rmSync(join(home(), 'gate')))
    const attacking = attack('sleep 1000 & cat gate > /dev/null; kill $!')
    await gate.reached()
    // Without the `cat` process with which svc keeps its mount view, if there is one.
    const isOfSvc = ({ Name, NSpid }: Record<string, string>): boolean => Name === 'cat' && !NSpid?.includes('\t')
    const inside = (await processTree(pid))
      .slice(1)
      .map(statusOf)
      .filter((status) => !isOfSvc(status))
    await gate.open()
    await attacking
    // Two of bubblewrap, the shells, sleep and cat.
    assert.ok(inside.length >= 5, String(inside.length))
    const uid = String(agentUidOf(user))
    for (const { Name = '', Uid, Gid, Groups, CapPrm, CapEff, CapInh, CapAmb, NoNewPrivs } of inside) {
      assert.equal(Uid, [uid, uid, uid, uid].join('\t'), Name)
      assert.equal(Gid, [uid, uid, uid, uid].join('\t'), Name)
      assert.ok(Groups === undefined || Groups.trim() === '' || Groups.trim() === uid, `${Name}: ${Groups}`)
      assert.deepEqual(new Set([CapPrm, CapEff, CapInh, CapAmb]), new Set(['0'.repeat(16)]), Name)
      assert.equal(NoNewPrivs, '1', Name)
    }
  })

  test('all have the system call filter and the limits of the run', async () => {
    const { attack } = host()
    assert.equal(await attack(`grep -h ^Seccomp: /proc/[0-9]*/status | sort -u`), 'Seccomp:\t2')
    const limits = `grep -hE "core file|processes|open files|cpu time|data size" /proc/[0-9]*/limits | tr -s " " | sort -u`
    assert.deepEqual(
      (await attack(limits)).split('\n').map((line) => line.trim()),
      [
        'Max core file size 0 0 bytes',
        'Max cpu time 30 30 seconds',
        `Max data size ${256 << 20} ${256 << 20} bytes`,
        'Max open files 256 256 files',
        'Max processes 60 60 processes',
      ],
    )
  })

  test('of the host receive no signals for any process id', async (t) => {
    const victim = await startVictim(t, user)
    const max = Number(readFileSync('/proc/sys/kernel/pid_max', 'utf8'))
    const program = `$SIG{$_} = 'IGNORE' for qw(${HARMLESS.join(' ')}); my $hits = 0;
      for my $pid (1 .. ${max}) { $hits += kill('URG', $pid); $hits += kill('WINCH', -$pid) }
      kill 'CONT', -1; kill 'URG', ${victim.child.pid}; print $hits < 50 ? 'few' : $hits`
    assert.equal(await host().attack(perl(program)), 'few')
    assert.equal(await victim.signals(), 0)
  })

  test('of the host cannot be opened, slowed down, limited or read', async (t) => {
    const victim = await startVictim(t, user)
    const { pid } = victim.child
    const before = [
      readFileSync(`/proc/${pid}/stat`, 'utf8').split(' ')[18],
      readFileSync(`/proc/${pid}/limits`, 'utf8'),
    ]
    const uid = agentUidOf(user)
    const lines = await host().attack(
      perl(
        [
          perlCall('pidfd_open', pid, 0),
          perlCall('setpriority', 0, pid, 19),
          perlCall('ioprio_set', 1, pid, 3 << 13),
          perlCall('prlimit64', pid, 7, 'pack("QQ", 1, 1)', 0),
          // For all processes of the user: this succeeds for those in the cell.
          perlCall('setpriority', 2, uid, 19),
          perlCall('ioprio_set', 3, uid, 3 << 13),
          `print -e '/proc/${pid}/mem' ? "there\\n" : "absent\\n";`,
          `print open(my $file, '>', '/proc/${pid}/oom_score_adj') ? "opened\\n" : "$!\\n";`,
        ].join('\n'),
      ),
    )
    const none = 'No such process'
    assert.deepEqual(lines.split('\n'), [none, none, none, none, 'done', 'done', 'absent', 'No such file or directory'])
    assert.deepEqual(
      [readFileSync(`/proc/${pid}/stat`, 'utf8').split(' ')[18], readFileSync(`/proc/${pid}/limits`, 'utf8')],
      before,
    )
    assert.equal(await victim.signals(), 0)
  })

  test('cannot read, write, trace or end the first process of the cell', async () => {
    const look = `
import os
def attempt(name, work):
    try:
        work('/proc/1/' + name)
        print('opened', name)
    except PermissionError: pass
for name in ('fd', 'ns', 'task/1/fd'): attempt(name, os.listdir)
for name in ('root', 'cwd', 'exe'): attempt(name, os.readlink)
for name in ('environ', 'maps', 'auxv', 'mem', 'task/1/mem'): attempt(name, lambda path: open(path, 'rb').read(1))
for name in ('mem', 'oom_score_adj', 'clear_refs'): attempt(name, lambda path: open(path, 'r+b'))
for number in range(1, 65): os.kill(1, number)
print('alive')`
    assert.equal(await host().attack(python(look)), 'alive')
    const calls = [perlCall('ptrace', 16, 1, 0, 0), perlCall('process_vm_writev', 1, 0, 0, 0, 0, 0)]
    const refused = 'Operation not permitted'
    assert.deepEqual((await host().attack(perl(calls.join('\n')))).split('\n'), [refused, refused])
  })

  test('that daemonize have ended when the run has', async () => {
    for (let run = 0; run < 5; run++) {
      const mark = markOf(run)
      assert.equal(await host().attack(`${daemonize(mark, 20)}; echo started`), 'started')
      assert.deepEqual(processesWith(mark), [])
    }
  })

  test('end with the program that svc starts them with, before the run counts as ended', async (t) => {
    const { attack, home, pid } = host()
    const mark = markOf(0)
    const gate = openFifoGate(join(home(), 'gate'))
    t.after(() => rmSync(join(home(), 'gate')))
    const attacking = attack(`${daemonize(mark, 20)}; cat gate > /dev/null`)
    await gate.reached()
    const outer = (await processTree(pid)).find((each) => statusOf(each).Name === 'bwrap')
    assert.ok(outer !== undefined)
    process.kill(outer, 'SIGKILL')
    await assert.rejects(attacking, FailedAttack)
    assert.deepEqual(processesWith(mark), [])
    await gate.open()
  })

  test('end when svc is killed', async (t) => {
    const other = await openAttackHost(t, user)
    const mark = markOf(0)
    const gate = openFifoGate(join(other.home(), 'gate'))
    const attacking = other.attack(`${daemonize(mark, 20)}; cat gate > /dev/null`)
    await gate.reached()
    assert.ok(processesWith(mark).length >= 20)
    process.kill(other.pid, 'SIGKILL')
    await assert.rejects(attacking)
    await until(() => processesWith(mark).length === 0)
    await gate.open()
  })

  test('cannot exceed the process limit', async () => {
    const program = `open my $births, '>>', '/tmp/births'; my $first = $$;
      while (defined(my $pid = fork)) { syswrite $births, 'x' if !$pid }
      if ($$ != $first) { sleep 1000; exit }
      print -s '/tmp/births'`
    const births = Number(await host().attack(perl(program)))
    assert.ok(births > 0 && births < 60, String(births))
    // The limit also counts the process of bubblewrap, the shell and the parent itself.
    const alone = 'my $n = 0; while (defined(my $pid = fork)) { if (!$pid) { sleep 1000; exit } $n++ } print $n'
    const count = Number(await host().attack(perl(alone)))
    assert.ok(count > 50 && count < 60, String(count))
    // The next run has its own limit.
    assert.equal(await host().attack('echo alive'), 'alive')
  })

  test('cannot open more files than the limit or exhaust the files of svc', async () => {
    const program = `my @open; while (open my $file, '<', '/dev/null') { push @open, $file } print scalar(@open), " $!"`
    assert.equal(await host().attack(perl(program)), '253 Too many open files')
    const connect = `import socket
kept = []
try:
    while True:
        kept.append(socket.socket(socket.AF_UNIX))
        kept[-1].connect('/run/ipc/gated.sock')
except OSError as error:
    print(error.strerror)`
    assert.equal(await host().attack(python(connect)), 'Too many open files')
    assert.equal(await host().attack('echo alive'), 'alive')
  })

  test('can fill only the temporary directories, which are empty in the next run', async () => {
    const { attack } = host()
    const fill = ['/tmp', '/var/tmp', '/dev/shm'].map((at) => `head -c 100M /dev/zero > ${at}/x; stat -c %s ${at}/x`)
    const bounded = String(64 << 20)
    assert.equal(await attack(fill.join('; '), { silent: true }), [bounded, bounded, bounded].join('\n'))
    assert.equal(await attack('ls -A /tmp /var/tmp /dev/shm'), '/dev/shm:\n\n/tmp:\n\n/var/tmp:')
    for (const place of ['/', '/run', '/dev', '/etc'])
      assert.match(await attack(`head -c 1M /dev/zero > ${place}/x`), /Read-only file system|Permission denied/)
  })

  test('can print any amount, of which svc keeps a bounded part', async () => {
    const { attack, root } = host()
    await assert.rejects(attack(`exec perl -e 'print "x" x 1048576 for 1 .. 12'`), /its answer is longer than/)
    assert.ok(statSync(join(root, 'turn.log')).size <= 11 * 1024 * 1024)
    assert.equal(await attack('echo alive'), 'alive')
  })

  test('that together use too much memory are ended', async () => {
    const hold = `perl -e 'vec($held, (120 << 20) - 1, 8) = 1; sleep 100' &`
    await assert.rejects(host().attack(`${hold.repeat(4)} wait`), (error) => {
      assert.ok(error instanceof FailedAttack)
      return /more than 256 MiB of memory/.test(error.message)
    })
  })

  test('leave no core dump and start no crash handler on the host', async () => {
    const { attack, home } = host()
    const crash = 'ulimit -c unlimited || echo refused; sh -c "kill -SEGV \\$\\$"; ulimit -c; ls -A /tmp'
    assert.match(await attack(crash), /refused\n(?:Segmentation fault\n)?0$/)
    const waiting = `if (my $pid = fork) { waitpid $pid, 0; print $? & 128 ? 'dumped' : $? } else { kill 'SEGV', $$; sleep 100 }`
    assert.equal(await attack(perl(waiting)), '11')
    assert.deepEqual(globSync('*core*', { cwd: home() }), [])
  })

  test('cannot change the clock or the host name', async () => {
    const name = readFileSync('/proc/sys/kernel/hostname', 'utf8')
    assert.equal(
      await host().attack('date -s 2001-01-01 >/dev/null && echo set; hostname x && echo set; uname -n', {
        silent: true,
      }),
      'svc',
    )
    assert.equal(readFileSync('/proc/sys/kernel/hostname', 'utf8'), name)
    assert.ok(new Date().getFullYear() > 2001)
  })

  test('share no System V memory, queues or semaphores with the host', async (t) => {
    // A segment on the host with a key that the attacker knows.
    const key = 0x5345_0000 + (process.pid & 0xffff)
    const segment = spawn('perl', [
      '-e',
      `my $id = shmget(${key}, 100, 0666 | 01000) // die; shmwrite($id, 'secret', 0, 6); $| = 1; print "ready\\n"; <STDIN>; shmctl($id, 0, 0)`,
    ])
    await once(segment.stdout, 'data')
    t.after(() => segment.stdin.end())
    assert.match(await host().attack(perl(`print defined shmget(${key}, 0, 0) ? 'found' : $!`)), /No such file/)
    assert.equal(await host().attack('tail -n +2 -q /proc/sysvipc/*'), '')
  })
})
