// Which turn a connection, or one request, says that it belongs to (decision T10). Whether that is so is asked at every call.
import { z } from 'zod'
import { parse } from '../lib/parse.ts'
import { isObject } from './incoming.ts'

export interface NamedTurn {
  readonly id: string
  readonly fence?: number
}

const Meta = z.object({ 'svc/turn': z.string().max(256).optional(), 'svc/fence': z.int().optional() })

/** An empty name is none, as an unset variable of the environment is. */
export function namedTurn(meta: unknown): NamedTurn | undefined {
  if (!isObject(meta) || !('svc/turn' in meta || 'svc/fence' in meta)) return undefined
  const { 'svc/turn': id, 'svc/fence': fence } = parse(Meta, meta)
  if (!id) return undefined
  return fence === undefined ? { id } : { id, fence }
}
