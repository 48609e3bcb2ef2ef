// Records the path of a message as spans of one trace: accept, route, turn, attempts with their tool calls, answers and
// deliveries. Each process records its own steps. Loaded only if traces are exported.
//
// Attributes have no content, reasons, senders or names of chats: a link's chat leads to its token's owner, and rooms name
// people. Folders, runtimes, tools and ids are what an operator needs to find the row.
import type { Span, SpanKey, SpanKind, SpanSink } from '../../lib/trace/span.ts'
import { platformOf } from '../delivery/channel.ts'

const ACCEPT = 'accept'
const ROUTE = 'route'
const TURN = 'turn'

interface Times {
  /** Milliseconds since 1970. */
  readonly startMs: number
  readonly endMs: number
}

export interface AcceptedMessage extends Times {
  readonly id: string
  readonly jid: string
  /** How it arrived, such as `POST /hook` or `task`. */
  readonly via: string
  readonly folder?: string | undefined
  /** The turn that wrote the message, if an agent did. */
  readonly fromTurn?: string | undefined
}

export interface RoutedMessage extends Times {
  readonly id: string
  readonly jid: string
  readonly folder?: string | undefined
  /** State of the message afterwards. */
  readonly state: string
}

export interface TracedTurn {
  readonly id: string
  readonly folder: string
  readonly fence: number
  readonly attempts: number
  readonly message_count: number
  readonly started_at: string
  readonly task_id?: string | undefined
}

export interface TracedAttempt extends Times {
  readonly runtime: string | undefined
  readonly result: string
  readonly error?: string | undefined
}

export interface TracedTurnEnd {
  readonly runtime: string | undefined
  readonly outcome: string
  readonly error?: string | undefined
  readonly endMs: number
  /** Ids of all messages of the turn. */
  readonly messages: readonly string[]
}

export interface TracedToolCall extends Times {
  readonly turn: { readonly id: string; readonly fence?: number | undefined }
  /** Tells calls of one turn apart. */
  readonly call: string
  readonly folder: string
  readonly tool: string
  readonly error?: string | undefined
}

export interface TracedAnswer extends Times {
  readonly id: string
  readonly turn_id: string
  readonly jid: string
  readonly kind: string
  readonly folder?: string | undefined
}

export interface TracedDelivery extends Times {
  readonly id: string
  readonly turn_id?: string | undefined
  readonly fence: number
  readonly attempts: number
  readonly jid: string
  readonly folder?: string | undefined
  readonly result: string
  readonly error?: string | undefined
}

export class MessageTracer {
  readonly #sink: SpanSink

  constructor(sink: SpanSink) {
    this.#sink = sink
  }

  accepted({ id, jid, via, folder, fromTurn, ...times }: AcceptedMessage): void {
    this.#add({ message: id, step: ACCEPT }, via, {
      ...times,
      kind: via.startsWith('POST') ? 'server' : 'producer',
      links: fromTurn === undefined ? undefined : [{ message: fromTurn, step: TURN }],
      attributes: { 'svc.message.id': id, 'svc.platform': platformOf(jid), 'svc.folder': folder },
    })
  }

  routed({ id, jid, folder, state, ...times }: RoutedMessage): void {
    this.#add({ message: id, step: ROUTE }, ROUTE, {
      ...times,
      // Messages of the sandbox come from the command line, which exports nothing.
      parent: platformOf(jid) === 'sandbox' ? undefined : ACCEPT,
      attributes: { 'svc.message.id': id, 'svc.folder': folder, 'svc.message.state': state },
    })
  }

  attempted(turn: TracedTurn, { runtime, result, error, ...times }: TracedAttempt): void {
    this.#add({ message: turn.id, step: attemptStep(turn.fence) }, 'attempt', {
      ...times,
      parent: TURN,
      attributes: {
        'svc.folder': turn.folder,
        'svc.runtime': runtime,
        'svc.attempt': turn.attempts,
        'svc.attempt.result': result,
      },
      error,
    })
  }

  ended(turn: TracedTurn, { runtime, outcome, error, endMs, messages }: TracedTurnEnd): void {
    const others = messages.filter((id) => id !== turn.id)
    this.#add({ message: turn.id, step: TURN }, TURN, {
      startMs: Date.parse(turn.started_at),
      endMs,
      kind: 'consumer',
      parent: ROUTE,
      links: others.map((message) => ({ message, step: ROUTE })),
      attributes: {
        'svc.message.id': turn.id,
        'svc.folder': turn.folder,
        'svc.runtime': runtime,
        'svc.turn.outcome': outcome,
        'svc.turn.attempts': turn.attempts,
        'svc.turn.messages': turn.message_count,
        'svc.task.id': turn.task_id,
      },
      error,
    })
  }

  toolCalled({ turn, call, folder, tool, error, ...times }: TracedToolCall): void {
    this.#add({ message: turn.id, step: `tool ${call}` }, `tool ${tool}`, {
      ...times,
      parent: turn.fence === undefined ? TURN : attemptStep(turn.fence),
      attributes: { 'svc.folder': folder, 'svc.tool': tool },
      error,
    })
  }

  answered({ id, turn_id, jid, kind, folder, ...times }: TracedAnswer): void {
    this.#add({ message: turn_id, step: answerStep(id) }, 'answer', {
      ...times,
      kind: 'producer',
      // Without a folder it is a reply of the router, or a notice of the instance.
      parent: folder === undefined ? ROUTE : TURN,
      attributes: {
        'svc.message.id': id,
        'svc.message.kind': kind,
        'svc.platform': platformOf(jid),
        'svc.folder': folder,
      },
    })
  }

  /** A message without a turn, such as a notice of the instance, has a trace of its own. */
  delivered({ id, turn_id, fence, attempts, jid, folder, result, error, ...times }: TracedDelivery): void {
    const step = `deliver ${id} ${fence}`
    this.#add({ message: turn_id ?? id, step }, 'deliver', {
      ...times,
      kind: 'client',
      parent: turn_id === undefined ? undefined : answerStep(id),
      attributes: {
        'svc.message.id': id,
        'svc.platform': platformOf(jid),
        'svc.folder': folder,
        'svc.delivery.attempt': attempts,
        'svc.delivery.result': result,
      },
      error,
    })
  }

  #add(key: SpanKey, name: string, span: Omit<Span, 'key' | 'name' | 'kind'> & { readonly kind?: SpanKind }): void {
    this.#sink.add({ ...span, key, name })
  }
}

function attemptStep(fence: number): string {
  return `attempt ${fence}`
}

function answerStep(id: string): string {
  return `answer ${id}`
}
