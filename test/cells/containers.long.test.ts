// Agents in containers of a real engine: what they see and reach, what the next turn finds, and what happens when a
// container, the engine or svc dies.
import assert from 'node:assert/strict'
import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { after, before, suite, type TestContext, test } from 'node:test'
import { canRefuseDescriptors } from '../../src/agent-socket/socket-options.ts'
import { openCell } from '../../src/cell/open-cell.ts'
import { CELL_SETTINGS } from '../../src/cell/settings.ts'
import { layout } from '../../src/core/layout.ts'
import { Directory } from '../../src/lib/files/directory.ts'
import { readSettings, sourceOf } from '../../src/lib/settings.ts'
import type { Job } from '../../src/runtimes/runtime.ts'
import { type AgentContainers, interceptEngine, openAgentContainers } from '../support/agent-containers.ts'
import { agentDir, giveToAgents, makeAgentDir } from '../support/agent-files.ts'
import {
  type AttackHost,
  agentUidOf,
  ENV_SECRET,
  FailedAttack,
  OTHER_SECRET,
  openAttackHost,
  openFifoGate,
} from '../support/attack.ts'
import { type AttackInstance, attackInstance, type ServedInstance } from '../support/attack-instance.ts'
import { perl, perlCall } from '../support/attack-programs.ts'
import { writeChatFile } from '../support/chat-files.ts'
import { FLOODS, healthDuring } from '../support/floods.ts'
import { isRefusal } from '../support/host.ts'
import { needs } from '../support/needs.ts'
import { isRunFault, openRuntime } from '../support/runtimes.ts'
import { tempDir } from '../support/temp.ts'
import { toolSocket, VISITOR_VIEW } from '../support/tool-socket.ts'
import { until } from '../support/until.ts'

/** Perl that sends descriptor 0 over a socket and prints the result. */
function sendDescriptor(socket: string): string {
  return `{ my $text = 'x'; my $vector = pack 'PQ', $text, 1; my $control = pack 'Qllll', 20, 1, 1, 0, 0;
    my $message = pack 'QLx4PQPQlx4', 0, 0, $vector, 1, $control, 24, 0;
    ${perlCall('sendmsg', `fileno ${socket}`, '$message', 0)} }`
}

const NOTE = { id: 'f1', extension: 'txt' }

