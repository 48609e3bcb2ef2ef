// Programs of attackers: system calls by number, in Perl, which every cell has.

/** The numbers on x64 and arm64. Newer calls have one number on every machine. */
const NUMBERS = {
  ...{ ptrace: [101, 117], process_vm_readv: [310, 270], process_vm_writev: [311, 271], pidfd_getfd: [438, 438] },
  ...{ kcmp: [312, 272], keyctl: [250, 219], add_key: [248, 217], request_key: [249, 218] },
  ...{ mount: [165, 40], umount2: [166, 39], pivot_root: [155, 41], chroot: [161, 51], setns: [308, 268] },
  ...{ open_tree: [428, 428], move_mount: [429, 429], fsopen: [430, 430], fsconfig: [431, 431], fsmount: [432, 432] },
  ...{ fspick: [433, 433], mount_setattr: [442, 442], open_by_handle_at: [304, 265], unshare: [272, 97] },
  ...{ clone: [56, 220], clone3: [435, 435], bpf: [321, 280], perf_event_open: [298, 241], userfaultfd: [323, 282] },
  ...{ fanotify_init: [300, 262], io_uring_setup: [425, 425], io_uring_enter: [426, 426], ioctl: [16, 29] },
  ...{ io_uring_register: [427, 427], socket: [41, 198], socketpair: [53, 199], clock_settime: [227, 112] },
  ...{ settimeofday: [164, 170], clock_adjtime: [305, 266], sethostname: [170, 161], setdomainname: [171, 162] },
  ...{ syslog: [103, 116], reboot: [169, 142], kexec_load: [246, 104], init_module: [175, 105], swapon: [167, 224] },
  ...{ acct: [163, 89], quotactl: [179, 60], mknodat: [259, 33], setuid: [105, 146], setgroups: [116, 159] },
  ...{ capset: [126, 91], prlimit64: [302, 261], ioprio_set: [251, 30], setpriority: [141, 140] },
  ...{ renameat2: [316, 276], pidfd_open: [434, 434], sendmsg: [46, 211] },
} as const satisfies Record<string, readonly [number, number]>

export type SystemCall = keyof typeof NUMBERS

export function numberOf(name: SystemCall): number {
  return NUMBERS[name][process.arch === 'arm64' ? 1 : 0]
}

/** Perl that makes the call and prints `done` or the error. Arguments are Perl expressions. */
export function perlCall(name: SystemCall, ...args: readonly (string | number)[]): string {
  return perlCallNumber(numberOf(name), ...args)
}

export function perlCallNumber(number: number, ...args: readonly (string | number)[]): string {
  // Through a list, because Perl does not pass constant strings: the kernel may write to them.
  return `{ my @given = (${args.join(', ')}); print syscall(${number}, @given) == -1 ? "$!\\n" : "done\\n"; }`
}

/** A program with its arguments. */
export function perl(program: string): readonly string[] {
  return ['perl', '-e', program]
}

export function python(program: string): readonly string[] {
  return ['python3', '-c', program]
}

/** How long `STUCK` sockets make a close() wait, in seconds. */
export const LINGER_SECONDS = 30

/**
 * Python: `stuck()` returns a socket with unsent data, whose last close() waits for `LINGER_SECONDS`; `send(link, text,
 * files)` sends descriptors, closes its own in a thread, and returns the result; `tools()` connects to the tool socket.
 */
export const STUCK = `
import array, os, socket, struct, sys, threading
kept = []
def stuck():
    listener = socket.socket()
    listener.bind(('127.0.0.1', 0))
    listener.listen()
    client = socket.socket()
    client.connect(listener.getsockname())
    kept.extend([listener, listener.accept()[0]])
    client.setblocking(False)
    try:
        while True: client.send(b'x' * 65536)
    except BlockingIOError: pass
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, ${LINGER_SECONDS}))
    return client
def send(link, text, files):
    try:
        rights = array.array('i', [each.fileno() for each in files])
        link.sendmsg([text], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        return 'sent'
    except OSError as error:
        return error.strerror
    finally:
        threading.Thread(target=lambda: [each.close() for each in files], daemon=True).start()
def tools(path='/run/ipc/gated.sock'):
    link = socket.socket(socket.AF_UNIX)
    link.connect(path)
    return link
`
