// The description of an agent's container for the engine.
import { type RunLimits, tmpfsBytes } from '../limits.ts'
import { MEMORY_DIRECTORIES } from './init-program.ts'
import type { PlannedMount } from './mount-plan.ts'

export const INSTANCE_LABEL = 'svc.instance'
export const OWNER_LABEL = 'svc.owner'
export const FOLDER_LABEL = 'svc.folder'

export interface ContainerSpec {
  readonly image: string
  readonly command: readonly string[]
  readonly user: { readonly uid: number; readonly gid: number }
  readonly limits: RunLimits
  readonly isNetworkOpen: boolean
  readonly labels: Readonly<Record<string, string>>
  /** Sources are paths on the machine of the engine. */
  readonly mounts: readonly Omit<PlannedMount, 'identity'>[]
  /** JSON, or for podman the path of a file. */
  readonly seccomp: string
  readonly usernsMode: string | undefined
}

/** Docker refuses less. */
const MEMORY_MIN = 6 * 1_048_576
/** What docker hides, and the devices and modules of the machine. The first process reads /sys/fs/cgroup. */
const HIDDEN = [
  ...[
    'asound',
    'acpi',
    'interrupts',
    'kcore',
    'keys',
    'latency_stats',
    'sched_debug',
    'scsi',
    'timer_list',
    'timer_stats',
  ].map((name) => `/proc/${name}`),
  ...['block', 'bus', 'class', 'dev', 'devices', 'firmware', 'hypervisor', 'kernel', 'module', 'power'].map(
    (name) => `/sys/${name}`,
  ),
]
/** For the first process. */
const OWN_PROCESSES = 1

/** The body of `POST /containers/create`. */
export function containerBody(spec: ContainerSpec): object {
  const { image, command, user, limits, isNetworkOpen, labels, mounts, seccomp, usernsMode } = spec
  const memory = Math.max(limits.memoryBytes, MEMORY_MIN)
  const size = tmpfsBytes(limits)
  const tmpfs = `rw,exec,nosuid,nodev,mode=1777,size=${size}`
  const [program, ...args] = command
  return {
    Image: image,
    Entrypoint: [program],
    Cmd: args,
    User: `${user.uid}:${user.gid}`,
    WorkingDir: '/',
    // The first process has no handler for others.
    StopSignal: 'SIGKILL',
    Hostname: 'svc',
    Labels: labels,
    // The image's check is for a daemon.
    Healthcheck: { Test: ['NONE'] },
    AttachStdin: false,
    AttachStdout: false,
    AttachStderr: false,
    HostConfig: {
      // The first process ends when svc does; then nothing is left.
      AutoRemove: true,
      ReadonlyRootfs: true,
      MaskedPaths: HIDDEN,
      NetworkMode: isNetworkOpen ? 'bridge' : 'none',
      IpcMode: 'private',
      CgroupnsMode: 'private',
      ...(usernsMode === undefined ? {} : { UsernsMode: usernsMode }),
      CapDrop: ['ALL'],
      SecurityOpt: ['no-new-privileges', `seccomp=${seccomp}`],
      Memory: memory,
      // No swap besides.
      MemorySwap: memory,
      ...(Number.isFinite(limits.processes) ? { PidsLimit: limits.processes + OWN_PROCESSES } : {}),
      // The first process sets the limits of a run, after it has passed on the listener.
      Ulimits: [{ Name: 'core', Soft: 0, Hard: 0 }],
      ShmSize: size,
      Tmpfs: Object.fromEntries(MEMORY_DIRECTORIES.map((path) => [path, tmpfs])),
      Mounts: mounts.map(({ source, target, isReadOnly }) => ({
        Type: 'bind',
        Source: source,
        Target: target,
        ReadOnly: isReadOnly,
        // A read-only mount would not make those below it read-only.
        ...(isReadOnly ? { BindOptions: { NonRecursive: true } } : {}),
      })),
      LogConfig: { Type: 'none' },
      RestartPolicy: { Name: 'no' },
    },
  }
}
