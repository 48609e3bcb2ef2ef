// System-call filter of the sandbox: a classic BPF program for `bwrap --seccomp`. Our own, because it is a table and sixty
// lines, and libseccomp would have to be compiled. Calls that are not listed are allowed: namespaces and missing
// capabilities are the first barrier, this is the second.
import { constants } from 'node:os'

type Arch = 'x64' | 'arm64'

const AUDIT_ARCH: Readonly<Record<Arch, number>> = { x64: 0xc000_003e, arm64: 0xc000_00b7 }

/** Refused with EPERM. Call numbers on x64 and, if the call exists there, on arm64. */
const REFUSED: Readonly<Record<string, readonly [number, number?]>> = {
  // Access to other processes.
  ptrace: [101, 117],
  process_vm_readv: [310, 270],
  process_vm_writev: [311, 271],
  pidfd_getfd: [438, 438],
  kcmp: [312, 272],
  // Keyrings are not namespaced.
  keyctl: [250, 219],
  add_key: [248, 217],
  request_key: [249, 218],
  // Mounts and namespaces.
  mount: [165, 40],
  umount2: [166, 39],
  pivot_root: [155, 41],
  chroot: [161, 51],
  setns: [308, 268],
  open_tree: [428, 428],
  move_mount: [429, 429],
  fsopen: [430, 430],
  fsconfig: [431, 431],
  fsmount: [432, 432],
  fspick: [433, 433],
  mount_setattr: [442, 442],
  open_tree_attr: [467, 467],
  // Opens files by handle instead of path.
  open_by_handle_at: [304, 265],
  // Large kernel interfaces that agents do not need.
  bpf: [321, 280],
  perf_event_open: [298, 241],
  userfaultfd: [323, 282],
  fanotify_init: [300, 262],
  lookup_dcookie: [212, 18],
  // State of the whole machine.
  kexec_load: [246, 104],
  kexec_file_load: [320, 294],
  init_module: [175, 105],
  finit_module: [313, 273],
  delete_module: [176, 106],
  swapon: [167, 224],
  swapoff: [168, 225],
  reboot: [169, 142],
  quotactl: [179, 60],
  quotactl_fd: [443, 443],
  acct: [163, 89],
  settimeofday: [164, 170],
  clock_settime: [227, 112],
  syslog: [103, 116],
  vhangup: [153, 58],
  sethostname: [170, 161],
  setdomainname: [171, 162],
  iopl: [172],
  ioperm: [173],
  uselib: [134],
  modify_ldt: [154],
}

/** Refused with ENOSYS, so that programs fall back to older calls. */
const UNIMPLEMENTED: Readonly<Record<string, readonly [number, number]>> = {
  // io_uring performs operations that no filter sees.
  io_uring_setup: [425, 425],
  io_uring_enter: [426, 426],
  io_uring_register: [427, 427],
  // Its flags are in memory, which a filter cannot read; those of `clone` are in a register.
  clone3: [435, 435],
}

/** The names of all calls that are refused whatever their arguments. */
export const REFUSED_CALLS: readonly string[] = [...Object.keys(REFUSED), ...Object.keys(UNIMPLEMENTED)]

const SOCKET = [41, 198] as const
const SOCKETPAIR = [53, 199] as const
const CLONE = [56, 220] as const
const UNSHARE = [272, 97] as const
const IOCTL = [16, 29] as const

const AF_UNIX = 1
const AF_INET = 2
const AF_INET6 = 10
const AF_NETLINK = 16
const SOCK_TYPE_MASK = 0xf
const SOCK_RAW = 3
const TIOCSTI = 0x5412
const TIOCLINUX = 0x541c
/** CLONE_NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. */
const NEW_NAMESPACE =
  0x80 | 0x0002_0000 | 0x0200_0000 | 0x0400_0000 | 0x0800_0000 | 0x1000_0000 | 0x2000_0000 | 0x4000_0000
/** From here on x64 numbers are those of the x32 mode, which would pass by every comparison. */
const X32_BIT = 0x4000_0000

const LOAD = 0x20
const JUMP_EQUAL = 0x15
const JUMP_AT_LEAST = 0x35
const JUMP_ANY_BIT = 0x45
const AND = 0x54
const RETURN = 0x06

const NUMBER_AT = 0
const ARCH_AT = 4
const argumentAt = (index: number): number => 16 + 8 * index

const ALLOW = 0x7fff_0000
const refusal = (errno: number): number => 0x0005_0000 | errno

/** One instruction: operation, jump offsets when true and when false, operand. */
type Instruction = readonly [code: number, yes: number, no: number, operand: number]

