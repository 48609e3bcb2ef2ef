// The network of one run, opened before its sandbox starts and closed with it.

/** Address of the run's model endpoint, which the run may reach besides the rules of its folder. */
export interface ModelAddress {
  /** Host name or IP address. */
  readonly host: string
  readonly port: number
  /** False if it was set by a person who may not open private addresses to runs. */
  readonly mayBePrivate: boolean
}

export interface RunNetwork {
  /** Descriptor over which the sandbox passes its listener to the proxy. */
  readonly handover: number
  /** Closes this process's copy of `handover` after the sandbox has started. */
  release(): void
  /** Closes every connection of the run. */
  close(): Promise<void>
}

export interface Network {
  open(folder: string, endpoint?: ModelAddress): Promise<RunNetwork>
}

/** Undefined if the URL has no host. */
export function modelAddressOf(url: string, mayBePrivate = true): ModelAddress | undefined {
  if (!URL.canParse(url)) return undefined
  const { hostname, port, protocol } = new URL(url)
  if (hostname === '') return undefined
  const host = hostname.replace(/^\[(.*)\]$/, '$1')
  return { host, port: Number(port) || (protocol === 'http:' ? 80 : 443), mayBePrivate }
}
