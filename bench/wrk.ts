// wrk, the load generator, from the machine's own package: POSTs of 1 KiB that rotate over a list of links.
import { execFile } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { z } from 'zod'
import { MissingRequirement } from './result.ts'

export const CONNECTIONS = 64
const BODY_BYTES = 1024
const SCRIPT = join(import.meta.dirname, 'post.lua')

const Said = z.object({
  requests: z.int(),
  micros: z.int(),
  refused: z.int(),
  broken: z.int(),
  p50: z.int(),
  p99: z.int(),
})

/** Where a burst goes. */
export interface Target {
  readonly url: string
  /** A file with a path a line. */
  readonly paths: string
}

export interface Burst {
  /** Answers a second, of whatever status. */
  readonly rate: number
  readonly answers: number
  /** Answers of 400 and above. */
  readonly refused: number
  readonly p50Ms: number
  readonly p99Ms: number
}

export function mustHaveWrk(): void {
  const found = (process.env.PATH ?? '').split(delimiter).some((folder) => existsSync(join(folder, 'wrk')))
  if (!found) throw new MissingRequirement('needs wrk: there is no wrk (Debian: apt-get install wrk)')
}

export function writePaths(file: string, paths: readonly string[]): string {
  writeFileSync(file, `${paths.join('\n')}\n`)
  return file
}

export async function burst({ url, paths }: Target, seconds: number): Promise<Burst> {
  const options = ['-t1', `-c${CONNECTIONS}`, `-d${seconds}s`, '--timeout', '10s', '-s', SCRIPT]
  const { stdout } = await promisify(execFile)('wrk', [...options, url, '--', paths, `${BODY_BYTES}`])
  const said = Said.parse(JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? ''))
  if (said.broken > 0) throw new Error(`${said.broken} connections broke or timed out:\n${stdout}`)
  return {
    rate: (said.requests / said.micros) * 1e6,
    answers: said.requests,
    refused: said.refused,
    p50Ms: said.p50 / 1000,
    p99Ms: said.p99 / 1000,
  }
}
