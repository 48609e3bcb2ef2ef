// Addresses of the containers' networks. They are fixed, because addresses decide: webd believes the forwarding headers of
// proxyd only, and egress-proxy knows the services of packages by their addresses.
import { hash } from 'node:crypto'

/** `internal`: daemons and database. `packages`: services of packages. `front`: published ports. `outbound`: the way out. */
export const NETWORK_NAMES = ['internal', 'packages', 'front', 'outbound'] as const
export type NetworkName = (typeof NETWORK_NAMES)[number]

export interface ContainerNetworks {
  readonly subnets: Readonly<Record<NetworkName, string>>
  /** Addresses that the engine may choose; the fixed ones are above. */
  readonly ranges: Readonly<Record<NetworkName, string>>
  /** Of this machine in `front`: connections from this machine come from there. */
  readonly frontGateway: string
  readonly proxyd: string
  readonly egressProxy: string
  /** Of the service of a package, by its position among all of them. */
  packageService(at: number): string
}

/** Fixed addresses of services: 100 to 169, and 170 to 239 for `svc pair`. */
export const PACKAGE_SERVICES_MAX = 70
const FIRST_PACKAGE = 100
const FIXED = 250

/** `subnet` is a /22, one /24 for each network. Without it, each data directory gets one of 4096. */
export function containerNetworks(subnet: string | undefined, dataDirectory: string): ContainerNetworks {
  const [a = '10', b = '0', c = '0'] = (subnet ?? defaultSubnet(dataDirectory)).split('.')
  const prefix = (name: NetworkName): string => `${a}.${b}.${Number(c) + NETWORK_NAMES.indexOf(name)}`
  const perNetwork = (suffix: string): Record<NetworkName, string> => ({
    internal: prefix('internal') + suffix,
    packages: prefix('packages') + suffix,
    front: prefix('front') + suffix,
    outbound: prefix('outbound') + suffix,
  })
  return {
    subnets: perNetwork('.0/24'),
    ranges: perNetwork('.0/26'),
    frontGateway: `${prefix('front')}.1`,
    proxyd: `${prefix('internal')}.${FIXED}`,
    egressProxy: `${prefix('packages')}.${FIXED}`,
    packageService: (at) => `${prefix('packages')}.${FIRST_PACKAGE + at}`,
  }
}

/** The address of a second container of the same service: while the first runs, its address is taken. */
export function pairedAddress(address: string): string {
  const [, prefix = '', last = '0'] = /^(\d+\.\d+\.\d+)\.(\d+)$/.exec(address) ?? []
  const offset = Number(last) >= FIXED ? 1 : PACKAGE_SERVICES_MAX
  return `${prefix}.${Number(last) + offset}`
}

/** In 10.64.0.0/10, which engines do not choose by themselves. */
function defaultSubnet(dataDirectory: string): string {
  const [first = 0, second = 0] = hash('sha256', dataDirectory, 'buffer')
  return `10.${64 + (first % 64)}.${second & 0xfc}.0/22`
}
