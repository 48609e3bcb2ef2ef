// Attacks with system calls: mounts, namespaces, other processes, sockets, devices and kernel interfaces.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { suite, test } from 'node:test'
import { type AttackHost, attackHost, forEachUser } from '../support/attack.ts'
import { numberOf, perl, perlCall, perlCallNumber, python, type SystemCall } from '../support/attack-programs.ts'

const EPERM = 'Operation not permitted'
const ENOSYS = 'Function not implemented'
const [MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC] = [1, 32, 4096, 16_384]
const [CLONE_NEWTIME, CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET] = [
  0x80, 0x2_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000,
]
const AT_FDCWD = -100
/** Does not stop the process, unlike PTRACE_ATTACH. */
const PTRACE_SEIZE = 0x4206
const [TIOCSTI, TIOCLINUX] = [0x5412, 0x541c]
/** The bit that marks an x64 call number as x32. */
const X32 = 0x4000_0000

interface CallAttack {
  /** A Perl program that prints one line. */
  readonly program: string
  readonly refusal: string
}

const refused = (name: SystemCall, ...args: (string | number)[]): CallAttack => ({
  program: perlCall(name, ...args),
  refusal: EPERM,
})
const unknown = (name: SystemCall, ...args: (string | number)[]): CallAttack => ({
  program: perlCall(name, ...args),
  refusal: ENOSYS,
})
/** The new process exits at once; only whether clone succeeds matters. */
const cloned = (flags: number): CallAttack => ({
  program: `my $pid = syscall(${numberOf('clone')}, ${flags | constants.signals.SIGCHLD}, 0, 0, 0, 0); exit 0 if $pid == 0; print $pid == -1 ? "$!\\n" : "done\\n";`,
  refusal: EPERM,
})
const onTerminal = (request: number | string, argument: string): CallAttack => ({
  program: `open my $pty, '+<', '/dev/ptmx' or print "no terminal: $!\\n"; my $argument = ${argument}; ${perlCall('ioctl', 'fileno $pty', request, '$argument')}`,
  refusal: EPERM,
})