/** Undefined on an unsupported architecture. */
export function seccompFilter(arch: string = process.arch): Buffer | undefined {
  if (arch !== 'x64' && arch !== 'arm64') return undefined
  const column = arch === 'x64' ? 0 : 1
  const { EPERM, ENOSYS } = constants.errno
  const program: Instruction[] = [
    [LOAD, 0, 0, ARCH_AT],
    [JUMP_EQUAL, 1, 0, AUDIT_ARCH[arch]],
    [RETURN, 0, 0, refusal(ENOSYS)],
    [LOAD, 0, 0, NUMBER_AT],
  ]
  if (arch === 'x64') program.push([JUMP_AT_LEAST, 0, 1, X32_BIT], [RETURN, 0, 0, refusal(ENOSYS)])
  const refuseAll = (table: Readonly<Record<string, readonly [number, number?]>>, errno: number): void => {
    for (const numbers of Object.values(table)) {
      const number = numbers[column]
      if (number !== undefined) program.push([JUMP_EQUAL, 0, 1, number], [RETURN, 0, 0, refusal(errno)])
    }
  }
  refuseAll(REFUSED, EPERM)
  refuseAll(UNIMPLEMENTED, ENOSYS)
  program.push(
    ...forCall(CLONE[column], NO_NAMESPACES),
    ...forCall(UNSHARE[column], NO_NAMESPACES),
    ...forCall(IOCTL[column], NO_TERMINAL_INPUT),
    ...forCall(SOCKETPAIR[column], UNIX_ONLY),
    ...forCall(SOCKET[column], FAMILIES),
    [RETURN, 0, 0, ALLOW],
  )
  return assemble(program)
}

/** Runs `body`, which ends with a return, for one call only. */
function forCall(number: number, body: readonly Instruction[]): Instruction[] {
  return [[JUMP_EQUAL, 0, body.length, number], ...body]
}

const NO_NAMESPACES: readonly Instruction[] = [
  [LOAD, 0, 0, argumentAt(0)],
  [JUMP_ANY_BIT, 0, 1, NEW_NAMESPACE],
  [RETURN, 0, 0, refusal(constants.errno.EPERM)],
  [RETURN, 0, 0, ALLOW],
]

/** Injection of input into a terminal. The kernel compares 32 bits of the request, and so does the filter. */
const NO_TERMINAL_INPUT: readonly Instruction[] = [
  [LOAD, 0, 0, argumentAt(1)],
  [JUMP_EQUAL, 1, 0, TIOCSTI],
  [JUMP_EQUAL, 0, 1, TIOCLINUX],
  [RETURN, 0, 0, refusal(constants.errno.EPERM)],
  [RETURN, 0, 0, ALLOW],
]

const UNIX_ONLY: readonly Instruction[] = [
  [LOAD, 0, 0, argumentAt(0)],
  [JUMP_EQUAL, 0, 1, AF_UNIX],
  [RETURN, 0, 0, ALLOW],
  [RETURN, 0, 0, refusal(constants.errno.EAFNOSUPPORT)],
]

/**
 * Unix and IP sockets, and the routing part of netlink, by which the C library lists interfaces. Packet, vsock, Bluetooth
 * and crypto sockets reach past the network namespace or into rarely used kernel code.
 */
const FAMILIES: readonly Instruction[] = [
  [LOAD, 0, 0, argumentAt(0)],
  [JUMP_EQUAL, 9, 0, AF_UNIX],
  [JUMP_EQUAL, 4, 0, AF_INET],
  [JUMP_EQUAL, 3, 0, AF_INET6],
  [JUMP_EQUAL, 0, 7, AF_NETLINK],
  [LOAD, 0, 0, argumentAt(2)],
  [JUMP_EQUAL, 4, 5, 0],
  // Not reached for netlink, where the type does not matter.
  [LOAD, 0, 0, argumentAt(1)],
  [AND, 0, 0, SOCK_TYPE_MASK],
  [JUMP_EQUAL, 0, 1, SOCK_RAW],
  [RETURN, 0, 0, refusal(constants.errno.EPERM)],
  [RETURN, 0, 0, ALLOW],
  [RETURN, 0, 0, refusal(constants.errno.EAFNOSUPPORT)],
]

function assemble(program: readonly Instruction[]): Buffer {
  const bytes = Buffer.alloc(program.length * 8)
  for (const [at, [code, yes, no, operand]] of program.entries()) {
    bytes.writeUInt16LE(code, at * 8)
    bytes.writeUInt8(yes, at * 8 + 2)
    bytes.writeUInt8(no, at * 8 + 3)
    bytes.writeUInt32LE(operand >>> 0, at * 8 + 4)
  }
  return bytes
}
