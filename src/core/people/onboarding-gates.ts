// Onboarding gates: limits on newcomers per day for the folders that match a glob, and how many each gate has admitted.
import { z } from 'zod'
import { compileSegments } from '../../lib/text/glob.ts'
import type { Tx } from '../../store/engine.ts'
import { execute } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { FolderGlob } from '../values.ts'

export const OnboardingGate = z
  .object({
    spec: FolderGlob.describe('Folder glob that newcomers may enter'),
    daily_limit: z.int().positive().max(1_000_000).describe('Maximum number of newcomers per day'),
    enabled: z.boolean(),
  })
  .meta({ id: 'OnboardingGates' })

export const onboardingGates = new Table({
  name: 'onboarding_gates',
  row: OnboardingGate,
  key: 'spec',
  storage: [
    'create table onboarding_gates (spec text primary key, daily_limit integer not null, enabled boolean not null)',
  ],
})

export type OnboardingGateRow = z.output<typeof OnboardingGate>

const GateAdmission = z.object({ spec: FolderGlob, day: z.string(), admitted: z.int() })

export const gateAdmissions = new Table({
  name: 'gate_admissions',
  row: GateAdmission,
  key: ['spec', 'day'],
  storage: [
    `create table gate_admissions (
       spec text not null, day text not null, admitted integer not null, primary key (spec, day))`,
  ],
})

/** Limits are per UTC day. */
export function admissionDay(nowMs: number): string {
  return new Date(nowMs).toISOString().slice(0, 10)
}

/** The condition is part of the upsert, so parallel admissions never exceed the limit. */
const TAKE = `insert into gate_admissions (spec, day, admitted) values ($1, $2, 1)
  on conflict (spec, day) do update set admitted = gate_admissions.admitted + 1 where gate_admissions.admitted < $3`

/** Counts one admission; false if the limit of the day is reached. */
export async function takeAdmission(
  tx: Tx,
  { spec, daily_limit }: Pick<OnboardingGateRow, 'spec' | 'daily_limit'>,
  day: string,
): Promise<boolean> {
  return (await execute(tx, TAKE, [spec, day, daily_limit])) > 0
}

/** The enabled gate for a folder: of those that match, the one with the most literal characters. */
export function chooseGate(gates: readonly OnboardingGateRow[], folder: string): OnboardingGateRow | undefined {
  return gates
    .filter(({ enabled, spec }) => enabled && compileSegments(spec)?.(folder))
    .toSorted((a, b) => compareLiteralness(a.spec, b.spec))[0]
}

/** Literal characters first, then few `**`, few `*`; the text makes the order total. */
function compareLiteralness(left: string, right: string): number {
  const [a, b] = [literalnessOf(left), literalnessOf(right)]
  return b.literals - a.literals || a.deep - b.deep || a.stars - b.stars || (left < right ? -1 : 1)
}

function literalnessOf(spec: string): { literals: number; deep: number; stars: number } {
  const deep = spec.split('/').filter((segment) => segment === '**').length
  const tokens = [...spec.matchAll(/\\.|\[(?:\\.|[^\]\\])+\]|./gs)].map(([token]) => token)
  const isLiteral = (token: string): boolean => token.startsWith('\\') || !/^[*?[]/.test(token)
  return {
    literals: tokens.filter(isLiteral).length,
    deep,
    stars: tokens.filter((token) => token === '*').length - 2 * deep,
  }
}