const CALLS: Readonly<Record<string, CallAttack>> = {
  'mounts a file system': refused('mount', '"none"', '"/tmp"', '"tmpfs"', 0, 0),
  'mounts a process file system': refused('mount', '"proc"', '"/tmp"', '"proc"', 0, 0),
  'mounts a directory over another': refused('mount', '"/home/node"', '"/usr"', '""', MS_BIND | MS_REC, 0),
  'makes the root writable': refused('mount', '"none"', '"/"', '""', MS_REMOUNT | MS_BIND, 0),
  'makes /usr writable': refused('mount', '"none"', '"/usr"', '""', MS_REMOUNT | MS_BIND, 0),
  'makes /proc/sys writable': refused('mount', '"none"', '"/proc/sys"', '""', MS_REMOUNT | MS_BIND, 0),
  'remounts its workspace with setuid programs': refused(
    'mount',
    '"none"',
    '"/home/node"',
    '""',
    MS_REMOUNT | MS_BIND,
    0,
  ),
  'remounts /proc read-only': refused('mount', '"none"', '"/proc"', '""', MS_REMOUNT | MS_RDONLY, 0),
  'unmounts /proc/sys': refused('umount2', '"/proc/sys"', 2),
  'unmounts the root': refused('umount2', '"/"', 2),
  'changes its root with chroot': refused('chroot', '"/home/node"'),
  'changes its root with pivot_root': refused('pivot_root', '"/home/node"', '"/home/node"'),
  'opens a file system': refused('fsopen', '"proc"', 0),
  'configures a file system': refused('fsconfig', 0, 6, 0, 0, 0),
  'mounts an opened file system': refused('fsmount', 0, 0, 0),
  'opens a mount to change it': refused('fspick', AT_FDCWD, '"/"', 0),
  'copies a mount tree': refused('open_tree', AT_FDCWD, '"/"', 1),
  'moves a mount': refused('move_mount', AT_FDCWD, '"/tmp"', AT_FDCWD, '"/home"', 0),
  'changes the flags of a mount': refused('mount_setattr', AT_FDCWD, '"/"', 0, '"\\0" x 32', 32),
  'opens a file by its handle': refused('open_by_handle_at', AT_FDCWD, '"\\0" x 128', 0),
  'enters the user namespace of another process': {
    program: `open my $ns, '<', '/proc/1/ns/user'; ${perlCall('setns', 'fileno $ns', 0)}`,
    refusal: EPERM,
  },
  'creates a user namespace with unshare': refused('unshare', CLONE_NEWUSER),
  'creates a mount namespace with unshare': refused('unshare', CLONE_NEWNS),
  'creates user and mount namespaces with unshare': refused('unshare', CLONE_NEWUSER | CLONE_NEWNS),
  'creates a process namespace with unshare': refused('unshare', CLONE_NEWPID),
  'creates a network namespace with unshare': refused('unshare', CLONE_NEWNET),
  'creates a time namespace with unshare': refused('unshare', CLONE_NEWTIME),
  'creates a user namespace with clone': cloned(CLONE_NEWUSER),
  'creates user and mount namespaces with clone': cloned(CLONE_NEWUSER | CLONE_NEWNS),
  'creates a user namespace with clone3': unknown('clone3', `pack("Q8", ${CLONE_NEWUSER}, 0, 0, 0, 17, 0, 0, 0)`, 64),
  'traces the first process of the cell': refused('ptrace', PTRACE_SEIZE, 1, 0, 0),
  'requests to be traced': refused('ptrace', 0, 0, 0, 0),
  'reads the memory of another process': refused('process_vm_readv', 1, '"\\0" x 16', 1, '"\\0" x 16', 1, 0),
  'writes the memory of another process': refused('process_vm_writev', 1, '"\\0" x 16', 1, '"\\0" x 16', 1, 0),
  'takes a descriptor of another process': {
    program: `my $process = syscall(${numberOf('pidfd_open')}, 1, 0); ${perlCall('pidfd_getfd', '$process', 0, 0)}`,
    refusal: EPERM,
  },
  'compares objects of two processes': refused('kcmp', 1, '$$', 0, 0, 0),
  'reads the keyring of its user': refused('keyctl', 11, -4, 0, 0, 0),
  'links a keyring': refused('keyctl', 8, -4, -3, 0, 0),
  'adds a key': refused('add_key', '"user"', '"name"', '"value"', 5, -4),
  'asks the host for a key': refused('request_key', '"user"', '"name"', '"x"', -4),
  'loads a BPF program': refused('bpf', 0, '"\\0" x 64', 64),
  'counts events of the kernel': refused('perf_event_open', '"\\0" x 128', 0, -1, -1, 0),
  'handles page faults': refused('userfaultfd', 1),
  'watches a whole file system': refused('fanotify_init', 0, 0),
  'creates an I/O ring': unknown('io_uring_setup', 8, '"\\0" x 120'),
  'enters an I/O ring': unknown('io_uring_enter', 0, 1, 1, 0, 0, 0),
  'registers with an I/O ring': unknown('io_uring_register', 0, 0, 0, 0),
  'sets the clock': refused('clock_settime', 0, 'pack("QQ", 0, 0)'),
  'sets the time of day': refused('settimeofday', 'pack("QQ", 0, 0)', 0),
  // ADJ_OFFSET without the capability is refused by the kernel, not by the filter.
  'adjusts the clock': refused('clock_adjtime', 0, 'pack("L", 1) . "\\0" x 204'),
  'renames the host': refused('sethostname', '"x"', 1),
  'renames the domain': refused('setdomainname', '"x"', 1),
  'reads the log of the kernel': refused('syslog', 3, '"\\0" x 100', 100),
  'restarts the machine': refused('reboot', 0xfee1_dead, 672_274_793, 0, 0),
  'loads another kernel': refused('kexec_load', 0, 0, 0, 0),
  'loads a module': refused('init_module', '"x"', 1, '""'),
  'swaps to its own file': refused('swapon', '"/home/node/x"', 0),
  'turns on process accounting': refused('acct', '"/home/node/x"'),
  'changes quotas': refused('quotactl', 0, 0, 0, 0),
  'creates a device': refused('mknodat', AT_FDCWD, '"/home/node/device"', 0o60_666, 0xfe00),
  'creates a device in /tmp': refused('mknodat', AT_FDCWD, '"/tmp/device"', 0o20_666, 0x101),
  'becomes root': { program: perlCall('setuid', 0), refusal: 'Invalid argument' },
  'joins a group': refused('setgroups', 1, 'pack("L", 0)'),
  'gives itself capabilities': refused('capset', 'pack("LL", 0x20080522, 0)', 'pack("L6", -1, -1, 0, -1, -1, 0)'),
  'raises its limit of processes': refused('prlimit64', 0, 6, 'pack("QQ", 100000, 100000)', 0),
  'allows itself a core dump': refused('prlimit64', 0, 4, 'pack("QQ", -1, -1)', 0),
  'allows the first process a core dump': refused('prlimit64', 1, 4, 'pack("QQ", -1, -1)', 0),
  'types into a terminal': onTerminal(TIOCSTI, '"x"'),
  'types into a terminal with a request number of more than 32 bits': onTerminal(`${TIOCSTI} + (1 << 32)`, '"x"'),
  'pastes into a console': onTerminal(TIOCLINUX, '"\\x03"'),
  ...(process.arch === 'x64'
    ? {
        'traces with an x32 call number': {
          program: perlCallNumber(X32 | 521, PTRACE_SEIZE, 1, 0, 0),
          refusal: ENOSYS,
        },
        'mounts with an x32 call number': {
          program: perlCallNumber(X32 | 165, '"none"', '"/tmp"', '"tmpfs"', 0, 0),
          refusal: ENOSYS,
        },
      }
    : {}),
}

