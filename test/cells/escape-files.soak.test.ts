// Attacks with paths: files of the host, of other folders and of the kernel, sockets, devices, setuid programs and links.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, symlinkSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { agentUidOf, attackHost, ENV_SECRET, forEachUser, OTHER_SECRET, openFifoGate } from '../support/attack.ts'
import { perl, python } from '../support/attack-programs.ts'
import { contentsOf } from '../support/entry-swapper.ts'
import { needs } from '../support/needs.ts'
import { tempDir } from '../support/temp.ts'

/** Prints every file below /proc, except those of processes, that can be opened for writing. */
const WRITABLE_PROC = `
use Fcntl;
my @pending = grep { !m{^/proc/(\\d+|self|thread-self)$} } glob '/proc/*';
while (defined(my $path = shift @pending)) {
  next if -l $path;
  if (-d _) { opendir my $dir, $path or next; push @pending, map { "$path/$_" } grep { !/^\\.\\.?$/ } readdir $dir }
  elsif (sysopen my $file, $path, O_WRONLY | O_NONBLOCK) { print "$path\\n" }
}`

/** Prints the content of each path that can be opened through the /proc entries of the processes in the cell. */
const THROUGH_PROCESSES = (paths: readonly string[]): string => `
for my $process (glob '/proc/[0-9]* /proc/self /proc/thread-self') {
  my @ways = ("$process/root", "$process/cwd", "$process/cwd/../../../..", glob("$process/fd/*"), glob("$process/map_files/*"));
  for my $way (@ways) { for (qw(${paths.join(' ')})) {
    for my $path ("$way$_", "$way/..$_", "$way/../..$_") { if (open my $file, '<', $path) { print "$path: ", <$file> } }
  } }
}`

