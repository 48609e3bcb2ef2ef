// The port at which a running process serves an instance, which `svc serve --port` may have changed.
import { servingProcesses } from '../../daemons/process/presence.ts'
import { withPort } from '../input/port-flag.ts'
import type { ConfiguredInstance } from './instance.ts'

/** The instance with the port of the process that serves it, if there is one: links must lead there. */
export async function atServedPort(configured: ConfiguredInstance): Promise<ConfiguredInstance> {
  const url = (await servingProcesses(configured.layout))?.map(({ urls }) => urls.proxyd).find(Boolean)
  const port = Number(URL.parse(url ?? '')?.port)
  return port > 0 ? withPort(configured, port, 'the running server') : configured
}
