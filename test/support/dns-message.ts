// The part of the DNS wire format (RFC 1035) that a scripted server needs.
import { isIPv4, SocketAddress } from 'node:net'

export type QuestionType = 'A' | 'AAAA' | 'other'
export type Rcode = keyof typeof RCODES

export interface Question {
  readonly id: number
  /** Lower case, without the trailing dot. */
  readonly name: string
  readonly type: QuestionType
  /** The raw section: an answer repeats it, with the same letter case. */
  readonly section: Buffer
  /** The maximum size of a UDP answer. */
  readonly room: number
}

export interface DnsRecord {
  readonly name: string
  readonly ttl: number
  /** An address, or the target of a CNAME. */
  readonly address?: string
  readonly cname?: string
}

const HEADER = 12
const ROOM_WITHOUT_OPT = 512
const OPT = 41
const TYPES: Record<number, QuestionType> = { 1: 'A', 28: 'AAAA' }
const RCODES = { NOERROR: 0, FORMERR: 1, SERVFAIL: 2, NXDOMAIN: 3, NOTIMP: 4, REFUSED: 5 }
const ANSWER = 0x8180
const TRUNCATED = 0x0200

export function readQuestion(message: Buffer): Question {
  const labels: string[] = []
  let at = HEADER
  for (let length = message.readUInt8(at); length > 0; length = message.readUInt8(at)) {
    labels.push(message.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  const end = at + 5
  return {
    id: message.readUInt16BE(0),
    name: labels.join('.').toLowerCase(),
    type: TYPES[message.readUInt16BE(at + 1)] ?? 'other',
    section: message.subarray(HEADER, end),
    room: roomOf(message, end),
  }
}

/** The OPT record of a client that accepts larger answers contains the size. */
function roomOf(message: Buffer, at: number): number {
  const hasOpt = message.readUInt16BE(10) > 0 && message.readUInt16BE(at + 1) === OPT
  return hasOpt ? Math.max(ROOM_WITHOUT_OPT, message.readUInt16BE(at + 3)) : ROOM_WITHOUT_OPT
}

export function writeAnswer(question: Question, rcode: Rcode, records: readonly DnsRecord[]): Buffer {
  const header = writeHeader(question, ANSWER | RCODES[rcode], records.length)
  return Buffer.concat([header, question.section, ...records.map(writeRecord)])
}

/** Sets the TC bit: the client must retry over TCP. */
export function writeTruncated(question: Question): Buffer {
  return Buffer.concat([writeHeader(question, ANSWER | TRUNCATED, 0), question.section])
}

function writeHeader({ id }: Question, flags: number, answers: number): Buffer {
  return words(id, flags, 1, answers, 0, 0)
}

function writeRecord({ name, ttl, address, cname }: DnsRecord): Buffer {
  const content = address === undefined ? writeName(cname ?? '') : writeAddress(address)
  const type = address === undefined ? 5 : isIPv4(address) ? 1 : 28
  return Buffer.concat([writeName(name), words(type, 1, ttl >>> 16, ttl & 0xffff, content.length), content])
}

function writeName(name: string): Buffer {
  const labels = name.split('.').map((label) => Buffer.from(`${String.fromCharCode(label.length)}${label}`, 'latin1'))
  return Buffer.concat([...labels, Buffer.of(0)])
}

function writeAddress(address: string): Buffer {
  if (isIPv4(address)) return Buffer.from(address.split('.').map(Number))
  const { address: plain } = new SocketAddress({ address, family: 'ipv6' })
  // Convert the dotted end of a mapped address to two groups.
  const [, before = plain, dotted] = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/.exec(plain) ?? []
  const last =
    dotted === undefined
      ? ''
      : writeAddress(dotted)
          .toString('hex')
          .replace(/^(....)/, '$1:')
  const [head = [], tail] = `${before}${last}`
    .split('::')
    .map((side) => side.split(':').filter((group) => group !== ''))
  const zeros = tail === undefined ? [] : new Array<string>(8 - head.length - tail.length).fill('0')
  return words(...[...head, ...zeros, ...(tail ?? [])].map((group) => Number.parseInt(group, 16)))
}

function words(...values: number[]): Buffer {
  const bytes = Buffer.alloc(2 * values.length)
  for (const [index, value] of values.entries()) bytes.writeUInt16BE(value, 2 * index)
  return bytes
}
