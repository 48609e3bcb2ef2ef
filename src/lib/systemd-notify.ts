// Messages to systemd about the state of a unit with Type=notify: sd_notify(3). Node has no datagram sockets for files, so the
// program of systemd sends them.
import { execFile } from 'node:child_process'
import { readEnvironment } from './environment.ts'

/** Does nothing outside of such a unit. A message that is lost is no reason to stop. */
export function notifySystemd(message: string): void {
  if (readEnvironment('NOTIFY_SOCKET') !== undefined) execFile('systemd-notify', [message], () => {})
}

/** The time within which systemd expects a sign of life; undefined if it expects none. */
export function watchdogMs(): number | undefined {
  const micros = Number(readEnvironment('WATCHDOG_USEC'))
  return micros > 0 ? micros / 1000 : undefined
}
