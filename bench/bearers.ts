// Bearer checks a second, against verifying each signature with the bare library: in a small store, and in one with a hundred
// thousand bearers and sessions. Each check reads whether the bearer was revoked.
import { join } from 'node:path'
import { createLocalJWKSet, jwtVerify } from 'jose'
import { type BearerHost, publicKeys, signBearer, verifyBearer } from '../src/core/access/bearers.ts'
import { issuedBearers } from '../src/core/access/issued-bearers.ts'
import { createSession } from '../src/core/people/sessions.ts'
import { type OpenHost, openHost } from '../src/daemons/process/host.ts'
import { BenchScope } from './bench-scope.ts'
import { count } from './figures.ts'
import { median, type Result } from './result.ts'

/** Bearers that are used; programs use theirs again and again. */
const USED = 1000
const CHECKS = 20_000
const BARE_CHECKS = 2000
const ROUNDS = 7
const AT_ONCE = 64
const MANY = 100_000
const GOAL = 20_000

/** Calls a second, `AT_ONCE` at a time. */
async function rateOf(calls: number, call: (index: number) => Promise<unknown>): Promise<number> {
  let next = 0
  const client = async (): Promise<void> => {
    while (next < calls) await call(next++)
  }
  const started = performance.now()
  await Promise.all(Array.from({ length: AT_ONCE }, client))
  return (calls / (performance.now() - started)) * 1000
}

async function issue(host: OpenHost): Promise<string[]> {
  const signed = await Promise.all(Array.from({ length: USED }, (_, n) => signBearer(host, { sub: `github:${n}` })))
  await host.engine.transaction(async (tx) => {
    for (const { row } of signed) await issuedBearers.insert(tx, { ...row, created_by: 'bench' })
  })
  return signed.map(({ bearer }) => bearer)
}

async function fill(host: OpenHost): Promise<void> {
  const at = '2026-01-01T00:00:00.000Z'
  const times = { created_at: at, created_by: 'bench', expires_at: '2099-01-01T00:00:00.000Z' }
  const session = { kind: 'browser', method: 'link', idleMs: 3_600_000, maxMs: 3_600_000 } as const
  await host.engine.transaction(async (tx) => {
    for (let n = 0; n < MANY; n++) {
      const sub = `github:${n % 5000}`
      await issuedBearers.insert(tx, { id: `old-${n}`, sub, kind: 'user', ...times })
      await createSession(tx, host, { sub, ...session })
    }
  })
}

async function compareChecks(host: BearerHost, bearers: readonly string[], place: string): Promise<Result[]> {
  const keySet = createLocalJWKSet((await publicKeys(host)) as Parameters<typeof createLocalJWKSet>[0])
  const pick = (index: number): string => bearers[index % bearers.length] ?? ''
  const ours = () => rateOf(CHECKS, (index) => verifyBearer(host, pick(index)))
  const bare = () => rateOf(BARE_CHECKS, (index) => jwtVerify(pick(index), keySet))
  const rounds: { ours: number; bare: number }[] = []
  // The first round only warms up.
  for (let round = 0; round <= ROUNDS; round++) {
    const rates = { ours: await ours(), bare: await bare() }
    if (round > 0) rounds.push(rates)
  }
  const [rate, bareRate] = [median(rounds.map((each) => each.ours)), median(rounds.map((each) => each.bare))]
  const detail = `${count(rate)} checks/s; bare verification of the signature ${count(bareRate)}/s`
  return [
    { name: `bearers: checks over ${count(GOAL)} a second, ${place}`, ratio: rate / GOAL, goal: 'at least 1', detail },
    {
      name: `bearers: checks over bare verification, ${place}`,
      ratio: median(rounds.map((each) => each.ours / each.bare)),
      goal: 'more than 1',
      detail,
    },
  ]
}

export async function benchBearers(): Promise<Result[]> {
  await using scope = new BenchScope()
  const store = { path: join(scope.root, 'svc.db'), create: true } as const
  const host = await openHost({ instance: 'bench', store, secretsKey: 'bench', webBase: 'http://localhost' })
  scope.defer(() => host.close())
  const bearers = await issue(host)
  const small = await compareChecks(host, bearers, 'in a small store')
  await fill(host)
  return [...small, ...(await compareChecks(host, bearers, `with ${count(MANY)} bearers and sessions`))]
}
