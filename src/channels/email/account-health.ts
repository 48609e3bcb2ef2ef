// One health of two servers: the worse of both is shown.
import type { ConnectorContext, HealthStatus } from '../process/port.ts'
import type { ServerKind } from './mail-account.ts'

const WORST: readonly HealthStatus[] = ['refused', 'connecting', 'ok']

interface ServerHealth {
  readonly status: HealthStatus
  readonly detail: string | undefined
}

export class AccountHealth {
  readonly #setHealth: ConnectorContext['setHealth']
  readonly #servers = new Map<ServerKind, ServerHealth>()

  constructor({ setHealth }: Pick<ConnectorContext, 'setHealth'>) {
    this.#setHealth = setHealth
  }

  set(kind: ServerKind, status: HealthStatus, detail?: string): void {
    this.#servers.set(kind, { status, detail })
    const all = [...this.#servers.values()]
    const worst = WORST.map((each) => all.find((server) => server.status === each)).find((each) => each !== undefined)
    if (worst) this.#setHealth(worst.status, worst.detail)
  }
}
