// Builds ClientHello messages for tests, valid and invalid.

/** The content of a server name list. Bytes are for names that are not ASCII. */
export interface ServerName {
  readonly type?: number
  readonly name: string | Uint8Array
}

export interface HelloOptions {
  /** `example.test` by default; null omits the extension. */
  readonly sni?: string | Uint8Array | null
  /** Replaces `sni`: each list becomes a separate extension. */
  readonly serverNames?: readonly (readonly ServerName[])[]
  /** Appended after all others, unchanged: see `extension`. */
  readonly extensions?: readonly Uint8Array[]
  /** False omits the extensions, like very old clients. */
  readonly hasExtensions?: boolean
  readonly alpn?: readonly string[]
  readonly keyShare?: keyof typeof SHARES
  readonly ech?: 'real' | 'grease'
  readonly grease?: boolean
  /** Total size with record headers; padding fills the rest. */
  readonly sizeBytes?: number
  readonly version?: number
  readonly sessionId?: Uint8Array
  readonly suites?: Uint8Array
  readonly compressions?: Uint8Array
  readonly messageType?: number
  readonly recordVersion?: number
  /** Where to split the message into records, or the length of each record. */
  readonly cuts?: readonly number[]
  readonly recordBytes?: number
  /** Errors to add to the lengths. */
  readonly lies?: { readonly message?: number; readonly extensions?: number }
}

/** Sizes of classic and post-quantum key shares, in bytes. */
const SHARES = {
  x25519: { group: 0x001d, bytes: 32 },
  x25519mlkem768: { group: 0x11ec, bytes: 1216 },
  secp384r1mlkem1024: { group: 0x11ed, bytes: 1665 },
} as const

const GREASE = 0x1a1a
const MAX_RECORD_BYTES = 2 ** 14

/** The complete bytes on the wire. */
export function clientHello(options: HelloOptions = {}): Buffer {
  return records(helloMessage(options), options)
}

/** The handshake message without records. */
export function helloMessage(options: HelloOptions = {}): Buffer {
  const plain = message(options, [])
  if (options.sizeBytes === undefined) return plain
  // Include the headers of records that only the padding makes necessary.
  for (let length = plain.length + 4; length <= options.sizeBytes; length++) {
    if (wireBytes(length, options) !== options.sizeBytes) continue
    return message(options, [extension(21, Buffer.alloc(length - plain.length - 4))])
  }
  throw new Error(`no ClientHello of these options has ${options.sizeBytes} bytes`)
}

function wireBytes(messageBytes: number, { cuts, recordBytes = MAX_RECORD_BYTES }: HelloOptions): number {
  return messageBytes + 5 * (cuts ? cuts.length + 1 : Math.ceil(messageBytes / recordBytes))
}

/** One TLS record, of the handshake type by default. */
export function record(payload: Uint8Array, { type = 22, version = 0x0301, length = payload.length } = {}): Buffer {
  return Buffer.concat([Buffer.of(type), u16(version), u16(length), payload])
}

export function extension(type: number, body: Uint8Array, length = body.length): Buffer {
  return Buffer.concat([u16(type), u16(length), body])
}

export function serverNameExtension(names: readonly ServerName[]): Buffer {
  const entries = names.map(({ type = 0, name }) => Buffer.concat([Buffer.of(type), block16(Buffer.from(name))]))
  return extension(0, block16(...entries))
}

function records(
  whole: Buffer,
  { cuts, recordBytes = MAX_RECORD_BYTES, recordVersion = 0x0301 }: HelloOptions,
): Buffer {
  const even = Array.from(
    { length: Math.ceil(whole.length / recordBytes) - 1 },
    (_, index) => (index + 1) * recordBytes,
  )
  const places = [0, ...(cuts ?? even), whole.length]
  const pieces = places.slice(1).map((end, index) => whole.subarray(places[index], end))
  return Buffer.concat(pieces.map((piece) => record(piece, { version: recordVersion })))
}

function message(options: HelloOptions, padding: readonly Buffer[]): Buffer {
  const { version = 0x0303, sessionId = bytesOf(32), compressions = Buffer.of(0), lies = {} } = options
  const body = Buffer.concat([
    u16(version),
    bytesOf(32),
    Buffer.of(sessionId.length),
    sessionId,
    block16(options.suites ?? suites(options)),
    Buffer.of(compressions.length),
    compressions,
    ...(options.hasExtensions === false ? [] : [extensionBlock(options, padding)]),
  ])
  const length = Buffer.alloc(4)
  length.writeUInt32BE(body.length + (lies.message ?? 0))
  length[0] = options.messageType ?? 1
  return Buffer.concat([length, body])
}

function extensionBlock(options: HelloOptions, padding: readonly Buffer[]): Buffer {
  const { sni = 'example.test', alpn, keyShare = 'x25519', ech, grease = false, lies = {} } = options
  const lists = options.serverNames ?? (sni === null ? [] : [[{ name: sni }]])
  const body = Buffer.concat([
    ...(grease ? [extension(GREASE, Buffer.alloc(0))] : []),
    ...lists.map(serverNameExtension),
    extension(23, Buffer.alloc(0)),
    extension(10, block16(u16(SHARES[keyShare].group))),
    extension(13, block16(u16(0x0403), u16(0x0804))),
    extension(43, Buffer.of(4, 3, 4, 3, 3)),
    ...(alpn
      ? [extension(16, block16(...alpn.map((name) => Buffer.concat([Buffer.of(name.length), Buffer.from(name)]))))]
      : []),
    shares(options, keyShare),
    ...(ech ? [extension(0xfe0d, outerEch(ech))] : []),
    ...(options.extensions ?? []),
    ...(grease ? [extension(GREASE + 0x1010, Buffer.of(0))] : []),
    ...padding,
  ])
  return Buffer.concat([u16(body.length + (lies.extensions ?? 0)), body])
}

function suites({ grease }: HelloOptions): Buffer {
  return Buffer.concat([...(grease ? [u16(GREASE)] : []), u16(0x1301), u16(0x1302), u16(0xc02f)])
}

function shares({ grease }: HelloOptions, keyShare: keyof typeof SHARES): Buffer {
  const { group, bytes } = SHARES[keyShare]
  const own = Buffer.concat([u16(group), block16(bytesOf(bytes))])
  const made = grease ? [u16(GREASE), block16(Buffer.of(0)), own] : [own]
  return extension(51, block16(...made))
}

/** An outer ECH: suite, configuration, encapsulated key and sealed inner hello (or random bytes, for GREASE). */
function outerEch(kind: 'real' | 'grease'): Buffer {
  const sealed = kind === 'real' ? 239 : 144
  return Buffer.concat([Buffer.of(0), u16(1), u16(1), Buffer.of(42), block16(bytesOf(32)), block16(bytesOf(sealed))])
}

function block16(...parts: readonly Uint8Array[]): Buffer {
  const body = Buffer.concat(parts)
  return Buffer.concat([u16(body.length), body])
}

function u16(value: number): Buffer {
  return Buffer.of((value >> 8) & 0xff, value & 0xff)
}

/** Deterministic bytes that look random. */
function bytesOf(count: number): Buffer {
  return Buffer.from(Array.from({ length: count }, (_, index) => (index * 167 + 91) & 0xff))
}
