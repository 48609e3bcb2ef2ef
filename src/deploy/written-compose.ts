// Reads the services of a written compose file, for commands that use it.
import { z } from 'zod'
import { readText } from '../lib/files/atomic-file.ts'
import { Refusal, refuse } from '../lib/refusal.ts'
import { nearest } from '../lib/text/nearest-word.ts'
import { pairedAddress } from './container-networks.ts'

const COMPOSE_MAX_BYTES = 4 * 1_048_576

const WrittenCompose = z.object({
  services: z.record(
    z.string(),
    z.object({
      networks: z.record(z.string(), z.object({ ipv4_address: z.string().optional() }).nullable()).optional(),
    }),
  ),
})

export type ComposeServices = z.output<typeof WrittenCompose>['services']

/** Refuses if there is no compose file. */
export async function readComposeServices(path: string, instance: string): Promise<ComposeServices> {
  const text = await readText(path, COMPOSE_MAX_BYTES).catch((error) => {
    if (!(error instanceof Refusal) || error.code !== 'not_found') throw error
    return refuse('not_found', `there is no compose file at ${path}`, `run svc generate ${instance} first`)
  })
  const { parse: parseYaml } = await import('yaml')
  let written: unknown
  try {
    written = parseYaml(text, { maxAliasCount: 100, logLevel: 'error' })
  } catch {
    written = undefined
  }
  const found = WrittenCompose.safeParse(written)
  if (found.success) return found.data.services
  return refuse('invalid', `${path} is not a compose file`, `write it anew with svc generate ${instance} --force`)
}

export function mustHaveService(services: ComposeServices, name: string): void {
  if (Object.hasOwn(services, name)) return
  const known = Object.keys(services)
  const meant = nearest(name, known)
  refuse(
    'not_found',
    `there is no service ${JSON.stringify(name.slice(0, 80))}${meant === undefined ? '' : `; did you mean ${meant}?`}`,
    `the services are ${known.join(', ')}`,
  )
}

/** A second compose file with other addresses for this service: while it runs, its own are taken. Undefined if it has none. */
export async function pairOverride(services: ComposeServices, name: string): Promise<string | undefined> {
  const networks = Object.entries(services[name]?.networks ?? {}).flatMap(([network, joined]) =>
    joined?.ipv4_address === undefined
      ? []
      : [[network, { ipv4_address: pairedAddress(joined.ipv4_address) }] as const],
  )
  if (networks.length === 0) return undefined
  const { stringify } = await import('yaml')
  return stringify({ services: { [name]: { networks: Object.fromEntries(networks) } } })
}