forEachUser('files', ['python'], (user) => {
  const host = attackHost(user)

  /** Files of the host that contain a secret. */
  const secrets = (): string[] => {
    const { root, home } = host()
    return [join(root, '.env'), join(home('other'), 'secret'), '/etc/shadow', '/etc/ssh/sshd_config']
  }

  test('an agent cannot make the kernel start a program through core_pattern', async () => {
    const pattern = '/proc/sys/kernel/core_pattern'
    const before = readFileSync(pattern, 'utf8')
    const writing = `my $path = '${pattern}'; open my $in, '<', $path; my $value = <$in>;
      if (open my $out, '>', $path) { print $out $value; print 'written' } else { print "refused: $!" }`
    const output = await host().attack(perl(writing))
    assert.match(output, /^refused: (Read-only file system|Permission denied)/)
    assert.equal(readFileSync(pattern, 'utf8'), before)
  })

  test('no setting of the kernel can be opened for writing', async () => {
    const { attack } = host()
    const found = (await attack(perl(WRITABLE_PROC))).split('\n').filter((path) => path !== '')
    // Every user may write there; it only sets up a notification for the writer about the load of the machine.
    assert.deepEqual(
      found.filter((path) => !path.startsWith('/proc/pressure/')),
      [],
    )
    assert.equal(await attack('echo h > /proc/sysrq-trigger && echo written', { silent: true }), '')
    // Control: the settings can be read.
    assert.equal(await attack('cat /proc/sys/kernel/ostype'), 'Linux')
  })

  test('files of the host and of other folders cannot be read by their path', async () => {
    const output = await host().attack(`cat ${secrets().join(' ')}`, { silent: true })
    assert.equal(output, '')
    const links = secrets().map((path, index) => `ln -s ${path} link-${index}; cat link-${index}; rm link-${index}`)
    assert.equal(await host().attack(links.join('; '), { silent: true }), '')
  })

  test('/proc/<pid> gives no access to outside files through root, cwd, fd or map_files', async () => {
    const output = await host().attack(perl(THROUGH_PROCESSES([...secrets(), '/.env', '/other/secret'])))
    assert.doesNotMatch(output, new RegExp(`${ENV_SECRET}|${OTHER_SECRET}|root:`))
    assert.match(await host().attack('ls /proc/1/root/'), /Permission denied/)
  })

  test('the paths in the list of mounts cannot be opened', async () => {
    // The list contains the paths of mount sources on the host.
    const sources = "awk '{ print $4 }' /proc/self/mountinfo | sort -u | grep /svc-test-"
    const output = await host().attack(`for at in $(${sources}); do ls "$at" "$at/.." "$(dirname $at)/../.env"; done`, {
      silent: true,
    })
    assert.equal(output, '')
  })

  test('only the workspace and the temporary directories are writable', async () => {
    const script = `
find / -xdev \\( -path /proc -o -path /home/node \\) -prune -o \\( -type d -o -type f \\) -writable -print
find /usr /etc/ssl /opt /svc/src /svc/node_modules /run /dev -not -type l -writable -print`
    const found = (await host().attack(script, { silent: true })).split('\n')
    const devices = ['full', 'null', 'pts', 'pts/ptmx', 'random', 'shm', 'tty', 'urandom', 'zero']
    const expected = [...devices.map((name) => `/dev/${name}`), '/run/ipc/gated.sock', '/tmp']
    assert.deepEqual([...new Set(found)].sort(), expected)
  })

  test('devices of the machine are neither visible nor can they be created', async () => {
    const devices =
      '/dev/mem /dev/kmem /dev/kmsg /dev/port /dev/fuse /dev/kvm /dev/loop0 /dev/loop-control /dev/vda /dev/sda /dev/net/tun /dev/vsock /dev/userfaultfd /dev/console /dev/vhost-net /dev/dri /dev/snd'
    assert.equal(await host().attack(`ls -d ${devices}`, { silent: true }), '')
    assert.equal(
      await host().attack('mknod device b 254 0; mknod /tmp/device c 1 1; ls device /tmp/device', { silent: true }),
      '',
    )
  })

  test('a device file in the workspace cannot be opened', needs('root'), async (t) => {
    const device = join(host().home(), 'device')
    t.after(() => rmSync(device))
    // The major and minor number of /dev/zero.
    assert.equal(spawnSync('mknod', ['-m', '666', device, 'c', '1', '5']).status, 0)
    assert.match(await host().attack('head -c 1 device'), /Permission denied/)
  })

  test('/sys, control groups, D-Bus and other services are not visible', async () => {
    const paths =
      '/sys /sys/fs/cgroup /run/dbus /run/systemd /run/user /var/run/docker.sock /run/containerd /var/lib /var/log /root /srv'
    assert.equal(await host().attack(`ls -d ${paths}`, { silent: true }), '')
    assert.equal(await host().attack('cat /proc/self/cgroup | cut -d: -f3 | sort -u'), '/')
    assert.equal(await host().attack('env | grep -iE "dbus|xdg|ssh_auth|display|sudo"', { silent: true }), '')
  })

  test('a setuid program does not change the user', async (t) => {
    const { attack, home } = host()
    const copy = join(home(), 'shell')
    t.after(() => rmSync(copy, { force: true }))
    const uid = String(agentUidOf(user))
    assert.equal(await attack('cp /bin/sh shell; chmod 6755 shell; ./shell -p -c "id -u; id -ru"'), `${uid}\n${uid}`)
    assert.equal(await attack('su -c id root < /dev/null; mount /tmp; newgrp root', { silent: true }), '')
    if (process.getuid?.() !== 0) return
    // On the host this file would give root.
    assert.equal(spawnSync('sh', ['-c', `cp /bin/sh ${copy} && chown 0:0 ${copy} && chmod 6755 ${copy}`]).status, 0)
    assert.equal(await attack('./shell -p -c "id -u; id -ru"'), `${uid}\n${uid}`)
  })

  test('other users of the machine cannot start a setuid program in the workspace', needs('root'), async (t) => {
    const { attack, home } = host()
    const copy = join(home(), 'shell')
    t.after(() => rmSync(copy, { force: true }))
    await attack('cp /bin/sh shell; chmod 6755 shell')
    assert.equal(statSync(copy).uid, agentUidOf(user))
    const other = { uid: 65_532, gid: 65_532 }
    assert.match(String(spawnSync(copy, ['-p', '-c', 'id -u'], other).error), /EACCES/)
  })

  test('hard links across mounts are refused', async () => {
    const command = [
      'ln /usr/bin/env env',
      'ln /run/ipc/gated.sock socket',
      'ln /etc/passwd /tmp/passwd',
      'touch mine; ln mine /tmp/mine; rm mine',
    ].map((line) => `${line} 2>&1`)
    const lines = (await host().attack(command.join('; '))).split('\n')
    assert.equal(lines.length, 4, lines.join('\n'))
    for (const line of lines) assert.match(line, /Invalid cross-device link|Operation not permitted/)
  })

  test('a directory moved out of the workspace gives no access to its new parents', async (t) => {
    const { attack, home, root } = host()
    const sub = join(home('team/child'), 'sub')
    mkdirSync(sub)
    const moved = join(home('team'), 'moved')
    t.after(() => rmSync(moved, { recursive: true }))
    const gate = openFifoGate(join(sub, 'gate'))
    const paths = ['..', '../..', '../../..', '../../../..'].flatMap((up) => [`${up}/.env`, `${up}/other/secret`])
    const attacking = attack(`cd sub; cat gate > /dev/null; ls ..; cat ${paths.join(' ')}; cd -P .. && ls`, {
      folder: 'team/child',
      silent: true,
    })
    await gate.reached()
    renameSync(sub, moved)
    await gate.open()
    assert.equal(await attacking, '')
    assert.ok(existsSync(join(root, '.env')))
  })

  test('a moved workspace gives no access to its new parents', async (t) => {
    const { attack, home } = host()
    const [child, moved] = [home('team/child'), join(dirname(home('team')), 'moved')]
    t.after(() => renameSync(moved, child))
    const gate = openFifoGate(join(child, 'gate'))
    const attacking = attack('cat gate > /dev/null; ls -a .. ; cat ../.env ../other/secret ../../.env', {
      folder: 'team/child',
      silent: true,
    })
    await gate.reached()
    renameSync(child, moved)
    await gate.open()
    assert.equal(await attacking, '.\n..\nnode')
    rmSync(join(moved, 'gate'))
  })

  test('a run does not start if its workspace is a symbolic link', async (t) => {
    const { attack, home, root } = host()
    const [child, aside] = [home('team/child'), join(home('team'), 'aside')]
    renameSync(child, aside)
    t.after(() => renameSync(aside, child))
    for (const target of [root, dirname(home('team')), aside, '/']) {
      symlinkSync(target, child)
      await assert.rejects(
        attack('ls', { folder: 'team/child' }),
        /the workspace of team\/child is a symbolic link or not a directory/,
      )
      rmSync(child)
    }
  })

  test('links in the workspace cannot redirect mount points of the cell', async (t) => {
    const { attack, home, root } = host()
    const outside = tempDir(t)
    chmodSync(outside, 0o777)
    const before = [contentsOf(outside), statSync(root).mtimeMs]
    const names = ['tmp', 'run', 'dev', 'proc', 'svc', 'etc', 'node', '.env', 'gated.sock']
    for (const name of names) symlinkSync(`/oldroot${outside}/${name}`, join(home(), name))
    t.after(() => {
      for (const name of names) rmSync(join(home(), name))
    })
    assert.equal(await attack('echo started'), 'started')
    assert.deepEqual([contentsOf(outside), statSync(root).mtimeMs], before)
  })

  test('sockets of the host cannot be reached, neither by abstract name nor by path', async (t) => {
    const { attack, root, home } = host()
    let connections = 0
    const listenAt = async (path: string): Promise<void> => {
      const server = await listenOn(t, path, () => connections++)
      if (!path.startsWith('\0')) chmodSync(path, 0o777)
      t.after(() => void server.close())
    }
    const directory = tempDir(t)
    chmodSync(directory, 0o777)
    const inRun = process.getuid?.() === 0 ? [`/run/svc-test-${process.pid}.sock`] : []
    const paths = [join(directory, 'a.sock'), join(root, 'b.sock'), join(home('other'), 'c.sock'), ...inRun]
    for (const path of [...paths, '\0svc-test-abstract']) await listenAt(path)
    const all = [...paths, ...inRun.map((path) => `/var${path}`), ...paths.map((path) => `/proc/1/root${path}`)]
    const program = `
import socket
for path in ${JSON.stringify([...all, '\0svc-test-abstract'])}:
    try:
        socket.socket(socket.AF_UNIX).connect(path)
        print('connected', path)
    except OSError as error:
        print(error.strerror)`
    const output = await attack(python(program))
    // Agents may not look through the first process of the cell.
    const errors = ['No such file or directory', 'Connection refused', 'Permission denied']
    assert.deepEqual(new Set(output.split('\n')), new Set(errors))
    assert.equal(connections, 0)
  })

  test('an agent can change only its own workspace', async () => {
    const { attack, home } = host()
    const before = contentsOf(home('other'))
    const other = home('other')
    await attack(
      `for at in ${other} /home/node/../other ../other ../../other ../../groups/other; do echo x > $at/secret; touch $at/new; rm -rf $at/*; done`,
    )
    assert.deepEqual(contentsOf(home('other')), before)
  })
})

async function listenOn(t: TestContext, path: string, onConnection: () => void): Promise<Server> {
  const server = createServer((socket) => {
    onConnection()
    socket.destroy()
  }).listen(path)
  await once(server, 'listening')
  if (!path.startsWith('\0')) t.after(() => rmSync(path, { force: true }))
  return server
}
