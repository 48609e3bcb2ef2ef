// The actions of the demo: each calls one or two tools and returns a reply. Refusals of tools are replies too, so that people
// see the access rules at work.
import { tierOf } from '../../core/access/tiers.ts'
import { formatDuration } from '../../lib/text/duration.ts'
import { trimTrailing } from '../../lib/text/trimming.ts'
import type { TurnFile } from '../runtime.ts'
import { RpcFault, type SocketClient, type ToolCallResult } from '../socket-client.ts'
import { type DemoRequest, parsePhrase } from './phrases.ts'
import type { DemoTask } from './task.ts'

const QUOTED_MAX = 400
const FOUND_MAX = 5
const TOOLS_MAX = 60

const HELP = `I am the demo: I need no model and no key, and everything I do goes through the same tools as any agent. Try:

- \`remind me in 2m to drink water\` (a scheduled task), \`tasks\`
- \`find water\` (full-text search over messages)
- \`links\`, \`hook github\` (URLs that others can post to)
- \`note buy milk\`, \`notes\` (my work file)
- \`who am I\` (folder, tier, tools)
- \`spend 5 cents\` (counts against the budget)
- \`ask <folder below me> <question>\` (delegates the question)

\`svc model <instance>\` on the command line replaces me with a real model.

Lines such as \`/status thinking\`, \`/wait 1s\`, \`/say hello\`, \`/count 3\`, \`/tool list_tasks {}\` or \`/fail no\` are a script.`

/** Returns the reply; undefined if another folder will answer. */
export async function answerMessage(
  socket: SocketClient,
  task: DemoTask,
  text: string,
  files: readonly TurnFile[] = [],
): Promise<string | undefined> {
  try {
    const request = parsePhrase(text)
    if (request.kind === 'talk' && files.length > 0) return describeFiles(request.text, files)
    return await runRequest(socket, task, request)
  } catch (error) {
    if (error instanceof RefusedToolCall) return error.message
    throw error
  }
}

class RefusedToolCall extends Error {}

async function runRequest(socket: SocketClient, task: DemoTask, request: DemoRequest): Promise<string | undefined> {
  switch (request.kind) {
    case 'help':
      return HELP
    case 'reminder':
      return `⏰ ${request.text}`
    case 'remind':
      return remind(socket, task, request.ms, request.text)
    case 'tasks':
      return listTasks(socket)
    case 'find':
      return findMessages(socket, task, request.text)
    case 'links':
      return listLinks(socket)
    case 'hook':
      return createHook(socket, request.text)
    case 'note':
      return addNote(socket, request.text)
    case 'notes':
      return listNotes(socket)
    case 'who':
      return describeTurn(socket, task)
    case 'spend':
      return spend(socket, request.cents)
    case 'delegate':
      return delegate(socket, task, request.folder, request.text)
    default:
      return describeMessage(task, request.text)
  }
}

async function remind(socket: SocketClient, { jid, now }: DemoTask, ms: number, text: string): Promise<string> {
  const cron = new Date(now + ms).toISOString()
  const { taskId } = await callTool(socket, 'schedule_task', { targetJid: jid, prompt: `Reminder: ${text}`, cron })
  return `I will remind you in ${formatDuration(ms)}, at ${cron}: ${text} (\`${String(taskId)}\`)`
}

async function listTasks(socket: SocketClient): Promise<string> {
  const tasks = findRows(await callTool(socket, 'list_tasks', {}))
  if (tasks.length === 0) return 'No task is scheduled.'
  const line = (task: Row): string =>
    `- \`${task.id}\` ${task.status ?? ''}${task.next_run ? `, next at ${task.next_run}` : ''}: ${shorten(task.prompt)}`
  return [`${tasks.length === 1 ? 'One task' : `${tasks.length} tasks`}:`, ...tasks.slice(0, 20).map(line)].join('\n')
}

async function findMessages(socket: SocketClient, { messages }: DemoTask, query: string): Promise<string> {
  const askingIds = new Set<unknown>(messages.map(({ id }) => id))
  const found = findRows(await callTool(socket, 'find_messages', { query, limit: FOUND_MAX + askingIds.size }))
  // Without the message that asks.
  const others = found.filter(({ id }) => !askingIds.has(id)).slice(0, FOUND_MAX)
  if (others.length === 0) return `No other message matches \`${query}\`.`
  const line = ({ timestamp, sender, content }: Row): string => `- ${timestamp} \`${sender}\`: ${shorten(content)}`
  return [`Messages that match \`${query}\`:`, ...others.map(line)].join('\n')
}

async function listLinks(socket: SocketClient): Promise<string> {
  const links = findRows(await callTool(socket, 'list_route_tokens', {}))
  if (links.length === 0) return 'There are no links. `hook github` makes one.'
  return ['These links exist:', ...links.map((row) => `- \`${row.jid}\`, since ${row.created_at}`)].join('\n')
}

