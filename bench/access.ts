// Access decisions a second, against a loop that only builds the requests.
import { checkAccess, checkToolAccess, compilePolicy } from '../src/core/access/policy.ts'
import { median, type Result } from './result.ts'

const ROWS = 1000
const DECISIONS = 200_000
const ROUNDS = 5

export async function benchAccess(): Promise<Result[]> {
  const rows = Array.from({ length: ROWS }, (_, index) => ({
    principal: index % 10 === 0 ? `role:r${index % 50}` : `github:${index % 300}`,
    action: ['admin', 'mcp:send', 'mcp:*', 'interact'][index % 4] ?? 'admin',
    scope: index % 3 === 0 ? `team${index % 40}/**` : `team${index % 40}/group${index}`,
    effect: index % 17 === 0 ? ('deny' as const) : ('allow' as const),
    params: '',
    predicate: '',
  }))
  const memberships = Array.from({ length: 200 }, (_, index) => ({
    subject: `github:${index}`,
    role: `role:r${index % 50}`,
  }))
  const policy = compilePolicy(rows, memberships)
  const build = (index: number) => ({
    person: { principal: `github:${index % 300}`, claims: {} },
    request: { action: 'mcp:send', scope: `team${index % 40}/group${index % 1000}` },
  })
  const seconds = (work: (index: number) => void): number => {
    const started = performance.now()
    for (let index = 0; index < DECISIONS; index++) work(index)
    return (performance.now() - started) / 1000
  }
  const send = { tool: 'send', tiers: { granted: 2 } } as const
  // Counting the results keeps the compiler from dropping the calls.
  let seen = 0
  const baseline = () =>
    seconds((index) => {
      seen += build(index).request.scope.length
    })
  const people = () =>
    seconds((index) => {
      const { person, request } = build(index)
      if (checkAccess(policy, person, request).allow) seen++
    })
  const tools = () =>
    seconds((index) => {
      if (checkToolAccess(policy, `team${index % 40}`, { ...send, scope: `team${index % 40}/x` }).allow) seen++
    })
  baseline()
  people()
  tools()
  const times = Array.from({ length: ROUNDS }, () => ({ baseline: baseline(), people: people(), tools: tools() }))
  if (seen === 0) throw new Error('no request was built')
  const rate = (key: keyof (typeof times)[number]) => DECISIONS / median(times.map((time) => time[key]))
  return (['people', 'tools'] as const).map((key) => ({
    name: key === 'people' ? 'access: a person asks' : 'access: an agent asks',
    ratio: rate(key) / 200_000,
    goal: 'at least 1 (200,000 decisions a second at 1,000 rows)',
    detail: `${Math.round(rate(key)).toLocaleString('en')} decisions/s; building the requests alone ${Math.round(rate('baseline')).toLocaleString('en')}/s`,
  }))
}
