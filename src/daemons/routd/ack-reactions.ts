// Reacts to messages that start a turn, if their route says so: people see at once that the agent has noticed them. A reaction that
// is lost does not matter.
import type { MessageTarget } from '../../core/delivery/channel.ts'
import type { InstanceHost } from '../../registry/context.ts'

export type AckReaction = MessageTarget & { readonly reaction: string }

/** More at a time, as while a platform hangs, are left out. */
const RUNNING_MAX = 64

export class AckReactions {
  readonly #host: Pick<InstanceHost, 'channels' | 'faults'>
  #running = 0

  constructor(host: Pick<InstanceHost, 'channels' | 'faults'>) {
    this.#host = host
  }

  send(reactions: readonly AckReaction[]): void {
    for (const each of reactions) {
      if (this.#running >= RUNNING_MAX) return
      this.#running++
      this.#send(each)
        .finally(() => this.#running--)
        .catch(this.#host.faults.handler('job'))
    }
  }

  async #send(act: AckReaction): Promise<void> {
    try {
      const channel = await this.#host.channels.resolve(act.jid)
      await channel?.actions.like?.(act)
    } catch {
      // The platform refused it, or cannot be reached.
    }
  }
}
