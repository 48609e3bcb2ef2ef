// Requests with a session cookie through the front door, over the same requests without: to a backend, to a redirect, and to
// a list of the API, where a bearer takes the place of the missing session. And the size of the sign-in page.
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { issueBearer } from '../src/core/access/bearers.ts'
import { proxydRoutes } from '../src/core/links/proxyd-routes.ts'
import { createSession } from '../src/core/people/sessions.ts'
import { sessionCookieName } from '../src/daemons/http/session-cookie.ts'
import type { OpenHost } from '../src/daemons/process/host.ts'
import { BenchScope } from './bench-scope.ts'
import { describeMachine, shownMicros, shownRate } from './figures.ts'
import { openBenchInstance } from './instance.ts'
import type { Result } from './result.ts'
import { type Contender, compare, runRounds } from './rounds.ts'
import { openBareServer, type Server } from './server.ts'
import { mustHaveWrk, writePaths } from './wrk.ts'

const ROUNDS = 7
const SESSIONS = 1000
const DAY_MS = 24 * 3_600_000
const PAGE_MAX = 15 * 1024

interface Credentials {
  readonly cookie: string
  readonly bearer: string
}

/** Adds the paths, and sessions beside the one that is used. */
async function prepare(host: OpenHost, backend: string): Promise<Credentials> {
  const started = { kind: 'browser', method: 'link', idleMs: 14 * DAY_MS, maxMs: 90 * DAY_MS } as const
  const token = await host.engine.transaction(async (tx) => {
    await proxydRoutes.insert(tx, { path: '/app/', backend, auth: 'public' })
    await proxydRoutes.insert(tx, { path: '/old', redirect_to: '/new', auth: 'public' })
    for (let n = 0; n < SESSIONS; n++) await createSession(tx, host, { sub: `github:${n}`, ...started })
    return (await createSession(tx, host, { sub: 'github:1', ...started })).token
  })
  return { cookie: `${sessionCookieName(host)}=${token}`, bearer: await issueBearer(host, { sub: 'github:1' }) }
}

interface Case {
  readonly name: string
  readonly path: string
  readonly without: (credentials: Credentials) => readonly string[]
  readonly goal: string
}

const CASES: readonly Case[] = [
  {
    name: 'a request to a backend with a session: processor time over one without',
    path: '/app/',
    without: () => [],
    goal: 'at most 1.15',
  },
  {
    name: 'a redirect of the front door with a session, which reads nothing else: processor time over one without',
    path: '/old',
    without: () => [],
    goal: 'at most 1.5',
  },
  {
    name: 'a list of the API with a session: processor time over one with a bearer',
    path: '/v1/groups',
    without: ({ bearer }) => [`Authorization: Bearer ${bearer}`],
    goal: 'at most 1.15',
  },
]

async function compareCase(
  scope: BenchScope,
  svc: Server,
  credentials: Credentials,
  { path, ...each }: Case,
): Promise<Result> {
  const paths = writePaths(join(scope.root, 'paths'), [path])
  const to = (headers: readonly string[]): Contender => ({
    server: svc,
    target: { url: svc.url, paths, method: 'GET', headers },
  })
  const rounds = await runRounds(
    { without: to(each.without(credentials)), session: to([`Cookie: ${credentials.cookie}`]) },
    { rounds: ROUNDS },
  )
  if (rounds.some(({ without, session }) => without.refused + session.refused > 0))
    throw new Error(`${path} was refused`)
  // Processor time, because other processes disturb it less than the rate.
  const { ratio, spread } = compare(rounds, ['session', 'without'], ({ allMicros }) => allMicros)
  return {
    name: each.name,
    ratio,
    goal: each.goal,
    detail: `${spread}; with ${shownRate(rounds, 'session')}, ${shownMicros(rounds, 'session')}; without ${shownRate(rounds, 'without')}, ${shownMicros(rounds, 'without')}; ${describeMachine(rounds, scope)}`,
  }
}

async function signInPageSize(svc: Server): Promise<Result> {
  const page = await fetch(`${svc.url}/auth/sign-in`, { headers: { Accept: 'text/html' } })
  const text = await page.text()
  const scripts = [...text.matchAll(/(?:src|href)="(\/[^"]+\.(?:js|css))"/g)].map(([, path = '']) => path)
  const parts = await Promise.all(scripts.map(async (path) => (await fetch(svc.url + path)).text()))
  const bytes = [text, ...parts].reduce((sum, part) => sum + gzipSync(part).length, 0)
  return {
    name: 'sign-in page with its scripts, compressed, over 15 KiB',
    ratio: bytes / PAGE_MAX,
    goal: 'less than 1',
    detail: `${bytes} bytes in ${1 + parts.length} responses`,
  }
}

export async function benchSessions(): Promise<Result[]> {
  mustHaveWrk()
  await using scope = new BenchScope()
  const instance = await openBenchInstance(join(scope.root, 'sessions'))
  const backend = await scope.start(openBareServer())
  const credentials = await instance.open((host) => prepare(host, backend.url))
  const svc = await scope.start(instance.serve())
  const results: Result[] = []
  for (const each of CASES) results.push(await compareCase(scope, svc, credentials, each))
  return [...results, await signInPageSize(svc)]
}
