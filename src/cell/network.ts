// The port of a run's way out: opened for one run, handed to its cell, and closed with it.

/** Where the run's own model answers: allowed for that run, exactly there. */
export interface ModelEndpoint {
  /** A name or an address. */
  readonly host: string
  readonly port: number
  /** False where a person has named it who may not open private addresses to runs. */
  readonly mayBePrivate: boolean
}

export interface RunNetwork {
  /** The descriptor over which the cell hands its listener to the proxy. */
  readonly handover: number
  /** Closes this process's copy of `handover`, once the cell has been started. */
  release(): void
  /** Ends every connection of the run. */
  close(): Promise<void>
}

export interface Network {
  open(folder: string, endpoint?: ModelEndpoint): Promise<RunNetwork>
}

/** Of a URL; undefined where it has no host. */
export function endpointOf(url: string, mayBePrivate = true): ModelEndpoint | undefined {
  if (!URL.canParse(url)) return undefined
  const { hostname, port, protocol } = new URL(url)
  if (hostname === '') return undefined
  const host = hostname.replace(/^\[(.*)\]$/, '$1')
  return { host, port: Number(port) || (protocol === 'http:' ? 80 : 443), mayBePrivate }
}
