// The seccomp profile of a workload, for docker and podman. Depending on the version, their own profiles permit AF_VSOCK sockets,
// which reach the host of a virtual machine and ignore network namespaces, so an internal network does not stop them. An
// engine's profile can only be replaced as a whole.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { constants, tmpdir } from 'node:os'
import { join } from 'node:path'
import type { OutputStream } from '../../lib/command-line/print.ts'
import { refuseDisk } from '../../lib/files/atomic-file.ts'
import { allowFirst, CLONE_RULE, COMMON_CALLS, PERSONALITY_RULES, type SeccompRule } from '../../lib/seccomp-profile.ts'
import type { ContainerEngine } from './engine.ts'

/**
 * Programs fall back from these only on ENOSYS. Listed one by one, because docker before 23 answers EPERM to unlisted calls. The
 * flags of `clone3` are in memory, where a filter cannot look.
 */
const UNKNOWN = ['clone3', 'socketcall', 'io_uring_setup', 'io_uring_enter', 'io_uring_register']

const AF_UNIX = 1
const AF_INET = 2
const AF_INET6 = 10
const AF_NETLINK = 16

export function seccompProfile(): object {
  const syscalls: SeccompRule[] = [
    { names: COMMON_CALLS, action: 'SCMP_ACT_ALLOW' },
    ...[AF_UNIX, AF_INET, AF_INET6, AF_NETLINK].map((family) => allowFirst('socket', family)),
    allowFirst('socketpair', AF_UNIX),
    ...PERSONALITY_RULES,
    CLONE_RULE,
    { names: UNKNOWN, action: 'SCMP_ACT_ERRNO', errnoRet: constants.errno.ENOSYS },
  ]
  return {
    defaultAction: 'SCMP_ACT_ERRNO',
    defaultErrnoRet: constants.errno.ENOSYS,
    archMap: [
      { architecture: 'SCMP_ARCH_X86_64', subArchitectures: ['SCMP_ARCH_X86'] },
      { architecture: 'SCMP_ARCH_AARCH64', subArchitectures: ['SCMP_ARCH_ARM'] },
    ],
    syscalls,
  }
}

export interface ProfileFile {
  readonly path: string
  /** The engine reads it only when it creates the container. */
  remove(): Promise<void>
}

/** Undefined, with a warning, if the engine would look for the file on another machine. */
export async function writeSeccompProfile(
  { kind }: ContainerEngine,
  stderr: OutputStream,
): Promise<ProfileFile | undefined> {
  if (kind === 'podman' && process.platform !== 'linux') {
    const sentence =
      'podman runs on another machine and uses its own seccomp profile, which may permit AF_VSOCK sockets'
    stderr.write(`egress-proxy: ${sentence}\n`)
    return undefined
  }
  try {
    const folder = await mkdtemp(join(tmpdir(), 'egress-proxy-'))
    const path = join(folder, 'seccomp.json')
    await writeFile(path, JSON.stringify(seccompProfile()), { mode: 0o600 })
    return { path, remove: () => rm(folder, { recursive: true, force: true }) }
  } catch (error) {
    return refuseDisk(error, 'write a file in', tmpdir())
  }
}
