// Gates: how many newcomers a day may enter the folders that a glob names.
import { z } from 'zod'
import { Table } from '../store/table.ts'
import { FolderGlob } from './values.ts'

export const Gate = z
  .object({
    spec: FolderGlob.describe('Folder glob that newcomers may enter'),
    daily_limit: z.int().positive().max(1_000_000).describe('How many may enter in a day'),
    enabled: z.boolean(),
  })
  .meta({ id: 'OnboardingGates' })

export const onboardingGates = new Table({
  name: 'onboarding_gates',
  row: Gate,
  key: 'spec',
  storage: [
    'create table onboarding_gates (spec text primary key, daily_limit integer not null, enabled boolean not null)',
  ],
})
