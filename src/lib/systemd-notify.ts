// Messages to systemd about the state of a unit with Type=notify: sd_notify(3). Node has no datagram sockets for files, so this
// calls the C library through `node:ffi`, or the program of systemd where that is missing.
import { execFile } from 'node:child_process'
import { readEnvironment } from './environment.ts'
import { loadFfi } from './ffi.ts'

/** Values of Linux. */
const AF_UNIX = 1
const SOCK_DGRAM_CLOEXEC = 2 | 0o2000000
const MSG_NOSIGNAL = 0x4000

/** Does nothing outside of such a unit. A message that is lost is no reason to stop. */
export function notifySystemd(message: string): void {
  const path = readEnvironment('NOTIFY_SOCKET')
  if (path !== undefined && !sendDatagram(path, message)) execFile('systemd-notify', [message], () => {})
}

/** The time within which systemd expects a sign of life; undefined if it expects none. */
export function watchdogMs(): number | undefined {
  const micros = Number(readEnvironment('WATCHDOG_USEC'))
  return micros > 0 ? micros / 1000 : undefined
}

function sendDatagram(path: string, message: string): boolean {
  const library = loadFfi()?.dlopen(null, {
    socket: { arguments: ['int32', 'int32', 'int32'], return: 'int32' },
    sendto: { arguments: ['int32', 'buffer', 'uint64', 'int32', 'buffer', 'uint32'], return: 'int64' },
    close: { arguments: ['int32'], return: 'int32' },
  })
  if (!library) return false
  const { socket, sendto, close } = library.functions
  const descriptor = socket(AF_UNIX, SOCK_DGRAM_CLOEXEC, 0)
  if (descriptor < 0) return false
  try {
    const [text, address] = [Buffer.from(message), socketAddress(path)]
    return Number(sendto(descriptor, text, BigInt(text.length), MSG_NOSIGNAL, address, address.length)) === text.length
  } finally {
    close(descriptor)
  }
}

/** struct sockaddr_un; a leading @ stands for the null byte of an abstract name. */
function socketAddress(path: string): Buffer {
  const family = Buffer.alloc(2)
  family.writeUInt16LE(AF_UNIX)
  return Buffer.concat([family, Buffer.from(path.startsWith('@') ? `\0${path.slice(1)}` : `${path}\0`)])
}
