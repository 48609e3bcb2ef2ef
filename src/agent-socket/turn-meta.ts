// The turn that a connection or a request claims to belong to; every call checks the claim.
// See docs/decisions.md#turn-of-a-tool-call.
import { z } from 'zod'
import { isObject } from '../lib/text/json.ts'
import { parse } from '../lib/text/schema-parser.ts'

export interface TurnMeta {
  readonly id: string
  readonly fence?: number
}

const Meta = z.object({ 'svc/turn': z.string().max(256).optional(), 'svc/fence': z.int().optional() })

/** An empty id counts as absent, like an unset environment variable. */
export function readTurnMeta(meta: unknown): TurnMeta | undefined {
  if (!isObject(meta) || !('svc/turn' in meta || 'svc/fence' in meta)) return undefined
  const { 'svc/turn': id, 'svc/fence': fence } = parse(Meta, meta)
  if (!id) return undefined
  return fence === undefined ? { id } : { id, fence }
}
