// What a runtime is made with.
import type { Clock } from '../lib/clock.ts'
import type { Cell } from './cell.ts'
import type { RuntimeSettings } from './settings.ts'

export interface Setup {
  readonly settings: RuntimeSettings
  readonly cell: Cell
  readonly clock: Clock
}
