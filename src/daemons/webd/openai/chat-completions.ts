// Answers of /v1/chat/completions.
import type { AnswerEnd, AnswerForm, AnswerHead } from './answer-form.ts'

export const CHAT_COMPLETIONS: AnswerForm = {
  body: (head, end) => ({
    ...common(head, 'chat.completion'),
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: end.text, refusal: null },
        logprobs: null,
        finish_reason: finishReason(end),
      },
    ],
    usage: usageOf(end),
  }),
  stream: (head) => {
    const base = common(head, 'chat.completion.chunk')
    // Clients that do not ask for the usage crash on its chunk, and on the member in other chunks.
    const usage = head.hasUsage ? { usage: null } : {}
    const chunk = (delta: object, finish_reason: string | null = null): string =>
      data({ ...base, choices: [{ index: 0, delta, logprobs: null, finish_reason }], ...usage })
    return {
      start: () => chunk({ role: 'assistant', content: '' }),
      text: (content) => chunk({ content }),
      end: (end) => {
        const last = head.hasUsage ? data({ ...base, choices: [], usage: usageOf(end) }) : ''
        return `${chunk({}, finishReason(end))}${last}data: [DONE]\n\n`
      },
      fail: (error) => data({ error }),
    }
  },
}

function common({ round, model, created }: AnswerHead, object: string) {
  return { id: `chatcmpl-${round}`, object, created, model, system_fingerprint: null }
}

/** `length` is the only reason that says that there could be more. */
function finishReason({ isPartial }: AnswerEnd): string {
  return isPartial ? 'length' : 'stop'
}

function usageOf({ tokens: { input, output } }: AnswerEnd) {
  return { prompt_tokens: input, completion_tokens: output, total_tokens: input + output }
}

function data(value: object): string {
  return `data: ${JSON.stringify(value)}\n\n`
}
