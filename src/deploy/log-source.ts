// Where the log of an instance is: in the containers of its compose project, or in the journal of its systemd unit. A process on
// a terminal keeps none.
import { readlinkSync } from 'node:fs'
import { access } from 'node:fs/promises'
import type { Layout } from '../core/layout.ts'
import { servingProcesses } from '../daemons/process/presence.ts'
import { DAEMON_NAMES } from '../daemons/settings.ts'
import { type ContainerEngine, runEngine } from '../egress/container/engine.ts'
import { Refusal, refuse } from '../lib/refusal.ts'
import { ENGINES, projectName } from './compose-command.ts'
import { installedUnit, unitName } from './systemd.ts'

/** A program that prints the lines of one source. */
export interface LogCommand {
  readonly command: string
  readonly args: readonly string[]
  /** All of its lines are of this service, and begin with their time and a blank. */
  readonly service?: string | undefined
}

export interface LogQuery {
  readonly instance: string
  readonly layout: Layout
  /** A daemon or a service of the compose file; undefined for all. */
  readonly service: string | undefined
  /** Milliseconds since 1970. */
  readonly since: number
  readonly isFollowing: boolean
}

/** Refuses if there is no log, and says where it may be. */
export async function findLogCommands(query: LogQuery): Promise<readonly LogCommand[]> {
  const containers = await containerCommands(query)
  if (containers.length > 0) return containers
  if (await installedUnit(query.instance)) return [journalCommand(query)]
  return refuseWithPlace(query)
}

async function containerCommands(query: LogQuery): Promise<readonly LogCommand[]> {
  const { instance, layout, service, since, isFollowing } = query
  if (!(await exists(layout.compose))) return []
  const since3339 = new Date(since).toISOString()
  for (const engine of ENGINES) {
    const found = await listContainers(engine, instance)
    if (found.length === 0) continue
    const wanted = found.filter((container) => service === undefined || container.service === service)
    if (wanted.length === 0)
      refuseService(
        service,
        found.map((container) => container.service),
      )
    return wanted.map(({ id, service }) => ({
      command: engine.command,
      args: ['logs', '--timestamps', '--since', since3339, ...(isFollowing ? ['--follow'] : []), id],
      service,
    }))
  }
  return []
}

/** None if the engine is not installed, does not run or may not be used. */
async function listContainers(engine: ContainerEngine, instance: string) {
  try {
    const filter = ['--filter', `label=com.docker.compose.project=${projectName(instance)}`]
    const ids = (await runEngine(engine, ['ps', '--all', '--quiet', ...filter])).split('\n').filter(Boolean)
    if (ids.length === 0) return []
    const format = '{{.Id}} {{index .Config.Labels "com.docker.compose.service"}}'
    const lines = (await runEngine(engine, ['inspect', '--type', 'container', '--format', format, ...ids])).split('\n')
    return lines.flatMap((line) => {
      const [id = '', service = ''] = line.split(' ')
      return service === '' ? [] : [{ id, service }]
    })
  } catch (error) {
    if (error instanceof Refusal) return []
    throw error
  }
}

function journalCommand({ instance, service, since, isFollowing }: LogQuery): LogCommand {
  if (service !== undefined) mustBeDaemon(service)
  const range = ['--since', `@${Math.floor(since / 1000)}`, ...(isFollowing ? ['--follow', '--lines=all'] : [])]
  return { command: 'journalctl', args: ['--unit', unitName(instance), '--output=cat', '--no-pager', ...range] }
}

function mustBeDaemon(service: string): void {
  if (!DAEMON_NAMES.some((name) => name === service)) refuseService(service, DAEMON_NAMES)
}

function refuseService(service: string | undefined, known: readonly string[]): never {
  return refuse('not_found', `unknown daemon ${JSON.stringify(service)}`, `known: ${known.toSorted().join(', ')}`)
}

async function refuseWithPlace({ instance, layout }: LogQuery): Promise<never> {
  const [process] = (await servingProcesses(layout)) ?? []
  const remedy = `svc generate ${instance} --systemd keeps it in the journal of a unit`
  if (process?.pid === undefined)
    return refuse('not_found', `${instance} has no containers and no systemd unit, so there is no log`, remedy)
  const target = logTarget(process.pid)
  if (target?.startsWith('/dev/') === false)
    return refuse(
      'not_found',
      `process ${process.pid} serves ${instance} and writes its log to ${target}`,
      `tail -f ${target}`,
    )
  return refuse('not_found', `process ${process.pid} serves ${instance} and prints its log on its terminal`, remedy)
}

/** The file of its stderr; undefined if it is a pipe or not visible for this user. */
function logTarget(pid: number): string | undefined {
  try {
    const target = readlinkSync(`/proc/${pid}/fd/2`)
    return target.startsWith('/') ? target : undefined
  } catch {
    return undefined
  }
}

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}
