// Handlers that work on the Node request and response, before a Request object is created: for hot paths and for streams.
import type { IncomingMessage, ServerResponse } from 'node:http'

export interface ConnectionOrigin {
  /** Address of the client. */
  readonly client: string | undefined
  /** `client` is the peer of the socket; X-Forwarded-For has not been considered yet. */
  readonly isSocketAddress?: boolean
}

/** Returns false for requests it does not handle. Never throws. */
export type RawHandler = (request: IncomingMessage, response: ServerResponse, origin: ConnectionOrigin) => boolean
