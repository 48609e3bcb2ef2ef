// The containers of an instance, found by the labels that every compose sets: their names differ between versions.
import { z } from 'zod'
import { type ContainerEngine, runEngine } from '../egress/container/engine.ts'
import { Refusal, refuse } from '../lib/refusal.ts'
import { tryParseJson } from '../lib/text/json.ts'
import { ENGINES, projectName } from './compose-command.ts'

export interface ServiceContainer {
  readonly service: string
  /** Of the engine: `running`, `exited`, `restarting`, … */
  readonly state: string
  /** `healthy`, `unhealthy`, `starting`; undefined if it has no health check. */
  readonly health?: string | undefined
  /** Published addresses, such as `127.0.0.1:8080`. */
  readonly ports: readonly string[]
  /** The compose file that made it, as compose wrote it down. */
  readonly composeFile?: string | undefined
}

/** An engine tells hundreds of values about each container. */
const INSPECTED_VALUES_MAX = 1_000_000

const Inspected = z.array(
  z.object({
    State: z.object({ Status: z.string(), Health: z.object({ Status: z.string() }).nullish() }),
    Config: z.object({ Labels: z.record(z.string(), z.string()).nullish() }),
    HostConfig: z.object({
      PortBindings: z
        .record(z.string(), z.array(z.object({ HostIp: z.string().optional(), HostPort: z.string() })).nullable())
        .nullish(),
    }),
  }),
)

/** Of the engine that is installed on this machine. */
export async function findContainers(instance: string): Promise<readonly ServiceContainer[]> {
  for (const engine of ENGINES) {
    try {
      return await listContainers(engine, instance)
    } catch (error) {
      // Not installed: the next one may be.
      if (!(error instanceof Refusal) || error.code !== 'not_found') throw error
    }
  }
  return refuse('unavailable', 'there is no docker and no podman on the PATH')
}

export async function listContainers(engine: ContainerEngine, instance: string): Promise<readonly ServiceContainer[]> {
  const filter = ['--filter', `label=com.docker.compose.project=${projectName(instance)}`]
  const ids = (await runEngine(engine, ['ps', '--all', '--quiet', '--no-trunc', ...filter])).split('\n').filter(Boolean)
  if (ids.length === 0) return []
  const found = Inspected.safeParse(
    tryParseJson(await runEngine(engine, ['inspect', '--type', 'container', ...ids]), INSPECTED_VALUES_MAX),
  )
  if (!found.success) return refuse('unavailable', `${engine.command} inspect gave an answer that svc cannot read`)
  return found.data.flatMap(({ State, Config: { Labels }, HostConfig: { PortBindings } }): ServiceContainer[] => {
    const service = Labels?.['com.docker.compose.service']
    // A container of `svc pair`.
    if (service === undefined || Labels?.['com.docker.compose.oneoff'] === 'True') return []
    const ports = Object.values(PortBindings ?? {}).flatMap((bindings) => bindings ?? [])
    return [
      {
        service,
        state: State.Status,
        health: State.Health?.Status || undefined,
        composeFile: Labels?.['com.docker.compose.project.config_files'],
        ports: ports.map(({ HostIp, HostPort }) => `${HostIp || '0.0.0.0'}:${HostPort}`),
      },
    ]
  })
}
