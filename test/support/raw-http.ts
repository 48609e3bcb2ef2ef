// HTTP origins on bare sockets that send exactly the given bytes.
import { openPeerServer, type Peer, type PeerServer, type SocketEnding } from './raw-socket.ts'

export function rawOrigin(t: SocketEnding, serve: (peer: Peer, count: number) => void): Promise<PeerServer> {
  return openPeerServer(t, { serve })
}

/** Responds to every request head; request bodies are not supported. */
export function answerEach(peer: Peer, answer: (request: string, count: number) => string): void {
  let from = 0
  let count = 0
  peer.onData = () => {
    for (let at = peer.text.indexOf('\r\n\r\n', from); at >= 0; at = peer.text.indexOf('\r\n\r\n', from)) {
      const request = peer.text.slice(from, at + 4)
      from = at + 4
      peer.send(answer(request, ++count))
    }
  }
}
