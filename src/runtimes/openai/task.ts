// The task of a process of the runtime openai, sent as JSON on its stdin.
import type { ModelPrice } from '../settings.ts'

export interface OpenaiTask {
  readonly turn: { readonly id: string; readonly fence: number }
  readonly socket: string
  /** The directory of its guides. */
  readonly workspace: string
  /** The directory of its sessions. */
  readonly home: string
  readonly folder: string
  readonly prompt: string
  /** Shown to the model with the prompt. */
  readonly images: readonly TaskImage[]
  readonly sessionId?: string | undefined
  readonly parentSessionId?: string | undefined
  readonly endpoint: OpenaiEndpoint
  readonly moneyCents?: number | undefined
}

export interface TaskImage {
  readonly path: string
  readonly type: string
}

/** Printed when the model cannot see images. */
export const BLIND_LINE = '{"images":"unsupported"}'

export interface OpenaiEndpoint {
  readonly baseUrl: string
  readonly model: string
  readonly apiKey?: string | undefined
  /** Undefined if it is not known. */
  readonly price?: ModelPrice | undefined
  /** Whether the provider reports the cost of each call, also if that is zero. */
  readonly reportsCost: boolean
}
