// Single ranges of a file (RFC 9110, section 14).

export interface ByteRange {
  readonly start: number
  /** Inclusive. */
  readonly end: number
}

export interface RangeRequest {
  readonly method: string
  readonly size: number
  readonly range: string | undefined
  readonly ifRange: string | undefined
  /** Values of If-Range that name the current content. */
  readonly validators: readonly (string | null)[]
}

/** For several ranges, or with an outdated If-Range, the whole file is sent. */
export function readRange(request: RangeRequest): ByteRange | 'beyond' | undefined {
  const { method, size, range, ifRange, validators } = request
  const [, from = '', to = ''] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(range ?? '') ?? []
  if ((from === '' && to === '') || method !== 'GET') return undefined
  if (ifRange !== undefined && !validators.includes(ifRange)) return undefined
  const start = from === '' ? Math.max(size - Number(to), 0) : Number(from)
  const end = from === '' || to === '' ? size - 1 : Math.min(Number(to), size - 1)
  if (from !== '' && to !== '' && Number(to) < Number(from)) return undefined
  return start < size && start <= end ? { start, end } : 'beyond'
}
