// The numbers that turns go by; the instance's settings say others.

export interface TurnRules {
  /** How long a chat stays with the folder that spoke in it. */
  readonly engagementMs: number
  readonly observeMessages: number
  readonly observeChars: number
  /** Turns at once, of an instance and of a folder (decision T2). */
  readonly turnsMax: number
  readonly turnsPerFolder: number
}

/** A turn that is not over: the condition of an index, word for word, without which SQLite reads all turns instead. */
export const IS_OPEN = `state <> 'done'`

/** Decisions T2 and T6. */
export const DEFAULT_TURN_RULES: TurnRules = {
  engagementMs: 30 * 60_000,
  observeMessages: 10,
  observeChars: 4000,
  turnsMax: 4,
  turnsPerFolder: 2,
}
