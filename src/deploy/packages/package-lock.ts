// Lets only one command change the packages of an instance. The lock is a name in Linux's abstract socket namespace, which the
// kernel frees when the process ends in any way; a lock file would survive a kill.
import { hash } from 'node:crypto'
import { once } from 'node:events'
import { realpathSync } from 'node:fs'
import { createServer } from 'node:net'
import { platform } from 'node:os'
import type { Layout } from '../../core/layout.ts'
import { errnoCode } from '../../lib/files/atomic-file.ts'
import { refuse } from '../../lib/refusal.ts'

/** Refuses while another command has the lock. */
export async function withPackageLock<T>(layout: Layout, work: () => Promise<T>): Promise<T> {
  await using lock = await tryPackageLock(layout)
  if (!lock) refuse('conflict', 'another svc packages command is changing this instance', 'wait for it, then try again')
  return await work()
}

/** Undefined while another command has the lock. */
export async function tryPackageLock({ root }: Layout): Promise<AsyncDisposable | undefined> {
  if (platform() !== 'linux') return { [Symbol.asyncDispose]: async () => {} }
  const server = createServer((socket) => socket.destroy())
  server.listen(`\0svc-packages-${hash('sha256', realpathSync(root), 'hex').slice(0, 40)}`)
  try {
    await once(server, 'listening')
  } catch (error) {
    if (errnoCode(error) === 'EADDRINUSE') return undefined
    throw error
  }
  return { [Symbol.asyncDispose]: async () => void server.close() }
}
