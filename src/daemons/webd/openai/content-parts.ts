// The content of a message: a string, or parts with text, images, files and audio.
import { isObject } from '../../../lib/text/json.ts'
import { ParamRefusal, refuseParam } from '../../http/openai-errors.ts'

/** Not decoded yet: histories contain files that nobody needs again. */
export interface EncodedFile {
  readonly param: string
  readonly name: string | undefined
  readonly type: string | undefined
  /** A data URL or base64. */
  readonly data: string
}

export interface PartialContent {
  readonly text: string
  readonly files: readonly EncodedFile[]
}

export interface DecodedFile {
  readonly name: string
  readonly type: string | undefined
  readonly bytes: Buffer
}

export function parseContent(content: unknown, param: string): PartialContent {
  if (content === undefined || content === null) return { text: '', files: [] }
  if (typeof content === 'string') return { text: content, files: [] }
  if (!Array.isArray(content)) return refuseParam(param, `${param} must be a string or a list of parts`)
  const texts: string[] = []
  const files: EncodedFile[] = []
  for (const [at, part] of content.entries()) {
    const parsed = parsePart(part, `${param}[${at}]`)
    if (typeof parsed === 'string') texts.push(parsed)
    else files.push(parsed)
  }
  return { text: texts.join('\n'), files }
}

function parsePart(part: unknown, param: string): string | EncodedFile {
  if (typeof part === 'string') return part
  if (!isObject(part)) return refuseParam(param, `${param} must be an object`)
  switch (part.type) {
    case 'text':
    case 'input_text':
    case 'output_text':
      return stringOf(part.text, `${param}.text`)
    case 'refusal':
      return stringOf(part.refusal, `${param}.refusal`)
    case 'image_url':
    case 'input_image': {
      const url = isObject(part.image_url) ? part.image_url.url : part.image_url
      return encodedFile({ data: url }, `${param}.image_url`)
    }
    case 'file':
      return isObject(part.file)
        ? encodedFile(fileOf(part.file), `${param}.file`)
        : refuseParam(param, `${param}.file is required`)
    case 'input_file':
      return encodedFile(fileOf(part), param)
    case 'input_audio': {
      const { data, format } = isObject(part.input_audio) ? part.input_audio : {}
      return encodedFile(
        { data, ...(typeof format === 'string' ? { name: `audio.${format}`, type: `audio/${format}` } : {}) },
        `${param}.input_audio`,
      )
    }
    default:
      return refuseParam(`${param}.type`, `parts of type ${JSON.stringify(part.type) ?? 'undefined'} are not supported`)
  }
}

function stringOf(value: unknown, param: string): string {
  return typeof value === 'string' ? value : refuseParam(param, `${param} must be a string`)
}

interface FileMembers {
  readonly data: unknown
  readonly name?: unknown
  readonly type?: string | undefined
}

function fileOf({ file_data, file_url, filename }: Record<string, unknown>): FileMembers {
  return { data: file_data ?? file_url, name: filename }
}

function encodedFile({ data, name, type }: FileMembers, param: string): EncodedFile {
  if (typeof data !== 'string')
    return refuseParam(
      param,
      `${param} has no content: send the file itself as a data URL or base64, not by the id of an upload`,
    )
  return { param, data, type, name: typeof name === 'string' ? name : undefined }
}

/** Of a data URL, before its content. */
const DATA_HEAD_MAX = 1024
const BASE64 = /^[\w+/\s-]*$/
const PADDING = /^[=\s]*$/

/** No step takes more than linear time, or memory for each character: a body may be one file. */
export function decodeFile({ data, name, type, param }: EncodedFile): DecodedFile {
  if (/^https?:/i.test(data))
    throw new ParamRefusal(param, 'files are not fetched from URLs: send the content itself, as a data URL or base64')
  const comma = data.startsWith('data:') ? data.slice(0, DATA_HEAD_MAX).indexOf(',') : -1
  const [declared = '', ...parameters] = data.slice('data:'.length, Math.max(comma, 'data:'.length)).split(';')
  const isData = comma >= 0
  if (isData && !parameters.includes('base64')) return refuseParam(param, 'a data URL must be base64')
  const text = data.slice(comma + 1)
  const end = text.indexOf('=')
  const padding = end < 0 ? '' : text.slice(end)
  if (!BASE64.test(text.slice(0, text.length - padding.length)) || !PADDING.test(padding))
    return refuseParam(param, 'the content is not base64')
  const shown = isData && declared !== '' ? declared : type
  const extension = /^[a-z]+\/([a-z0-9]{1,8})\b/i.exec(shown ?? '')?.[1]
  const fallback = extension === undefined ? 'file' : `file.${extension === 'plain' ? 'txt' : extension}`
  return { name: name ?? fallback, type: shown, bytes: Buffer.from(text, 'base64') }
}
