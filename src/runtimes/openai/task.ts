// What the process of the runtime openai is told, as JSON on its stdin.
export interface OpenaiTask {
  readonly turn: { readonly id: string; readonly fence: number }
  readonly socket: string
  /** Where its guides lie. */
  readonly workspace: string
  /** Where its sessions lie. */
  readonly home: string
  readonly folder: string
  readonly prompt: string
  readonly sessionId?: string | undefined
  readonly parentSessionId?: string | undefined
  readonly endpoint: OpenaiEndpoint
  readonly moneyCents?: number | undefined
}

export interface OpenaiEndpoint {
  readonly baseUrl: string
  readonly model: string
  readonly apiKey?: string | undefined
  /** Cents for a million tokens. */
  readonly priceInput: number
  readonly priceOutput: number
}
