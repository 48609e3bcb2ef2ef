// Answers on the Node response itself, before a request is made into more than it is: for the paths where microseconds
// count, and for streams, of which there are thousands.
import type { IncomingMessage, ServerResponse } from 'node:http'

/** What whoever hands a request on knows about it. */
export interface Way {
  /** The address of whoever asks: of the client, where a front door that is trusted says so. */
  readonly client: string | undefined
  /** It is the address of the connection: nobody has asked yet whether it stands for another. */
  readonly isPeer?: boolean
}

/** Answers, or says false: then it is somebody else's. Never throws. */
export type Direct = (request: IncomingMessage, response: ServerResponse, way: Way) => boolean