suite('agents in containers', needs('root', 'kernel', 'engine'), () => {
  const endings: (() => void | Promise<void>)[] = []
  const cleanup = { after: (work: () => void | Promise<void>) => void endings.unshift(work) }
  let containers: AgentContainers
  before(async () => {
    containers = await openAgentContainers(cleanup)
  })
  after(async () => {
    for (const work of endings) await work()
    await containers.stop()
  })

  suite('a turn', () => {
    let host: AttackHost
    before(async () => {
      host = await openAttackHost(cleanup, 'root', {
        ...containers.settings,
        AGENT_MAX_MEMORY: '256MiB',
        AGENT_MAX_PROCESSES: '60',
        AGENT_MAX_FILES: '256',
        AGENT_MAX_CPU: '1s',
      })
    })

    test('has its workspace, is not root, and may write nowhere else', async () => {
      const { attack, home } = host
      const places = '/ /dev /run /run/ipc /etc /home /var /usr /opt /proc /sys'
      assert.equal(
        await attack(
          `pwd; echo $HOME; echo $SVC_SOCKET; id -u; id -un; echo text > note; for at in ${places}; do touch $at/x 2>/dev/null && echo $at; done; for at in /tmp /var/tmp /dev/shm; do touch $at/x && echo $at; done`,
        ),
        '/home/node\n/home/node\n/run/ipc/gated.sock\n60000\nagent\n/tmp\n/var/tmp\n/dev/shm',
      )
      assert.equal(readFileSync(join(home(), 'note'), 'utf8'), 'text\n')
    })

    test('sees the files of its chat read-only, and those of no other', async () => {
      const { attack, root } = host
      const path = await writeChatFile(layout(root), { ...NOTE, folder: 'team', jid: 'web:files' }, 'hello')
      await writeChatFile(layout(root), { ...NOTE, folder: 'team', jid: 'web:other' }, 'of another')
      const trying =
        'cd /home/files; echo x > f1.txt; rm -f f1.txt; touch new; chmod 777 .; mv f1.txt f2; ls; cat f1.txt'
      for (const reach of ['chat', 'all'] as const) {
        const at = { reach, jid: 'web:files', silent: true }
        assert.equal(await attack(trying, at), 'f1.txt\nhello')
        assert.equal(await attack('ls -d /home/files', { ...at, jid: 'web:none' }), '')
        // The next turn finds what came meanwhile, in the same container.
        writeFileSync(join(dirname(path), `${reach}.txt`), 'later', { mode: 0o444 })
        assert.equal(await attack(`cat /home/files/${reach}.txt`, at), 'later')
        rmSync(join(dirname(path), `${reach}.txt`))
      }
    })

    test('sees no files of the machine, of other folders, of svc or of the engine', async () => {
      const { attack, home, root } = host
      const paths = [root, join(root, '.env'), home('other'), containers.socket, '/var/run/docker.sock', '/root']
      assert.equal(await attack(`ls -d ${paths.join(' ')} 2>/dev/null; ls -A /run /run/ipc /home`), LISTING)
      const program = `for my $at (glob '/proc/[0-9]*/root /proc/[0-9]*/cwd') { print "$at\\n" if -e "$at${root}" }`
      assert.equal(await attack(perl(program)), '')
      const mounts = await attack('cat /proc/self/mountinfo')
      for (const secret of [ENV_SECRET, OTHER_SECRET]) assert.ok(!mounts.includes(secret))
      assert.doesNotMatch(mounts, /docker\.sock/)
    })

    test('has pipes of its own as standard streams, which it can open by name', async () => {
      assert.equal(await host.attack('echo one > /dev/stdout; echo two > /dev/stderr'), 'one\ntwo')
      assert.equal(await host.attack(['/bin/sh', '-c', 'cat /dev/stdin']), 'attack')
      assert.equal(
        await host.attack(perl(`for (*STDIN, *STDOUT, *STDERR) { print -p $_, (stat $_)[4], "\\n" }`)),
        `1${agentUidOf('root')}\n`.repeat(3).trim(),
      )
    })

    test('cannot send descriptors to svc', async () => {
      const send = `socket my $link, 1, 1, 0; connect $link, pack 'Sa*x', 1, '/run/ipc/gated.sock' or die $!; ${sendDescriptor('$link')}`
      assert.equal(await host.attack(perl(send)), canRefuseDescriptors() ? 'Operation not permitted' : 'done')
    })

    test('starts while another has as many descriptors in flight as it may', async (t) => {
      const gate = openFifoGate(join(host.home(), 'gate'))
      t.after(() => rmSync(join(host.home(), 'gate')))
      const program = `my @kept; for (1 .. 10) { socketpair my $from, my $to, 1, 1, 0; push @kept, $from, $to; for (1 .. 50) { ${sendDescriptor('$from')} } }
        open my $gate, '<', 'gate'; <$gate>;`
      const attacking = host.attack(perl(program))
      await gate.reached()
      const alive = await host.attack('echo alive', { folder: 'other' }).catch(String)
      await gate.open()
      // Runs of other tests with the same user may release some of theirs meanwhile.
      assert.match(await attacking, /^(done\n|Too many references: cannot splice\n?)+$/)
      assert.match(await attacking, /done\nToo many references/)
      assert.equal(alive, 'alive')
    })

    test('has no capability, cannot gain one, and refuses the calls that cells refuse', async () => {
      const status = await host.attack('grep -hE "^(Cap|NoNewPrivs|Seccomp:)" /proc/self/status | sed "s/.*\\t//"')
      assert.deepEqual(status.split('\n'), [...Array(5).fill('0'.repeat(16)), '1', '2'])
      const calls = [
        perlCall('ptrace', 16, 1, 0, 0),
        perlCall('process_vm_readv', 1, 0, 0, 0, 0, 0),
        perlCall('pidfd_getfd', 3, 0, 0),
        perlCall('mount', '"a"', '"/tmp"', '"tmpfs"', 0, 0),
        perlCall('unshare', 0x1000_0000),
        perlCall('clone', 0x1000_0000, 0, 0, 0, 0),
        perlCall('keyctl', 0, -3, 0),
        perlCall('bpf', 0, 0, 0),
        perlCall('socket', 2, 3, 1),
        perlCall('socket', 16, 3, 9),
        perlCall('socket', 17, 3, 0),
        perlCall('socket', 40, 1, 0),
        perlCall('io_uring_setup', 1, 0),
        perlCall('setuid', 0),
      ]
      const [no, missing] = ['Operation not permitted', 'Function not implemented']
      assert.deepEqual((await host.attack(perl(calls.join('\n')))).split('\n'), [...Array(12).fill(no), missing, no])
    })

    test('cannot read, trace or end the first process, nor connect to its socket', async () => {
      const program = `print open(my $file, '<', $_) ? "opened\\n" : "$!\\n" for '/proc/1/environ', '/proc/1/mem', '/proc/1/maps';
        print opendir(my $fds, '/proc/1/fd') ? "opened\\n" : "$!\\n";
        kill 'KILL', 1; kill 'TERM', 1; kill 'STOP', 1;
        print -e '/run/ipc/control' ? 'there' : 'absent'`
      const no = 'Permission denied'
      assert.equal(await host.attack(perl(program)), [no, no, no, no, 'absent'].join('\n'))
      assert.equal(await host.attack('echo alive'), 'alive')
    })

    test('leaves no process, file, memory or variable to the next turn in the same container', async () => {
      const { attack } = host
      const hide = `mkdir('/tmp/a'); for my $at ('/tmp/a/b', '/var/tmp/c', '/dev/shm/d', '/run/svc/e', '/dev/mqueue/f') { if (open my $file, '>', $at) { print $file $ENV{SECRET} } }
        chmod 0, '/tmp/a'; my $id = shmget(77, 100, 0666 | 01000); shmwrite($id, $ENV{SECRET}, 0, 9); semget(78, 1, 0666 | 01000); msgget(79, 0666 | 01000);
        if (!fork) { setpgrp; $SIG{$_} = 'IGNORE' for qw(TERM HUP INT); close STDOUT; close STDERR; sleep 1000 }
        print readlink('/proc/self/ns/pid')`
      const first = await attack(perl(hide), { env: { SECRET: 'top-secret' } })
      const look = `print readlink('/proc/self/ns/pid'), "\\n"; print map { "$_\\n" } grep { !m{/\\.\\.?$} } glob('/tmp/* /tmp/.* /var/tmp/* /dev/shm/* /run/svc/* /dev/mqueue/*');
        for (qw(shm sem msg)) { open my $file, '<', "/proc/sysvipc/$_"; <$file>; print <$file> }
        print map { "$_\\n" } grep { !/^(1|$$)$/ } map { m{/(\\d+)$} } glob('/proc/[0-9]*');
        print "$ENV{SECRET}\\n"; system 'grep', '-las', 'top-secret', glob('/proc/[0-9]*/environ')`
      assert.equal(await attack(perl(look)), first)
    })

    test('shares its container with no other folder, and not with a turn at the same time', async () => {
      const space = `readlink('/proc/self/ns/pid')`
      const [own, other, second] = await Promise.all([
        host.attack(perl(`print ${space}; sleep 1`)),
        host.attack(perl(`print ${space}`), { folder: 'other' }),
        host.attack(perl(`print ${space}; sleep 1`)),
      ])
      assert.equal(new Set([own, other, second]).size, 3)
    })

    test('returns all of its output, however short it runs and however much it prints', async () => {
      for (let turn = 0; turn < 100; turn++) assert.equal(await host.attack(`echo ${turn}`), String(turn))
      assert.equal((await host.attack(perl(`print 'x' x 1000 for 1 .. 1000`))).length, 1_000_000)
    })

    test('is limited in processes, files, memory and processor time', async () => {
      const { attack } = host
      const forks = 'my $n = 0; while (defined(my $pid = fork)) { if (!$pid) { sleep 1000; exit } $n++ } print $n'
      const count = Number(await attack(perl(forks)))
      assert.ok(count > 50 && count < 60, String(count))
      const files = `my @open; while (open my $file, '<', '/dev/null') { push @open, $file } print scalar(@open), " $!"`
      assert.equal(await attack(perl(files)), '253 Too many open files')
      const fill = `head -c 100M /dev/zero > /tmp/x; stat -c %s /tmp/x`
      assert.equal(await attack(fill, { silent: true }), String(64 << 20))
      const hold = `perl -e 'vec($held, (120 << 20) - 1, 8) = 1; sleep 100' &`
      await assert.rejects(attack(`${hold.repeat(4)} wait`), failsWith(/more than 256 MiB of memory/))
      // Each process stays below the limit.
      const burn = 'perl -e "my \\$end = (times)[0] + 0.7; 1 while (times)[0] < \\$end"'
      await assert.rejects(attack(`${burn}; ${burn}; sleep 100`), failsWith(/more than 1s of processor time/))
    })

    test('reports a missing program, a failing one, and one that hangs', async () => {
      await assert.rejects(
        host.attack(['no-such-program']),
        failsWith(/could not be started: no such file/, 'terminal'),
      )
      await assert.rejects(host.attack(['/etc/passwd']), failsWith(/permission denied/, 'terminal'))
      await assert.rejects(host.attack(perl('exit 3')), failsWith(/exit code 3/, 'retryable'))
      await assert.rejects(host.attack(perl(`kill 'SEGV', $$`)), failsWith(/killed by SIGSEGV/, 'retryable'))
      await assert.rejects(
        host.attack("trap '' TERM; sleep 1000", { hangMs: 300 }),
        failsWith(/no activity/, 'retryable'),
      )
    })

    test('fails and can be tried again when its container dies', async () => {
      const waiting = host.attack('touch started; sleep 1000', { folder: 'team/child' })
      waiting.catch(() => undefined)
      await until(() => existsSync(join(host.home('team/child'), 'started')))
      const id = await containers.docker('ps', '--quiet', '--filter', 'label=svc.folder=team/child')
      await containers.docker('kill', id)
      await assert.rejects(waiting, failsWith(/its container ended/, 'retryable'))
      assert.equal(await host.attack('echo again', { folder: 'team/child' }), 'again')
    })

    test("of visitors sees a part of the workspace, read-only, and its chat's directory", async () => {
      const { attack, home } = host
      const files = { 'PERSONA.md': 'who', 'work.md': 'at work', 'facts/a.md': 'a fact', '.claude/CLAUDE.md': 'how' }
      for (const name of ['facts', '.claude']) makeAgentDir(join(home(), name))
      for (const [path, text] of Object.entries(files)) {
        writeFileSync(join(home(), path), text, { mode: 0o644 })
        giveToAgents(join(home(), path))
      }
      symlinkSync('work.md', join(home(), 'to-work'))
      const visitor = { reach: 'chat', jid: 'web:team' } as const
      const look = `pwd; echo $HOME; cat PERSONA.md facts/a.md .claude/CLAUDE.md; echo; ls -A; echo --; cat work.md to-work 2>/dev/null; echo mine > ~/note; for at in . facts .claude /home; do touch $at/x 2>/dev/null && echo $at; done; echo x >> PERSONA.md; echo x >> facts/a.md; true`
      const seen = await attack(look, { ...visitor, silent: true })
      assert.deepEqual(seen.split('\n').slice(0, 3), ['/home/node', '/home/chat', 'whoa facthow'])
      const [shown = '', rest] = seen.split('\n').slice(3).join('\n').split('\n--')
      assert.deepEqual(
        ['.claude', 'PERSONA.md', 'facts', 'to-work'].filter((name) => !shown.split('\n').includes(name)),
        [],
      )
      assert.doesNotMatch(shown, /^(?:work\.md|child)$/m)
      // Nothing hidden was read, and nothing written.
      assert.equal(rest, '')
      assert.equal(
        await attack('cat ~/note; readlink /proc/self/ns/pid', visitor),
        await attack('cat ~/note; readlink /proc/self/ns/pid', visitor),
      )
      assert.equal(await attack('ls -A ~', { ...visitor, jid: 'web:team-2' }), '')
      // A changed file is in the next turn.
      writeFileSync(join(home(), 'PERSONA.md'), 'a persona')
      assert.equal(await attack('cat PERSONA.md', visitor), 'a persona')
      rmSync(join(home(), 'to-work'))
    })
  })

  test('an ordinary user needs permission to use the engine, and agents then run as that user', async () => {
    const refused = await openAttackHost(cleanup, 'an ordinary user', containers.settings)
    await assert.rejects(refused.attack('id -u'), failsWith(/no permission to use .*usermod -aG/, 'unavailable'))
    chmodSync(containers.socket, 0o666)
    const { attack } = await openAttackHost(cleanup, 'an ordinary user', containers.settings)
    assert.equal(await attack('id -u; echo text > note; cat note'), `${agentUidOf('an ordinary user')}\ntext`)
    assert.equal(await attack('pwd; echo $HOME', { reach: 'chat', jid: 'web:team' }), '/home/node\n/home/chat')
    assert.match(await attack(perl(perlCall('socket', 2, 3, 1))), /not permitted/)
  })

  suite('a path that is swapped while the container starts', () => {
    const open = async (
      t: TestContext,
      swap: (home: string, secrets: string) => void,
    ): Promise<{ run(given?: Partial<Job>): Promise<string>; home: string; secrets: string }> => {
      const groups = agentDir(t)
      const [home, secrets] = [makeAgentDir(join(groups, 'team')), makeAgentDir(join(groups, 'other'))]
      writeFileSync(join(secrets, 'secret'), 'of another', { mode: 0o666 })
      makeAgentDir(join(home, 'facts'))
      let starts = 0
      const ENGINE_SOCKET = await interceptEngine(t, containers.socket, (_, path) => {
        // The first container is that of the probe.
        if (path.endsWith('/start') && ++starts === 2) swap(home, secrets)
      })
      const runtime = await openRuntime(
        t,
        'command',
        { ...containers.settings, ENGINE_SOCKET },
        { groups, root: groups },
      )
      const { job } = await toolSocket(t)
      const config = { command: 'cat secret facts/secret 2>/dev/null; echo ran; echo x > left' }
      return {
        home,
        secrets,
        run: async (given) => (await runtime.run(job({ folder: 'team', home, config, ...given }))).result ?? '',
      }
    }

    test('is not shown: the run is refused and its container removed', async (t) => {
      const { run, secrets } = await open(t, (home, target) => {
        renameSync(home, `${home}-aside`)
        symlinkSync(target, home)
      })
      await assert.rejects(run(), isRunFault('terminal', /the workspace of team is a symbolic link/))
      assert.ok(!existsSync(join(secrets, 'left')))
      assert.deepEqual(await containers.list(`label=svc.instance=${dirname(secrets)}`, 'label=svc.folder=team'), [])
    })

    test('is not shown to visitors either', async (t) => {
      const { run } = await open(t, (home, target) => {
        renameSync(join(home, 'facts'), join(home, 'aside'))
        symlinkSync(target, join(home, 'facts'))
      })
      const chat = agentDir(t)
      const directory = {
        path: chat,
        open: async () => (await Directory.open(chat)) ?? assert.fail(),
        ...VISITOR_VIEW,
      }
      await assert.rejects(run({ chat: directory }), isRunFault('terminal', /symbolic link/))
    })
  })

  suite('the network of a container', () => {
    test('is loopback only, and the proxy denies with reasons', async (t) => {
      const hostsPath = join(tempDir(t), 'hosts')
      writeFileSync(hostsPath, '127.0.0.1 admin.test\n169.254.169.254 metadata.test\n10.0.0.1 private.test\n')
      const runtime = await openRuntime(t, 'command', containers.settings, {
        ...{ allow: ['admin.test', 'metadata.test', 'private.test'], denyPrivate: true, hostsPath },
        groups: makeAgentDir(join(tempDir(t), 'groups')),
      })
      const { job } = await toolSocket(t)
      const run = async (command: string | readonly string[]): Promise<string> =>
        (await runtime.run(job({ config: { command } }))).result ?? ''
      const curl = (...args: string[]): Promise<string> => run(`curl -sS -m 5 ${args.join(' ')} 2>&1; true`)
      const direct = (url: string): Promise<string> => curl("--noproxy '*'", url)

      // The admin API of the proxy, directly and through the proxy, by address and by an allowed name.
      assert.match(await direct('http://127.0.0.1:3129/v1/state'), /Couldn't connect/)
      assert.match(
        await curl("--noproxy '' http://127.0.0.1:3129/v1/state"),
        /egress-proxy: "127\.0\.0\.1" port 3129 is an address/,
      )
      assert.match(await curl('http://admin.test:3129/v1/register'), /egress-proxy: .*admin\.test.*loopback/)
      assert.match(await curl('-p http://admin.test:3129/'), /403/)
      // Metadata and private networks.
      assert.match(await curl('http://metadata.test/latest/'), /egress-proxy: .*metadata\.test/)
      assert.match(await curl('http://private.test/'), /egress-proxy: .*private\.test.*private/)
      assert.match(await curl('http://169.254.169.254/'), /egress-proxy: "169\.254\.169\.254" port 80 is an address/)
      // Hosts without a rule, plain and in a tunnel.
      assert.match(await curl('http://unlisted.test/'), /host "unlisted\.test" port 80 is not allowed for "main"/)
      assert.match(await curl('https://unlisted.test/'), /403/)
      // Gateways of the engine's networks, the machine, names, IPv6.
      for (const url of [
        'http://172.17.0.1/',
        'http://169.254.169.254/',
        'http://192.0.2.1/',
        "'http://[2001:db8::1]/'",
      ])
        assert.match(await direct(url), /Couldn't connect|Network is unreachable/, url)
      assert.match(await direct('http://example.com/'), /Could(?:n't| not) resolve/)
      assert.equal(
        await run('getent hosts example.com; getent ahosts svc-host.internal; cat /etc/resolv.conf; true'),
        '',
      )
      const lookup = `socket my $s, 2, 2, 17; print connect($s, pack 'SnC4x8', 2, 53, $_, 0, 0, 1) ? "there\\n" : "$!\\n" for 8, 172`
      assert.match(await run(perl(lookup)), /^Network is unreachable\nNetwork is unreachable$/)
      // Routes, interfaces, raw packets.
      assert.match(
        await run('ip route add default via 172.17.0.1 2>&1; ip link add x type dummy 2>&1; true'),
        /not permitted(?:.|\n)*not permitted/,
      )
      assert.equal(await run('ip -o link | grep -vc " lo:"; true'), '0')
      assert.equal(
        await run(perl([perlCall('socket', 2, 3, 1), perlCall('socket', 17, 3, 768)].join('\n'))),
        'Operation not permitted\nOperation not permitted',
      )
      // Variables, in both spellings.
      const names = ['http_proxy', 'HTTP_PROXY', 'https_proxy', 'HTTPS_PROXY', 'all_proxy', 'ALL_PROXY']
      assert.equal(
        await run(names.map((name) => `echo $${name}`).join('; ')),
        names.map(() => 'http://127.0.0.1:3128').join('\n'),
      )
      assert.equal(
        await run('echo $no_proxy $NO_PROXY $NODE_USE_ENV_PROXY'),
        'localhost,127.0.0.1,::1 localhost,127.0.0.1,::1 1',
      )
      // Abstract sockets of the machine.
      assert.equal(await run('tail -n +2 /proc/net/unix | grep -c "@"; true'), '0')
    })
  })

  suite('an instance', () => {
    let instance: AttackInstance
    let served: ServedInstance
    const left = (): Promise<string[]> => containers.list(`label=svc.instance=${instance.root}`)
    before(async () => {
      instance = await attackInstance(cleanup, 'root')
      served = await instance.serve({ env: containers.settings })
    })

    test('answers in containers, also visitors, and lists what was denied', async () => {
      assert.equal((await served.ask('team', 'id -u; echo $SVC_FOLDER')).text, '60002\nteam')
      assert.equal((await served.askAsVisitor('team', 'echo $HOME')).text, '/home/chat')
      // The container that tried the engine had the directory of all workspaces.
      const folders = (): Promise<string> =>
        containers.docker(
          'ps',
          '--all',
          '--filter',
          `label=svc.instance=${instance.root}`,
          '--format',
          '{{.Label "svc.folder"}}',
        )
      await until(async () => (await folders()) === 'team\nteam')
      assert.match((await served.ask('team', 'curl -sS http://unlisted.example/ 2>&1')).text, /svc network demo allow/)
      const urls = [
        'http://127.0.0.1:3129/v1/register',
        'http://169.254.169.254/',
        'http://10.0.0.1/',
        'https://tunnel.example/',
      ]
      const tries = urls.map((url) => `curl -sS --noproxy '' ${url} 2>&1`)
      const { text } = await served.ask('team', `${tries.join('; echo; ')}; true`)
      assert.equal(text.match(/egress-proxy: "[\d.]+" port \d+ is an address|response 403/g)?.length, urls.length, text)
      const hosts = ['unlisted.example', 'tunnel.example', '127.0.0.1', '169.254.169.254', '10.0.0.1']
      let listed = ''
      await until(async () => {
        listed = await instance.svc('network', 'demo', 'denied', 'team')
        return hosts.every((host) => listed.includes(host))
      })
      assert.match(listed, /ip-literal.*no rule helps: an address/)
    })

    test('answers other requests while agents flood it', async () => {
      const programs = ['newlines on stdout', 'requests for the list of tools', 'connections'].map(
        (what) => FLOODS[what]?.program ?? assert.fail(what),
      )
      const flooding = programs.map((program, at) => served.askAsVisitor('team', program, `topic ${at}`))
      const longest = Math.max(...(await healthDuring(served.url, Promise.all(flooding))))
      assert.ok(longest < 2000, `a request took ${longest} ms`)
      const ended = (await Promise.all(flooding)).map(({ status }) => status)
      assert.deepEqual(ended, ['failed', 'success', 'success'])
    })

    test('shows an agent only the tool socket of its own run', async () => {
      const connect = `perl -e 'socket my $s, 1, 1, 0; print connect($s, pack "Sa*x", 1, "/run/ipc/gated.sock") ? "connected" : $!'; ls -A /run/ipc`
      assert.equal((await served.ask('team', connect)).text, 'connectedgated.sock')
    })

    test('leaves no container when it stops, and none of a killed process after the next start', async () => {
      assert.ok((await left()).length > 0)
      const killed = await left()
      process.kill(served.pid, 'SIGKILL')
      // Their first process ends with svc.
      await until(async () => (await left()).length === 0)
      assert.ok(killed.length > 0)
      // One that never started.
      await containers.docker(
        'create',
        '--label',
        `svc.instance=${instance.root}`,
        '--label',
        'svc.owner=0123456789ab',
        'agent-test',
        'sleep',
        '1',
      )
      await containers.docker(
        'create',
        '--name',
        'foreign',
        '--label',
        'svc.instance=/another',
        'agent-test',
        'sleep',
        '1',
      )
      served = await instance.serve({ env: { ...containers.settings, AGENT_CONTAINER_IDLE: '0s' } })
      assert.equal((await served.ask('team', 'echo $SVC_FOLDER')).text, 'team')
      await until(async () => (await left()).length === 0)
      assert.ok((await containers.list()).includes('foreign'))
      await served.stop()
      assert.deepEqual(await left(), [])
    })
  })

  suite('an engine that cannot be used', () => {
    const open = (settings: Record<string, string>, root = agentDir({ after: cleanup.after })) => {
      mkdirSync(join(root, 'groups'), { recursive: true })
      const source = sourceOf('the test', new Map(Object.entries({ ...containers.settings, ...settings })))
      return openCell({
        settings: readSettings(CELL_SETTINGS, [source]),
        groups: join(root, 'groups'),
        chats: '/nowhere',
        files: '/nowhere',
      })
    }

    test('is refused with a reason and a remedy', async () => {
      await assert.rejects(open({ ENGINE_SOCKET: '/no/such.sock' }), isRefusal('unavailable', 'no container engine at'))
      await assert.rejects(open({ AGENT_IMAGE: 'no-such-image' }), isRefusal('unavailable', 'no image no-such-image'))
      await assert.rejects(open({ HOST_DATA_DIR: '/no/such/dir' }), isRefusal('unavailable', 'do not work'))
    })

    test('fails a turn when it stops during it, and the next ones until it is back', async (t) => {
      const groups = agentDir(t)
      const home = makeAgentDir(join(groups, 'team'))
      const runtime = await openRuntime(t, 'command', containers.settings, { groups })
      const { job } = await toolSocket(t)
      const run = (command: string) => runtime.run(job({ folder: 'team', home, config: { command } }))
      const running = run('touch started; sleep 1000')
      running.catch(() => undefined)
      await until(() => existsSync(join(home, 'started')))
      await containers.terminate()
      await assert.rejects(running, isRunFault('retryable', /its container ended/))
      await assert.rejects(run('true'), isRunFault('unavailable', /could not be set up: .*container engine/))
    })
  })
})

const LISTING = '/home:\nnode\n\n/run:\nipc\nsvc\n\n/run/ipc:\ngated.sock'

function failsWith(words: RegExp, kind?: string) {
  return (error: unknown): boolean => {
    assert.ok(error instanceof FailedAttack, String(error))
    assert.match(error.message, words)
    if (kind) assert.equal(error.kind, kind)
    return true
  }
}
