// Tells systemd that svc is ready, so that `systemctl start` returns when the instance answers. Node has no datagram sockets for
// files, so the program of systemd sends the message.
import { execFile } from 'node:child_process'
import { readEnvironment } from '../../lib/settings.ts'

/** Does nothing unless the process is the main process of a unit with Type=notify. Calls back with an error, if any. */
export function notifyReady(onError: (error: Error) => void): void {
  if (readEnvironment('NOTIFY_SOCKET') === undefined) return
  execFile('systemd-notify', ['--ready'], (error) => {
    if (error) onError(error)
  })
}
