// What the answer of an adapter means: done, not supported, never, later, or nobody knows.
import { z } from 'zod'
import { ChannelError } from '../../core/delivery/channel.ts'
import { Refusal } from '../../lib/refusal.ts'
import { tryParseJson } from '../../lib/text/json.ts'
import type { AdapterResponse } from './adapter-request.ts'

const ResponseBody = z.object({
  ok: z.boolean().optional().catch(undefined),
  id: z
    .union([z.string(), z.number().transform(String)])
    .optional()
    .catch(undefined),
  error: z.string().optional().catch(undefined),
  detail: z.string().optional().catch(undefined),
  hint: z.string().optional().catch(undefined),
})
type ResponseBody = z.output<typeof ResponseBody>

const ID_MAX = 512

/** Who was asked for what, for the sentences. */
export interface AdapterCall {
  readonly adapter: string
  readonly tool: string
  readonly platform: string
  /** Where the adapter has none. */
  readonly hint: string
  /** 404 says that the chat lacks what is asked for, not that the adapter is broken. */
  readonly isPane?: boolean
}

/** What it says, if it was done. */
export function readAdapterResponse(
  answered: AdapterResponse,
  question: AdapterCall,
): { readonly id?: string; readonly body: unknown } {
  const { status, headers, text } = answered
  const body = tryParseJson(text)
  const said = ResponseBody.safeParse(body).data ?? {}
  if (status >= 200 && status < 300 && said.ok !== false) {
    const id = said.id !== undefined && said.id !== '' && said.id.length <= ID_MAX ? said.id : undefined
    return { body, ...(id === undefined ? {} : { id }) }
  }
  const { adapter, tool, platform, isPane } = question
  if (status === 501 || (status === 404 && isPane))
    throw new Refusal('unsupported', `unsupported: ${tool} on ${platform}`, said.hint || question.hint)
  throw new ChannelError(kindOf(status), sentence(adapter, status, said), retryAfterMs(headers['retry-after']))
}

/** A gateway that waited in vain does not know what became of it. */
function kindOf(status: number): ChannelError['kind'] {
  if (status === 504) return 'unclear'
  return status >= 500 || status === 408 || status === 425 || status === 429 ? 'transient' : 'permanent'
}

function sentence(adapter: string, status: number, { error, detail }: ResponseBody): string {
  const why = (error ?? detail ?? '').replace(/[\u0000-\u001f\u007f]+/g, ' ').slice(0, 300)
  return why === '' ? `${adapter} answers ${status}` : `${adapter} answers ${status}: ${why}`
}

/** Seconds; a date is not waited for. */
function retryAfterMs(header: string | undefined): number | undefined {
  return header !== undefined && /^\d{1,6}$/.test(header) ? Number(header) * 1000 : undefined
}
