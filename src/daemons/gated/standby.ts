// One process of a machine serves the sockets of an instance. Another one, as there is while a new version takes over from
// the old, stands by and takes them when they are free.
import { setTimeout as pause } from 'node:timers/promises'
import { Refusal } from '../../lib/refusal.ts'
import { Sockets, type SocketsOptions } from './sockets.ts'

const LOOK_MS = 500

export interface Standing {
  close(): Promise<void>
}

/** The sockets listen when it returns, unless another process has them. */
export async function openOrStandBy(options: SocketsOptions): Promise<Standing> {
  const sockets = await openIfFree(options)
  if (sockets) return sockets
  options.log.warn('another process serves the tools of this instance; this one takes over when it ends')
  const stop = new AbortController()
  const waiting = standBy(options, stop.signal).catch((error) => {
    options.host.onStray?.(error)
    return undefined
  })
  return {
    close: async () => {
      stop.abort()
      await (await waiting)?.close()
    },
  }
}

async function standBy(options: SocketsOptions, signal: AbortSignal): Promise<Sockets | undefined> {
  while (!signal.aborted) {
    await pause(LOOK_MS, undefined, { ref: false, signal }).catch(() => undefined)
    const sockets = signal.aborted ? undefined : await openIfFree(options)
    if (!sockets) continue
    options.log.info('the tools of this instance are served here now')
    return sockets
  }
  return undefined
}

async function openIfFree(options: SocketsOptions): Promise<Sockets | undefined> {
  try {
    return await Sockets.open(options)
  } catch (error) {
    if (error instanceof Refusal && error.code === 'conflict') return undefined
    throw error
  }
}