async function createHook(socket: SocketClient, source: string): Promise<string> {
  const { url } = await callTool(socket, 'issue_webhook', { source_label: source })
  return `Posts to this URL reach me as messages of \`${source}\`. The URL is shown only once:\n\n${String(url)}`
}

async function addNote(socket: SocketClient, text: string): Promise<string> {
  const { content } = await callTool(socket, 'get_work', {})
  const before = typeof content === 'string' && content !== '' ? `${trimTrailing(content, '\n')}\n` : ''
  await callTool(socket, 'set_work', { content: `${before}- ${text}\n` })
  return `Noted: ${text}`
}

async function listNotes(socket: SocketClient): Promise<string> {
  const { content } = await callTool(socket, 'get_work', {})
  return typeof content === 'string' && content.trim() !== ''
    ? content
    : 'There are no notes. `note buy milk` adds one.'
}

async function describeTurn(socket: SocketClient, task: DemoTask): Promise<string> {
  const names = (await socket.tools()).map(({ name }) => name).sort()
  const shown = names.slice(0, TOOLS_MAX).map((name) => `\`${name}\``)
  const rest = names.length > TOOLS_MAX ? ` and ${names.length - TOOLS_MAX} more` : ''
  const money = task.moneyCents === undefined ? '' : ` money: ${task.moneyCents} cents left;`
  return [
    `You are \`${task.sender}\`, in the chat \`${task.jid}\`.`,
    `I am the demo of the folder \`${task.folder}\`, tier ${tierOf(task.folder)};${money} session \`${task.session}\`.`,
    `I have ${names.length} tools: ${shown.join(', ')}${rest}.`,
  ].join('\n')
}

async function spend(socket: SocketClient, cents: number): Promise<string> {
  const usage = { provider: 'other', model: 'demo', cost_usd: cents / 100 }
  await callTool(socket, 'log_external_cost', usage)
  return `${cents} ${cents === 1 ? 'cent' : 'cents'} spent. It counts against the budget of the day.`
}

/** Returns no reply: the other folder answers in the chat. */
async function delegate(socket: SocketClient, task: DemoTask, named: string, prompt: string): Promise<undefined> {
  const isOwn = tierOf(task.folder) === 0 || named.startsWith(`${task.folder}/`)
  const group = isOwn ? named : `${task.folder}/${named}`
  await callTool(socket, 'delegate_group', { group, prompt, chatJid: task.jid })
  await socket.request('submit_status', { turn_id: task.turn.id, text: `I have asked ${group}` })
}

function describeMessage({ folder, sender }: DemoTask, text: string): string {
  const letters = [...text]
  const quoted = letters.length > QUOTED_MAX ? `${letters.slice(0, QUOTED_MAX).join('')} …` : text
  const size = Buffer.byteLength(text)
  return [
    `This is the demo of \`${folder}\`: no model is set up, so I can only repeat your message. The operator sets one with \`svc model\`.`,
    '',
    `> ${quoted.split('\n').join('\n> ')}`,
    '',
    `That was ${size} ${size === 1 ? 'byte' : 'bytes'} from \`${sender}\`, saved before it was acknowledged.`,
    'Say `help` to see what else I can do.',
  ].join('\n')
}

function describeFiles(text: string, files: readonly TurnFile[]): string {
  const lines = files.map(({ name, type, size, transcript }) => {
    const said = transcript === undefined ? '' : `: ${shorten(transcript)}`
    // A backquote would end the code span.
    return `- \`${name.replaceAll('`', "'")}\` (${type}, ${size} ${size === 1 ? 'byte' : 'bytes'})${said}`
  })
  const quoted = text === '' ? [] : [`> ${shorten(text).split('\n').join('\n> ')}`, '']
  return [...quoted, `I got ${files.length === 1 ? 'a file' : `${files.length} files`}:`, ...lines].join('\n')
}

type Row = Readonly<Record<string, unknown>>

/** Returns the JSON result of a tool as an object; throws a refusal as a reply. */
async function callTool(socket: SocketClient, tool: string, args: Row): Promise<Row> {
  let answer: ToolCallResult
  try {
    answer = await socket.call(tool, args)
  } catch (error) {
    if (!(error instanceof RpcFault)) throw error
    throw new RefusedToolCall(`I cannot do that here: I have no tool \`${tool}\` (${error.message}).`)
  }
  if (answer.isError) throw new RefusedToolCall(`I called \`${tool}\` and was refused: ${answer.text}`)
  try {
    const result: unknown = JSON.parse(answer.text)
    if (Array.isArray(result)) return { rows: result }
    return typeof result === 'object' && result !== null ? { ...result } : {}
  } catch {
    return {}
  }
}

/** The first list in a result. */
function findRows(answer: Row): readonly Row[] {
  const list = Object.values(answer).find(Array.isArray)
  return (list ?? []).filter((row) => typeof row === 'object' && row !== null)
}

function shorten(value: unknown): string {
  const text = String(value ?? '').replace(/\s+/g, ' ')
  return text.length > 120 ? `${text.slice(0, 120)} …` : text
}
