// The type of a file by its content. What a sender declares, or a name ends with, decides nothing: the type is what svc tells
// browsers and agents.
import { GrowingBuffer } from '../../lib/growing-buffer.ts'
import { countPixels, IMAGE_HEAD_BYTES } from './image-size.ts'

export interface FileType {
  readonly type: string
  /** Of the file on disk; empty for an unknown type. */
  readonly extension: string
}

/** Decides all types but plain text, which needs the whole content. */
const HEAD_BYTES = 4096
/** Larger images, and those of unknown size, are only to download: a browser would decode them. */
const PIXELS_MAX = 50_000_000

const UNKNOWN: FileType = { type: 'application/octet-stream', extension: '' }
const TEXT: FileType = { type: 'text/plain', extension: 'txt' }
const ZIP: FileType = { type: 'application/zip', extension: 'zip' }
const AVIF: FileType = { type: 'image/avif', extension: 'avif' }
const M4A: FileType = { type: 'audio/mp4', extension: 'm4a' }
const MP3: FileType = { type: 'audio/mpeg', extension: 'mp3' }

/** Latin-1. */
const SIGNATURES: readonly (readonly [start: string, type: FileType])[] = [
  ['\x89PNG\r\n\x1a\n', { type: 'image/png', extension: 'png' }],
  ['\xff\xd8\xff', { type: 'image/jpeg', extension: 'jpg' }],
  ['GIF87a', { type: 'image/gif', extension: 'gif' }],
  ['GIF89a', { type: 'image/gif', extension: 'gif' }],
  ['%PDF-', { type: 'application/pdf', extension: 'pdf' }],
  ['fLaC', { type: 'audio/flac', extension: 'flac' }],
  ['ID3', MP3],
  ['PK\x03\x04', ZIP],
  ['PK\x05\x06', ZIP],
]

/** By the form type of a RIFF file. */
const RIFF: Readonly<Record<string, FileType>> = {
  WEBP: { type: 'image/webp', extension: 'webp' },
  WAVE: { type: 'audio/wav', extension: 'wav' },
}

/** Reads a file as it arrives. */
export class FileTypeDetector {
  readonly #head = new GrowingBuffer()
  #isImage = false
  /** Undefined once the content is no text. */
  #text: TextDecoder | undefined = new TextDecoder('utf-8', { fatal: true })

  write(bytes: Buffer): void {
    const mayBeImage = this.#head.length < HEAD_BYTES
    if (mayBeImage || this.#isImage) this.#head.append(bytes.subarray(0, IMAGE_HEAD_BYTES - this.#head.length))
    if (mayBeImage) this.#isImage = isImage(this.#typeOfHead())
    this.#checkText(bytes)
  }

  end(): FileType {
    this.#checkText(undefined)
    return this.#typeOfHead() ?? (this.#text ? TEXT : UNKNOWN)
  }

  /** Like `end`, but an image that browsers should not show has the unknown type. */
  endToShow(): FileType {
    const found = this.end()
    const pixels = isImage(found) ? countPixels(found.type, this.#head.bytes) : 0
    return pixels !== undefined && pixels <= PIXELS_MAX ? found : { ...found, type: UNKNOWN.type }
  }

  #typeOfHead(): FileType | undefined {
    return typeOfHead(this.#head.bytes.subarray(0, HEAD_BYTES))
  }

  #checkText(bytes: Buffer | undefined): void {
    try {
      const text = bytes ? this.#text?.decode(bytes, { stream: true }) : this.#text?.decode()
      if (text !== undefined && CONTROL.test(text)) this.#text = undefined
    } catch {
      this.#text = undefined
    }
  }
}

/** Of texts: all but tab, line feed, form feed, carriage return and escape. */
const CONTROL = /[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]/

function isImage(found: FileType | undefined): boolean {
  return found?.type.startsWith('image/') ?? false
}

function typeOfHead(head: Buffer): FileType | undefined {
  // Latin-1 has one character for each byte.
  const text = head.toString('latin1')
  const signed = SIGNATURES.find(([start]) => text.startsWith(start))
  if (signed) return signed[1]
  if (text.startsWith('RIFF')) return RIFF[text.slice(8, 12)]
  if (text.slice(4, 8) === 'ftyp') return typeOfBoxes(head, text)
  if (text.startsWith('OggS')) return typeOfOgg(text)
  if (text.startsWith('\x1a\x45\xdf\xa3')) return typeOfMatroska(text)
  return typeOfAudioFrame(head)
}

/** The ISO base media format, of AVIF images, M4A audio and MP4 videos. */
function typeOfBoxes(head: Buffer, text: string): FileType {
  const [major, ...brands] = brandsOf(head, text)
  if (major === 'avif' || major === 'avis' || (major === 'mif1' && brands.includes('avif'))) return AVIF
  if (major === 'M4A ' || major === 'M4B ' || major === 'F4A ') return M4A
  // Recorders of browsers name a general brand; the handlers of the tracks tell what they have recorded.
  const isAudio = text.includes('soun') && !text.includes('vide')
  return isAudio ? M4A : { type: 'video/mp4', extension: 'mp4' }
}

function brandsOf(head: Buffer, text: string): string[] {
  const end = head.length < 12 ? 0 : Math.min(head.readUInt32BE(0), head.length)
  const brands: string[] = [text.slice(8, 12)]
  for (let at = 16; at + 4 <= end; at += 4) brands.push(text.slice(at, at + 4))
  return brands
}

/** The first page of an audio stream names its codec. */
function typeOfOgg(text: string): FileType | undefined {
  const isAudio = /^.{26}(?:.{0,4})(?:OpusHead|\x01vorbis|\x7fFLAC|Speex {3})/s.test(text)
  return isAudio ? { type: 'audio/ogg', extension: 'ogg' } : undefined
}

/** WebM; the codecs of its tracks tell whether it is a video. */
function typeOfMatroska(text: string): FileType | undefined {
  if (!text.slice(0, 64).includes('webm')) return undefined
  const isAudio = /A_(?:OPUS|VORBIS)/.test(text) && !text.includes('V_')
  return isAudio ? { type: 'audio/webm', extension: 'webm' } : { type: 'video/webm', extension: 'webm' }
}

/** MPEG audio without a tag, and AAC in ADTS. */
function typeOfAudioFrame(head: Buffer): FileType | undefined {
  const [first = 0, second = 0, third = 0] = head
  if (first !== 0xff || head.length < 4) return undefined
  if ((second & 0xf6) === 0xf0) return { type: 'audio/aac', extension: 'aac' }
  const [version, layer] = [(second >> 3) & 3, (second >> 1) & 3]
  const [bitRate, sampleRate] = [third >> 4, (third >> 2) & 3]
  const isFrame = second >= 0xe0 && version !== 1 && layer === 1 && bitRate > 0 && bitRate < 15 && sampleRate < 3
  return isFrame ? MP3 : undefined
}
