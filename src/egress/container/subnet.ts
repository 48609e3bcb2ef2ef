// Picks a small IPv4 block for a run's network that nothing else on the machine uses.
import { isIPv4 } from 'node:net'

export interface Subnet {
  /** The first address, as a number. */
  readonly base: number
  readonly bits: number
}

/** Gateway, proxy and workload, besides the first and last address of the block. */
const SMALLEST_BITS = 29
const LARGEST_BITS = 8
/** Size of the blocks to try: sixteen addresses. */
const FREE_BITS = 28

/** Where to look for free blocks, in this order. The first also contains podman's default network. */
const POOLS = ['10.88.0.0/16', '10.188.0.0/16', '172.30.0.0/16', '192.168.240.0/20']

/** A block large enough for a run, written with its first address: `10.88.0.0/16`. */
export function readSubnet(text: string): Subnet | undefined {
  const subnet = parseCidr(text)
  if (!subnet || subnet.bits > SMALLEST_BITS || subnet.bits < LARGEST_BITS) return undefined
  return subnet.base % sizeOf(subnet) === 0 ? subnet : undefined
}

/** Any block, also with host bits set, as of an interface. */
export function parseCidr(text: string): Subnet | undefined {
  const [, address = '', digits = ''] = /^([\d.]+)\/(\d{1,2})$/.exec(text) ?? []
  const bits = Number(digits)
  return isIPv4(address) && bits <= 32 ? { base: toNumber(address), bits } : undefined
}

export function showSubnet({ base, bits }: Subnet): string {
  return `${toText(base)}/${bits}`
}

export function addressAt({ base }: Subnet, offset: number): string {
  return toText(base + offset)
}

export function overlaps(a: Subnet, b: Subnet): boolean {
  const size = Math.max(sizeOf(a), sizeOf(b))
  return Math.floor(a.base / size) === Math.floor(b.base / size)
}

/** Blocks that overlap with none of these, in order. */
export function* freeSubnets(taken: readonly Subnet[]): Generator<Subnet> {
  for (const pool of POOLS.flatMap((text) => readSubnet(text) ?? [])) {
    const near = taken.filter((other) => overlaps(pool, other))
    for (let base = pool.base; base < pool.base + sizeOf(pool); base += sizeOf({ bits: FREE_BITS })) {
      const subnet = { base, bits: FREE_BITS }
      if (!near.some((other) => overlaps(subnet, other))) yield subnet
    }
  }
}

function sizeOf({ bits }: Pick<Subnet, 'bits'>): number {
  return 2 ** (32 - bits)
}

function toNumber(address: string): number {
  return address.split('.').reduce((sum, octet) => sum * 256 + Number(octet), 0)
}

function toText(value: number): string {
  return [24, 16, 8, 0].map((shift) => Math.floor(value / 2 ** shift) % 256).join('.')
}
