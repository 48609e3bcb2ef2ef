// Files in a post to a chat link, beside a bare server that writes the same body to a file: the rate, and the memory it takes.
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { BenchScope } from './bench-scope.ts'
import { mintChat, openBenchInstance } from './instance.ts'
import { median, type Result } from './result.ts'
import { compare, shuffled, untilQuiet } from './rounds.ts'
import { openServer, residentKiB, type Server } from './server.ts'

const FILES = 4
const FILE_MIB = 25
const MIB = FILES * FILE_MIB
const ROUNDS = 7
const SAMPLE_MS = 20
const GOAL_MIB = 64
const BOUNDARY = 'bench-boundary'
const NAMES = ['bare', 'svc'] as const
type Name = (typeof NAMES)[number]

interface Upload {
  readonly ms: number
  /** The largest resident memory of the process that serves it. */
  readonly peakKiB: number
}

interface Target {
  readonly server: Server
  readonly url: string
}

export async function benchUploads(): Promise<Result[]> {
  await using scope = new BenchScope()
  const instance = await openBenchInstance(join(scope.root, 'uploads'))
  const path = await instance.open(mintChat)
  const svc = await scope.start(instance.serve())
  const stored = join(scope.root, 'body')
  const bare = await scope.start(openServer('bare', [join(import.meta.dirname, 'bare-upload.ts'), stored]))
  const targets = { svc: { server: svc, url: `${svc.url}${path}` }, bare: { server: bare, url: bare.url } }
  const body = makeForm()
  await untilQuiet(svc)
  const idle = { svc: residentKiB(svc), bare: residentKiB(bare) }
  const rounds: Record<Name, Upload>[] = []
  // The first round warms up; its memory counts.
  for (let round = 0; round <= ROUNDS; round++) {
    const entries: [Name, Upload][] = []
    for (const name of shuffled(NAMES)) entries.push([name, await upload(targets[name], body)])
    // Both names have an entry, which the type of Object.fromEntries does not tell.
    rounds.push(Object.fromEntries(entries) as Record<Name, Upload>)
  }
  const warm = rounds.slice(1)
  const { ratio, spread } = compare<Name, Upload>(warm, NAMES, ({ ms }) => ms)
  const rate = (name: Name): string =>
    `${((MIB * 1000) / median(warm.map((round) => round[name].ms))).toFixed(0)} MiB/s`
  const growth = (name: Name): number => (Math.max(...rounds.map((round) => round[name].peakKiB)) - idle[name]) / 1024
  return [
    {
      name: `uploads: ${FILES} files of ${FILE_MIB} MiB to a chat link, over a bare server that writes the body to a file`,
      ratio,
      goal: 'at least 0.5',
      detail: `${spread} of ${ROUNDS}; ${rate('svc')}, bare ${rate('bare')}`,
    },
    {
      name: `uploads: growth of the memory of the front in ${rounds.length} of them`,
      ratio: growth('svc') / GOAL_MIB,
      goal: `at most 1 (${GOAL_MIB} MiB)`,
      detail: `${growth('svc').toFixed(0)} MiB over ${(idle.svc / 1024).toFixed(0)} MiB; bare ${growth('bare').toFixed(0)} MiB`,
    },
  ]
}

function makeForm(): Buffer {
  const part = (head: string): Buffer =>
    Buffer.from(`--${BOUNDARY}\r\nContent-Disposition: form-data; name=${head}\r\n\r\n`)
  const content = randomBytes(FILE_MIB * 1024 * 1024)
  const end = Buffer.from('\r\n')
  const files = Array.from({ length: FILES }, (_, at) => [part(`"file"; filename="${at}.bin"`), content, end])
  return Buffer.concat([
    part('"content"'),
    Buffer.from('files'),
    end,
    ...files.flat(),
    Buffer.from(`--${BOUNDARY}--\r\n`),
  ])
}

async function upload({ server, url }: Target, body: Buffer): Promise<Upload> {
  let peakKiB = 0
  const sampling = setInterval(() => {
    peakKiB = Math.max(peakKiB, residentKiB(server))
  }, SAMPLE_MS)
  try {
    const started = performance.now()
    const headers = { 'Content-Type': `multipart/form-data; boundary=${BOUNDARY}`, Accept: 'application/json' }
    const post = request(url, { method: 'POST', headers })
    post.end(body)
    const [response]: [IncomingMessage] = (await once(post, 'response')) as [IncomingMessage]
    const text = (await response.toArray()).join('')
    const ms = performance.now() - started
    if (response.statusCode !== 200 && response.statusCode !== 204) throw new Error(`${response.statusCode}: ${text}`)
    return { ms, peakKiB }
  } finally {
    clearInterval(sampling)
    // The turn that handles the message must not disturb the next upload.
    await untilQuiet(server)
  }
}
