// Parsing the path of a request, against the URL parser of Node with the same target, which takes up to a microsecond.
import { parseTarget } from '../src/daemons/proxyd/request-target.ts'
import { median, type Result } from './result.ts'

const TARGETS = {
  'of a link': `/chat/${'Zm9vYmFyYmF6'.repeat(4)}/0198c7f0-9a5e-7c11-b1a2-1f2e3d4c5b6a?after=12`,
  'with escapes': '/pub/team/caf%C3%A9/%73ecret/a%20file.html?x=1',
} as const
const CALLS = 50_000
const ROUNDS = 30
const WARM = 10

function nanosecondsOf(parse: (target: string) => unknown, target: string): number {
  const started = performance.now()
  for (let call = 0; call < CALLS; call++) parse(target)
  return ((performance.now() - started) * 1e6) / CALLS
}

export async function benchPaths(): Promise<Result[]> {
  return Object.entries(TARGETS).map(([name, target]) => {
    const rounds = Array.from({ length: WARM + ROUNDS }, () => ({
      ours: nanosecondsOf(parseTarget, target),
      url: nanosecondsOf((text) => new URL(text, 'http://localhost'), target),
    })).slice(WARM)
    const [ours, url] = [median(rounds.map((round) => round.ours)), median(rounds.map((round) => round.url))]
    return {
      name: `path ${name}: time of parsing over that of the URL parser of Node`,
      ratio: ours / url,
      goal: 'at most 1',
      detail: `${Math.round(ours)} ns; the URL parser of Node ${Math.round(url)} ns`,
    }
  })
}
