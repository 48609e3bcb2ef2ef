// Answers of /v1/responses.
import type { AnswerEnd, AnswerForm, AnswerHead } from './answer-form.ts'

export const RESPONSES: AnswerForm = {
  body: (head, end) => endedResponse(head, end),
  stream: (head) => {
    let sequence_number = 0
    const event = (type: string, members: object): string =>
      `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: sequence_number++, ...members })}\n\n`
    const { id: item_id } = messageItem(head, '', 'in_progress')
    const place = { output_index: 0, content_index: 0, item_id }
    return {
      start: () => {
        const response = responseOf(head, 'in_progress')
        return [
          event('response.created', { response }),
          event('response.in_progress', { response }),
          event('response.output_item.added', {
            output_index: 0,
            item: { ...messageItem(head, '', 'in_progress'), content: [] },
          }),
          event('response.content_part.added', { ...place, part: textPart('') }),
        ].join('')
      },
      text: (delta) => event('response.output_text.delta', { ...place, delta, logprobs: [] }),
      end: (end) => {
        const response = endedResponse(head, end)
        const { text } = end
        return [
          event('response.output_text.done', { ...place, text, logprobs: [] }),
          event('response.content_part.done', { ...place, part: textPart(text) }),
          event('response.output_item.done', { output_index: 0, item: response.output[0] }),
          event(end.isPartial ? 'response.incomplete' : 'response.completed', { response }),
        ].join('')
      },
      fail: ({ message }, text) => {
        const output = text === '' ? [] : [messageItem(head, text, 'incomplete')]
        const error = { code: 'server_error', message }
        return event('response.failed', { response: { ...responseOf(head, 'failed'), output, error } })
      },
    }
  },
}

type Status = 'in_progress' | 'completed' | 'incomplete' | 'failed'

function endedResponse(head: AnswerHead, { text, isPartial, tokens: { input, output } }: AnswerEnd) {
  const status = isPartial ? 'incomplete' : 'completed'
  return {
    ...responseOf(head, status),
    // The protocol has no reason for an answer that someone stopped.
    ...(isPartial ? { incomplete_details: { reason: 'max_output_tokens' } } : {}),
    output: [messageItem(head, text, status)],
    usage: {
      input_tokens: input,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: output,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: input + output,
    },
  }
}

/** With all members that the types of the official clients require. */
function responseOf({ round, created, model, topic, previousId }: AnswerHead, status: Status) {
  return {
    id: `resp_${round}`,
    object: 'response',
    created_at: created,
    status,
    background: false,
    error: null,
    incomplete_details: null,
    instructions: null,
    max_output_tokens: null,
    metadata: {},
    model,
    output: [] as object[],
    parallel_tool_calls: false,
    previous_response_id: previousId ?? null,
    conversation: topic === null ? null : { id: topic },
    reasoning: { effort: null, summary: null },
    service_tier: 'default',
    store: true,
    temperature: null,
    text: { format: { type: 'text' } },
    tool_choice: 'none',
    tools: [],
    top_p: null,
    truncation: 'disabled',
    usage: null as object | null,
    user: null,
  }
}

function messageItem({ round }: AnswerHead, text: string, status: Exclude<Status, 'failed'>) {
  return { id: `msg_${round}`, type: 'message', status, role: 'assistant', content: [textPart(text)] }
}

function textPart(text: string) {
  return { type: 'output_text', text, annotations: [], logprobs: [] }
}
