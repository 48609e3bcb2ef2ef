// The seccomp profile of agents' containers: what engines commonly allow, without the calls that the filter of other cells
// refuses. Input into terminals is not filtered: a container has none but its own.
import { constants } from 'node:os'
import { allowFirst, CLONE_RULE, COMMON_CALLS, PERSONALITY_RULES, type SeccompRule } from '../../lib/seccomp-profile.ts'
import { REFUSED_CALLS } from '../bubblewrap/seccomp.ts'

const AF_UNIX = 1
const AF_INET = 2
const AF_INET6 = 10
const AF_NETLINK = 16
const NETLINK_ROUTE = 0
const SOCK_STREAM = 1
const SOCK_DGRAM = 2
const SOCK_TYPE_MASK = 0xf

/** Programs fall back from these only on ENOSYS. Listed, because docker before 23 answers EPERM to unlisted calls. */
const UNIMPLEMENTED = ['clone3', 'io_uring_setup', 'io_uring_enter', 'io_uring_register', 'socketcall']

/** The common calls contain some of them, such as `ptrace`. */
const REFUSED = new Set(REFUSED_CALLS)

export function agentSeccompProfile(): object {
  const syscalls: SeccompRule[] = [
    { names: COMMON_CALLS.filter((name) => !REFUSED.has(name)), action: 'SCMP_ACT_ALLOW' },
    allowFirst('socket', AF_UNIX),
    ...[AF_INET, AF_INET6].flatMap((family) => [SOCK_STREAM, SOCK_DGRAM].map((type) => allowInternet(family, type))),
    allowNetlinkRoute(),
    allowFirst('socketpair', AF_UNIX),
    ...PERSONALITY_RULES,
    CLONE_RULE,
    { names: UNIMPLEMENTED, action: 'SCMP_ACT_ERRNO', errnoRet: constants.errno.ENOSYS },
  ]
  // Without the 32-bit modes, whose `socketcall` no filter can see into.
  const architectures = [process.arch === 'arm64' ? 'SCMP_ARCH_AARCH64' : 'SCMP_ARCH_X86_64']
  return { defaultAction: 'SCMP_ACT_ERRNO', defaultErrnoRet: constants.errno.EPERM, architectures, syscalls }
}

/** No raw sockets. The type has flags above the mask. */
function allowInternet(family: number, type: number): SeccompRule {
  return {
    names: ['socket'],
    action: 'SCMP_ACT_ALLOW',
    args: [
      { index: 0, value: family, op: 'SCMP_CMP_EQ' },
      { index: 1, value: SOCK_TYPE_MASK, valueTwo: type, op: 'SCMP_CMP_MASKED_EQ' },
    ],
  }
}

/** The C library lists interfaces by it. */
function allowNetlinkRoute(): SeccompRule {
  return {
    names: ['socket'],
    action: 'SCMP_ACT_ALLOW',
    args: [
      { index: 0, value: AF_NETLINK, op: 'SCMP_CMP_EQ' },
      { index: 2, value: NETLINK_ROUTE, op: 'SCMP_CMP_EQ' },
    ],
  }
}
