// A tool call as one line in the log of its turn: arguments, result and duration, without credentials.
import type { ToolCallReport } from '../../faces/mcp.ts'
import { redactJson } from '../../lib/log/redact.ts'
import { summaryWithContent } from '../../registry/audit.ts'

const RESULT_MAX = 500

export function formatToolCall({ tool, args, result, ms }: ToolCallReport): string {
  const given = summaryWithContent(args, tool.input)
  const outcome = result.isError === true ? 'failed' : 'ok'
  return `[tool] ${tool.name} ${given} ${outcome} in ${Math.round(ms)} ms: ${shortText(result)}`
}

function shortText({ content }: ToolCallReport['result']): string {
  const texts = content.map((part) => (part.type === 'text' ? part.text : `<${part.type}>`))
  // Redacted as a whole: a credential that is cut is not recognized.
  const text = redactJson(texts.join(' ')).replace(/\s+/g, ' ')
  return text.length > RESULT_MAX ? `${text.slice(0, RESULT_MAX)}…` : text
}
