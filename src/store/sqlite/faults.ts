// What SQLite's own errors mean to whoever runs the program.
import { dirname } from 'node:path'
import { Refusal, refuse } from '../../lib/refusal.ts'

const BUSY = 5
const LOCKED = 6

export function isBusy(error: unknown): boolean {
  const code = primary(error)
  return code === BUSY || code === LOCKED
}

/** Runs `work`; SQLite's errors come out as refusals, everything else as it is. */
export function answered<T>(path: string, work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw fault(path, error)
  }
}

export function fault(path: string, error: unknown): unknown {
  if (error instanceof Refusal) return error
  const full = extended(error)
  switch (primary(error)) {
    case BUSY:
    case LOCKED:
      return new Refusal('unavailable', 'the store is busy: another process is writing to it', 'try again in a moment')
    case 8:
      return new Refusal('unavailable', `the store at ${path} is read-only`, `check the rights of ${dirname(path)}`)
    case 10:
      return new Refusal('unavailable', `the disk under ${path} answered with an error; nothing was changed`)
    case 11:
      return new Refusal('unavailable', `the store at ${path} is damaged`, 'restore it from a backup')
    case 13:
      return new Refusal('unavailable', `the disk under ${path} is full; nothing was changed`, 'free some space')
    case 14:
      return new Refusal('unavailable', `the store at ${path} cannot be opened`, `check the rights of ${dirname(path)}`)
    case 19:
      if (full === 787) return new Refusal('conflict', 'it names a row of another table that is not there')
      if (full === 1555 || full === 2067) return new Refusal('conflict', 'there is one with this key already')
      return error
    case 26:
      return new Refusal('unavailable', `${path} is not a store of svc`)
    default:
      return error
  }
}

function extended(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('errcode' in error) || typeof error.errcode !== 'number') return undefined
  return error.errcode
}

function primary(error: unknown): number | undefined {
  const code = extended(error)
  return code === undefined ? undefined : code & 0xff
}

export function mustBeOurs(path: string, head: Uint8Array, applicationId: number): void {
  const text = Buffer.from(head.subarray(0, 16)).toString('latin1')
  if (text !== 'SQLite format 3\u0000') refuse('unavailable', `${path} is not a store of svc, or it is damaged`)
  const id = Buffer.from(head).readUInt32BE(68)
  if (id !== applicationId) refuse('unavailable', `${path} is another program's database`)
}
