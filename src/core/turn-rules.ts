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

/** Decisions T2 and T6. */
export const TURN_RULES: TurnRules = {
  engagementMs: 30 * 60_000,
  observeMessages: 10,
  observeChars: 4000,
  turnsMax: 4,
  turnsPerFolder: 2,
}
