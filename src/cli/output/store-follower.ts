// Polls the store after every write and once a second, until Ctrl-C. An instance on another machine reports no writes.
import type { SvcContext } from '../command.ts'

const POLL_MS = 1000

/** `start` prints the current rows and returns a function that prints new ones. */
export async function followStore(svc: SvcContext, start: () => Promise<() => Promise<void>>): Promise<void> {
  const stop = new AbortController()
  void svc.io.stopped().then(() => stop.abort())
  const engine = (await svc.isRemote()) ? undefined : (await svc.open()).host.engine
  let wake = Promise.withResolvers<void>()
  const unlisten = engine?.listen(() => wake.resolve())
  stop.signal.addEventListener('abort', () => wake.resolve())
  try {
    const poll = await start()
    while (!stop.signal.aborted) {
      const timer = setTimeout(() => wake.resolve(), POLL_MS)
      await wake.promise
      clearTimeout(timer)
      wake = Promise.withResolvers()
      if (!stop.signal.aborted) await poll()
    }
  } finally {
    unlisten?.()
  }
}
