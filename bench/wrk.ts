// Runs the load generator wrk, which must be installed: POSTs of 1 KiB, or GETs, to each of a list of paths in turn.
import { execFile } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { z } from 'zod'
import { MissingRequirement } from './result.ts'

export const CONNECTIONS = 64
const BODY_BYTES = 1024
const SCRIPT = join(import.meta.dirname, 'requests.lua')

const WrkReport = z.object({
  requests: z.int(),
  micros: z.int(),
  refused: z.int(),
  broken: z.int(),
  p50: z.int(),
  p99: z.int(),
})

export interface Target {
  readonly url: string
  /** A file with one path per line. */
  readonly paths: string
  /** Default: POST. */
  readonly method?: 'GET' | 'POST'
  /** Lines such as `Cookie: a=b`, for GETs. */
  readonly headers?: readonly string[]
}

export interface Burst {
  /** Answers a second, of any status. */
  readonly rate: number
  readonly answers: number
  /** Answers with status 400 and above. */
  readonly refused: number
  readonly p50Ms: number
  readonly p99Ms: number
}

export function mustHaveWrk(): void {
  const found = (process.env.PATH ?? '').split(delimiter).some((folder) => existsSync(join(folder, 'wrk')))
  if (!found) throw new MissingRequirement('needs wrk, which is not installed (Debian: apt-get install wrk)')
}

export function writePaths(file: string, paths: readonly string[]): string {
  writeFileSync(file, `${paths.join('\n')}\n`)
  return file
}

export async function burst({ url, paths, method = 'POST', headers = [] }: Target, seconds: number): Promise<Burst> {
  const options = [
    '-t1',
    `-c${CONNECTIONS}`,
    `-d${seconds}s`,
    '--timeout',
    '10s',
    '-s',
    SCRIPT,
    ...headers.flatMap((line) => ['-H', line]),
  ]
  const { stdout } = await promisify(execFile)('wrk', [...options, url, '--', paths, method, `${BODY_BYTES}`])
  const report = WrkReport.parse(JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? ''))
  if (report.broken > 0) throw new Error(`${report.broken} connections broke or timed out:\n${stdout}`)
  return {
    rate: (report.requests / report.micros) * 1e6,
    answers: report.requests,
    refused: report.refused,
    p50Ms: report.p50 / 1000,
    p99Ms: report.p99 / 1000,
  }
}
