// Limits of turns, with their defaults. The instance's settings override them.

export interface TurnRules {
  /** How long an engagement lasts after the folder's last message. */
  readonly engagementMs: number
  readonly observeMessages: number
  readonly observeChars: number
  /** Concurrent turns of the instance and of a folder. */
  readonly turnsMax: number
  readonly turnsPerFolder: number
}

/** Must be identical to the condition of the index `turns_open`; otherwise SQLite scans the table. */
export const IS_OPEN = `state <> 'done'`

/** See docs/decisions.md#turn-defaults and docs/decisions.md#concurrent-turns. */
export const DEFAULT_TURN_RULES: TurnRules = {
  engagementMs: 30 * 60_000,
  observeMessages: 10,
  observeChars: 4000,
  turnsMax: 4,
  turnsPerFolder: 2,
}
