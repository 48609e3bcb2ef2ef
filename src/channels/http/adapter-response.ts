// Interprets the response of an adapter: success, unsupported, or a failure that is permanent, transient or unclear.
import { z } from 'zod'
import { ChannelError } from '../../core/delivery/channel.ts'
import { Refusal } from '../../lib/refusal.ts'
import { tryParseJson } from '../../lib/text/json.ts'
import { type AdapterResponse, toRetryAfterMs } from '../adapter-request.ts'

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

/** The call that a response belongs to, for error messages. */
interface AdapterCall {
  readonly adapter: string
  readonly tool: string
  readonly platform: string
  /** Used if the adapter sends no hint. */
  readonly hint: string
  /** For calls about a pane, 404 means that the chat has none. */
  readonly isPane?: boolean
}

/** Returns the id and body of a successful response; throws otherwise. */
export function readAdapterResponse(
  response: AdapterResponse,
  call: AdapterCall,
): { readonly id?: string; readonly body: unknown } {
  const { status, headers, text } = response
  const body = tryParseJson(text)
  const fields = ResponseBody.safeParse(body).data ?? {}
  if (status >= 200 && status < 300 && fields.ok !== false) {
    const id = fields.id !== undefined && fields.id !== '' && fields.id.length <= ID_MAX ? fields.id : undefined
    return { body, ...(id === undefined ? {} : { id }) }
  }
  const { adapter, tool, platform, isPane } = call
  if (status === 501 || (status === 404 && isPane))
    throw new Refusal('unsupported', `unsupported: ${tool} on ${platform}`, fields.hint || call.hint)
  throw new ChannelError(
    classifyStatus(status),
    describeFailure(adapter, status, fields),
    toRetryAfterMs(headers['retry-after']),
  )
}

/** After a gateway timeout (504) the adapter may or may not have handled the request. */
function classifyStatus(status: number): ChannelError['kind'] {
  if (status === 504) return 'unclear'
  return status >= 500 || status === 408 || status === 425 || status === 429 ? 'transient' : 'permanent'
}

function describeFailure(adapter: string, status: number, { error, detail }: ResponseBody): string {
  const why = (error ?? detail ?? '').replace(/[\u0000-\u001f\u007f]+/g, ' ').slice(0, 300)
  return why === '' ? `${adapter} answers ${status}` : `${adapter} answers ${status}: ${why}`
}
