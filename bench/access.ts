// Verdicts a second of the one evaluator, against a loop that only builds the questions.
import { checkAccess, checkToolAccess, compilePolicy } from '../src/core/access/policy.ts'
import { median, type Result } from './result.ts'

const ROWS = 1000
const VERDICTS = 200_000
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
  const ask = (index: number) => ({
    asker: { principal: `github:${index % 300}`, claims: {} },
    question: { action: 'mcp:send', scope: `team${index % 40}/group${index % 1000}` },
  })
  const seconds = (work: (index: number) => void): number => {
    const started = performance.now()
    for (let index = 0; index < VERDICTS; index++) work(index)
    return (performance.now() - started) / 1000
  }
  const send = { tool: 'send', tiers: { granted: 2 } } as const
  let seen = 0
  const idle = () =>
    seconds((index) => {
      seen += ask(index).question.scope.length
    })
  const judged = () =>
    seconds((index) => {
      const { asker, question } = ask(index)
      if (checkAccess(policy, asker, question).allow) seen++
    })
  const tools = () =>
    seconds((index) => {
      if (checkToolAccess(policy, `team${index % 40}`, { ...send, scope: `team${index % 40}/x` }).allow) seen++
    })
  idle()
  judged()
  tools()
  const times = Array.from({ length: ROUNDS }, () => ({ idle: idle(), judged: judged(), tools: tools() }))
  if (seen === 0) throw new Error('nothing was asked')
  const rate = (key: 'judged' | 'tools') => VERDICTS / median(times.map((time) => time[key]))
  return (['judged', 'tools'] as const).map((key) => ({
    name: key === 'judged' ? 'access: a person asks' : 'access: an agent asks',
    ratio: rate(key) / 200_000,
    goal: 'at least 1 (200,000 verdicts a second at 1,000 rows)',
    detail: `${Math.round(rate(key)).toLocaleString('en')} verdicts/s; asking alone ${Math.round(VERDICTS / median(times.map((time) => time.idle))).toLocaleString('en')}/s`,
  }))
}
