// Looks at the store again whenever something was written, and once a second, until Ctrl-C.
import type { SvcContext } from '../command.ts'

const LOOK_MS = 1000

/** `begin` shows the current rows and returns a function that shows the new ones. */
export async function followStore(svc: SvcContext, begin: () => Promise<() => Promise<void>>): Promise<void> {
  const stop = new AbortController()
  void svc.io.stopped().then(() => stop.abort())
  const { host } = await svc.open()
  let hint = Promise.withResolvers<void>()
  const unlisten = host.engine.listen(() => hint.resolve())
  stop.signal.addEventListener('abort', () => hint.resolve())
  try {
    const look = await begin()
    while (!stop.signal.aborted) {
      const timer = setTimeout(() => hint.resolve(), LOOK_MS)
      await hint.promise
      clearTimeout(timer)
      hint = Promise.withResolvers()
      if (!stop.signal.aborted) await look()
    }
  } finally {
    unlisten()
  }
}
