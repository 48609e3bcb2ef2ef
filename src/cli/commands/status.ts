// Shows the containers of an instance and the channels that are registered at its router.
import { z } from 'zod'
import type { ServiceContainer } from '../../deploy/container-list.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { tryParseJson } from '../../lib/text/json.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import type { ConfiguredInstance } from '../instance/instance.ts'

const TIMEOUT_MS = 10_000

const ChannelList = z.object({ channels: z.array(z.object({ name: z.string(), url: z.string() })) })

interface ChannelQuery {
  readonly url: string
  readonly channels?: readonly { readonly name: string; readonly url: string }[]
  /** Why routd gave no answer. */
  readonly unreachable?: string
  /** Why it gave none to us. */
  readonly refused?: string
}

export const statusCommands = [
  defineSvcCommand({
    usage: 'status <instance> [--json]',
    about: 'list the containers of the compose file, then the channels registered at the router, each with its URL',
    example: 'status demo',
    run: async (svc, { instance }) => {
      const { readComposeServices } = await import('../../deploy/written-compose.ts')
      const configured = await svc.findInstance()
      const services = Object.keys(await readComposeServices(configured.layout.compose, instance))
      const containers = await findContainers(svc, instance)
      const rows = services.map((service) => describe(service, containers))
      if (!svc.print.json) showServices(svc, rows)
      const query = await queryChannels(configured)
      if (svc.print.json) svc.print.record({}, { services: rows, routd: query })
      else showChannels(svc, query)
      return query.refused === undefined ? 0 : 1
    },
  }),
]

/** Undefined if the engine cannot be asked; the router may still answer. */
async function findContainers({ print }: SvcContext, instance: string) {
  const { findContainers: find } = await import('../../deploy/container-list.ts')
  try {
    return await find(instance)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    print.warn(`the containers are unknown: ${error.message}`)
    return undefined
  }
}

interface ServiceRow {
  readonly service: string
  readonly state: string
  readonly health?: string | undefined
  readonly ports: readonly string[]
}

function describe(service: string, containers: readonly ServiceContainer[] | undefined): ServiceRow {
  if (!containers) return { service, state: 'unknown', ports: [] }
  const found = containers.find((container) => container.service === service)
  if (!found) return { service, state: 'not created', ports: [] }
  const { state, health, ports } = found
  return { service, state, health, ports }
}

function showServices({ print }: SvcContext, rows: readonly ServiceRow[]): void {
  print.table({
    rows,
    columns: {
      SERVICE: ({ service }) => service,
      STATE: ({ state }) => state,
      HEALTH: ({ health = '-' }) => health,
      PORTS: ({ ports }) => ports.join(', ') || '-',
    },
    empty: 'the compose file has no services',
  })
}

async function queryChannels({ settings, sources }: ConfiguredInstance): Promise<ChannelQuery> {
  const { listenAddressOf } = await import('../../daemons/process/listen-addresses.ts')
  const url = `http://127.0.0.1:${listenAddressOf('routd', sources).listen.port}/v1/channels`
  let response: Response
  let body: unknown
  try {
    response = await fetch(url, {
      headers: { Authorization: `Bearer ${settings.CHANNEL_SECRET ?? ''}` },
      signal: AbortSignal.timeout(TIMEOUT_MS),
      redirect: 'manual',
    })
    body = tryParseJson(await response.text())
  } catch (error) {
    return { url, unreachable: await reasonOf(error) }
  }
  if (response.status === 401)
    return {
      url,
      refused: 'it does not accept CHANNEL_SECRET of .env, which has changed: stop svc run and start it again',
    }
  const list = ChannelList.safeParse(body)
  if (response.ok && list.success) return { url, channels: list.data.channels }
  return { url, refused: `it answered with status ${response.status}` }
}

async function reasonOf(error: unknown): Promise<string> {
  if (error instanceof Error && error.name === 'TimeoutError') return `no answer within ${TIMEOUT_MS / 1000} s`
  const { rootCauseOf } = await import('../../lib/http/error-cause.ts')
  const { code, message } = rootCauseOf(error)
  return code ?? message
}

function showChannels({ print }: SvcContext, { url, channels, unreachable, refused }: ChannelQuery): void {
  if (unreachable !== undefined) print.say(`the router cannot be reached at ${url}: ${unreachable}`)
  else if (refused !== undefined) refuseChannels(url, refused)
  else {
    if (channels?.length) print.line('')
    print.table({
      rows: channels ?? [],
      columns: { CHANNEL: ({ name }) => name, URL: ({ url: address }) => address },
      empty: 'no channels are registered',
    })
  }
}

function refuseChannels(url: string, reason: string): never {
  return refuse('unavailable', `the router at ${url} did not list its channels: ${reason}`)
}
