// Starts the proxy's container, waits until it is ready, and follows its log.
import { setTimeout as pause } from 'node:timers/promises'
import { engineSucceeds } from '../container/engine.ts'
import { componentName, type Run } from '../container/engine-args.ts'
import { type StartedComponent, startComponent } from './component-start.ts'
import { Denials } from './denials.ts'

export interface ProxyContainer extends StartedComponent {
  /** Stops it and returns all denials, whose last lines come after the workload's end. */
  finish(): Promise<Denials>
}

/** Tunnels that linger at their far end are not waited for. */
const FINISH_MS = 5000

/** Refuses with its last log line if it does not start. */
export async function startProxyContainer(run: Run): Promise<ProxyContainer> {
  const denials = new Denials()
  const { ended } = await startComponent(run, 'proxy', { label: 'the proxy', read: (line) => denials.read(line) })
  return {
    ended,
    async finish() {
      await engineSucceeds(run.engine, ['kill', '--signal', 'TERM', componentName(run, 'proxy')])
      const late = new AbortController()
      await Promise.race([ended, pause(FINISH_MS, undefined, { signal: late.signal }).catch(() => undefined)])
      late.abort()
      return denials
    },
  }
}
