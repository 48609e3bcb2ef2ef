// One process of a machine serves the tool sockets of an instance. Another one, such as a new version during a rolling
// restart, waits until it can take over.
import { setTimeout as pause } from 'node:timers/promises'
import { Refusal } from '../../lib/refusal.ts'
import { FolderSockets, type FolderSocketsOptions } from './folder-sockets.ts'

const RETRY_MS = 500

export interface SocketServer {
  close(): Promise<void>
}

/** The sockets listen when it returns, unless another process serves them. */
export async function openOrStandBy(options: FolderSocketsOptions): Promise<SocketServer> {
  const sockets = await openIfFree(options)
  if (sockets) return sockets
  options.log.warn('another process serves the tool sockets of this instance; this one takes over when it ends')
  const stop = new AbortController()
  const waiting = standBy(options, stop.signal).catch((error) => {
    options.host.faults.report('job', error)
    return undefined
  })
  return {
    close: async () => {
      stop.abort()
      await (await waiting)?.close()
    },
  }
}

async function standBy(options: FolderSocketsOptions, signal: AbortSignal): Promise<FolderSockets | undefined> {
  while (!signal.aborted) {
    await pause(RETRY_MS, undefined, { ref: false, signal }).catch(() => undefined)
    const sockets = signal.aborted ? undefined : await openIfFree(options)
    if (!sockets) continue
    options.log.info('this process now serves the tool sockets of this instance')
    return sockets
  }
  return undefined
}

async function openIfFree(options: FolderSocketsOptions): Promise<FolderSockets | undefined> {
  try {
    return await FolderSockets.open(options)
  } catch (error) {
    if (error instanceof Refusal && error.code === 'conflict') return undefined
    throw error
  }
}
