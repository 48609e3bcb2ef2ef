// The list of daemons; each is loaded when it starts.
import type { DaemonDefinition } from './daemon.ts'
import type { DaemonName } from './settings.ts'

/** timed on a machine without the store. */
export const storelessTimed = () => import('./timed/storeless.ts')

/** The process that runs turns. */
export const runnerProgram = () => import('./runed/run-turns.ts')

export const daemons: Readonly<Record<DaemonName, () => Promise<DaemonDefinition>>> = {
  proxyd: async () => (await import('./proxyd/daemon.ts')).proxyd,
  routd: async () => (await import('./routd/daemon.ts')).routd,
  webd: async () => (await import('./webd/daemon.ts')).webd,
  gated: async () => (await import('./gated/daemon.ts')).gated,
  runed: async () => (await import('./runed/daemon.ts')).runed,
  authd: async () => (await import('./authd/daemon.ts')).authd,
  onbod: async () => (await import('./onbod/daemon.ts')).onbod,
  timed: async () => (await import('./timed/daemon.ts')).timed,
  dashd: async () => (await import('./dashd/daemon.ts')).dashd,
}
