// Whether the store answers: asked at most once a second for all daemons of a process, whoever knocks how often.
import { Refusal, refuse } from '../lib/refusal.ts'
import type { Host } from '../registry/context.ts'
import { run } from '../store/statement.ts'

const KEPT_MS = 1000
const WAIT_MS = 3000

/** Returns, or refuses with the reason. */
export type Health = () => Promise<void>

export function storeHealth({ engine }: Host, waitMs = WAIT_MS): Health {
  let askedMs = Number.NEGATIVE_INFINITY
  let verdict: Promise<void> | undefined
  return () => {
    if (verdict && performance.now() - askedMs < KEPT_MS) return verdict
    askedMs = performance.now()
    verdict = within(
      waitMs,
      engine.read(async (tx) => void (await run(tx, 'select 1 as one'))),
    )
    // Whoever asked is told; nobody may have.
    verdict.catch(() => {})
    return verdict
  }
}

async function within(waitMs: number, answer: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Refusal('unavailable', 'the store does not answer in time')), waitMs)
  })
  try {
    await Promise.race([answer, late])
  } catch (error) {
    if (error instanceof Refusal) throw error
    refuse('unavailable', 'the store does not answer')
  } finally {
    clearTimeout(timer)
  }
}
