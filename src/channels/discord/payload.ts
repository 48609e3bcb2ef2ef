// Reads members of Discord's objects, each of which may have any type.
import { isObject } from '../../lib/text/json.ts'
import { isSnowflake } from './snowflake.ts'

export type Payload = Readonly<Record<string, unknown>>

const TEXT_MAX = 256

export function payloadOf(value: unknown): Payload {
  return isObject(value) ? value : {}
}

export function payloadsOf(value: unknown): Payload[] {
  return Array.isArray(value) ? value.filter(isObject) : []
}

export function idOf(value: unknown): string | undefined {
  return isSnowflake(value) ? value : undefined
}

/** A short text, such as a name; undefined if it is empty. */
export function shortText(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value.slice(0, TEXT_MAX) : undefined
}

export function contentIn(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

export function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined
}
