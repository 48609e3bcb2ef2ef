// Onboarding gates: limits on newcomers per day for the folders that match a glob.
import { z } from 'zod'
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