/** Socket families that bypass the network namespace or reach rarely used parts of the kernel. */
const FAMILIES = { AF_PACKET: 17, AF_VSOCK: 40, AF_ALG: 38, AF_BLUETOOTH: 31, AF_KEY: 15, AF_CAN: 29, AF_XDP: 44 }

forEachUser('system calls', ['python'], (user) => {
  const host = attackHost(user)
  const lines = once(() => runAllCalls(host()))

  suite('refuse an agent that', () => {
    for (const [index, [title, { refusal }]] of Object.entries(CALLS).entries())
      test(title, async () => assert.equal((await lines())[index], refusal))
  })

  test('give an agent only unix, IP and routing sockets', async () => {
    const program = Object.values(FAMILIES)
      .flatMap((family) => [perlCall('socket', family, 3, 0), perlCall('socketpair', family, 1, 0, '"\\0" x 8')])
      .join('\n')
    const output = await host().attack(perl(program))
    assert.deepEqual(new Set(output.split('\n')), new Set(['Address family not supported by protocol']))
  })

  test('give an agent no raw sockets and no other netlink protocols', async () => {
    const program = [
      perlCall('socket', 2, 3, 1),
      perlCall('socket', 10, 3, 58),
      perlCall('socket', 2, 3 | 0o4000 | 0o2_000_000, 255),
      // Audit, netfilter and device events.
      ...[9, 12, 15].map((protocol) => perlCall('socket', 16, 3, protocol)),
    ].join('\n')
    const family = 'Address family not supported by protocol'
    assert.equal(await host().attack(perl(program)), [EPERM, EPERM, EPERM, family, family, family].join('\n'))
  })

  test('are filtered in 32-bit programs too', async () => {
    // Machine code of `mov eax, 26 (ptrace); xor ebx, ebx; int 0x80; ret`: the 32-bit entry has other call numbers.
    const program = `
import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex('53b81a00000031dbcd805bc3'))
entry = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
print(entry())`
    if (process.arch !== 'x64') return
    assert.equal(await host().attack(python(program)), `-${constants.errno.ENOSYS}`)
  })

  test('are refused to mount, unshare, nsenter, chroot and bwrap', async () => {
    const programs = [
      'mount -t tmpfs none /tmp',
      'mount --bind /home/node /usr',
      'mount -o remount,rw /',
      'mount -o remount,rw,bind /proc/sys',
      'umount -l /proc/sys',
      'unshare -m true',
      'unshare -U true',
      'unshare -r true',
      'unshare -Ur --map-root-user mount -t tmpfs none /tmp',
      'nsenter -t 1 -m true',
      'nsenter -t 1 -U true',
      'chroot /home/node /bin/true',
      'bwrap --ro-bind / / true',
    ]
    const command = programs.map((program) => `${program} >/dev/null 2>&1 && echo '${program}'`).join('\n')
    assert.equal(await host().attack(`${command}\ntrue`), '')
  })
})

/** Runs all attacks in one run, each in its own process so that a successful one does not affect the others. */
async function runAllCalls({ attack }: AttackHost): Promise<readonly string[]> {
  const programs = Object.values(CALLS).map(
    ({ program }) => `print "\\0"; if (my $pid = fork) { waitpid $pid, 0 } else { alarm 10; ${program} exit }`,
  )
  const output = await attack(perl(`$| = 1; ${programs.join('\n')}`))
  return output
    .split('\0')
    .slice(1)
    .map((line) => line.trim())
}

function once<T>(start: () => Promise<T>): () => Promise<T> {
  let started: Promise<T> | undefined
  return () => {
    started ??= start()
    return started
  }
}
