// The task of a process of the runtime openai, sent as JSON on its stdin.
export interface OpenaiTask {
  readonly turn: { readonly id: string; readonly fence: number }
  readonly socket: string
  /** The directory of its guides. */
  readonly workspace: string
  /** The directory of its sessions. */
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
  /** Cents per million tokens, like `priceOutput`. */
  readonly priceInput: number
  readonly priceOutput: number
}
