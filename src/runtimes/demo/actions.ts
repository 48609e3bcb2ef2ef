// What the demo does for each phrase that it knows: one or two tools, and a sentence about how it went. What a tool refuses is
// told as well: that is how rules are felt.
import { tierOf } from '../../core/access/tiers.ts'
import { formatDuration } from '../../lib/text/duration.ts'
import { RpcFault, type SocketClient, type ToolCallResult } from '../socket-client.ts'
import { type DemoRequest, parsePhrase } from './phrases.ts'
import type { DemoTask } from './task.ts'

const SHOWN = 400
const FOUND_MAX = 5
const TOOLS_SHOWN = 60

const HELP = `I am the demo: I need no model and no key, and everything I do goes through the same tools as any agent. Try:

- \`remind me in 2m to drink water\` (a scheduled task), \`tasks\`
- \`find water\` (full-text search over what was said)
- \`links\`, \`hook github\` (URLs that others can post to)
- \`note buy milk\`, \`notes\` (my work file)
- \`who am I\` (folder, tier, tools)
- \`spend 5 cents\` (counts against the budget)
- \`ask <folder below me> <question>\` (delegates it)

\`svc model <instance>\` on the command line replaces me with a real model.

Lines such as \`/status thinking\`, \`/wait 1s\`, \`/say hello\`, \`/count 3\`, \`/tool list_tasks {}\` or \`/fail no\` are a script.`

/** What is to be said; nothing where somebody else will answer. */
export async function answerMessage(socket: SocketClient, task: DemoTask, said: string): Promise<string | undefined> {
  const ask = parsePhrase(said)
  try {
    return await answerOf(socket, task, ask)
  } catch (error) {
    if (error instanceof ToolRefused) return error.message
    throw error
  }
}

class ToolRefused extends Error {}

async function answerOf(socket: SocketClient, task: DemoTask, ask: DemoRequest): Promise<string | undefined> {
  switch (ask.ask) {
    case 'help':
      return HELP
    case 'reminder':
      return `⏰ ${ask.text}`
    case 'remind':
      return remind(socket, task, ask.ms, ask.text)
    case 'tasks':
      return listTasks(socket)
    case 'find':
      return find(socket, task, ask.text)
    case 'links':
      return listLinks(socket)
    case 'hook':
      return hook(socket, ask.text)
    case 'note':
      return note(socket, ask.text)
    case 'notes':
      return notes(socket)
    case 'who':
      return who(socket, task)
    case 'spend':
      return spend(socket, ask.cents)
    case 'delegate':
      return delegate(socket, task, ask.folder, ask.text)
    default:
      return talk(task, ask.text)
  }
}

async function remind(socket: SocketClient, { jid, now }: DemoTask, ms: number, text: string): Promise<string> {
  const cron = new Date(now + ms).toISOString()
  const { taskId } = await use(socket, 'schedule_task', { targetJid: jid, prompt: `Reminder: ${text}`, cron })
  return `I will remind you in ${formatDuration(ms)}, at ${cron}: ${text} (\`${String(taskId)}\`)`
}

async function listTasks(socket: SocketClient): Promise<string> {
  const tasks = rowsOf(await use(socket, 'list_tasks', {}))
  if (tasks.length === 0) return 'No task is scheduled.'
  const line = (task: Row): string =>
    `- \`${task.id}\` ${task.status ?? ''}${task.next_run ? `, next at ${task.next_run}` : ''}: ${brief(task.prompt)}`
  return [`${tasks.length === 1 ? 'One task' : `${tasks.length} tasks`}:`, ...tasks.slice(0, 20).map(line)].join('\n')
}

async function find(socket: SocketClient, { messages }: DemoTask, query: string): Promise<string> {
  const asked = new Set<unknown>(messages.map(({ id }) => id))
  const found = rowsOf(await use(socket, 'find_messages', { query, limit: FOUND_MAX + asked.size }))
  // Not the question itself.
  const others = found.filter(({ id }) => !asked.has(id)).slice(0, FOUND_MAX)
  if (others.length === 0) return `Nothing else that was said here fits \`${query}\`.`
  const line = ({ timestamp, sender, content }: Row): string => `- ${timestamp} \`${sender}\`: ${brief(content)}`
  return [`This fits \`${query}\`:`, ...others.map(line)].join('\n')
}

async function listLinks(socket: SocketClient): Promise<string> {
  const links = rowsOf(await use(socket, 'list_route_tokens', {}))
  if (links.length === 0) return 'I have handed out no links. `hook github` makes one.'
  return ['These links are handed out:', ...links.map((row) => `- \`${row.jid}\`, since ${row.created_at}`)].join('\n')
}

async function hook(socket: SocketClient, source: string): Promise<string> {
  const { url } = await use(socket, 'issue_webhook', { source_label: source })
  return `Whatever is posted to this URL reaches me as \`${source}\`. It is shown this once:\n\n${String(url)}`
}

async function note(socket: SocketClient, text: string): Promise<string> {
  const { content } = await use(socket, 'get_work', {})
  const before = typeof content === 'string' && content !== '' ? `${content.replace(/\n+$/, '')}\n` : ''
  await use(socket, 'set_work', { content: `${before}- ${text}\n` })
  return `Noted: ${text}`
}

async function notes(socket: SocketClient): Promise<string> {
  const { content } = await use(socket, 'get_work', {})
  return typeof content === 'string' && content.trim() !== '' ? content : 'Nothing is noted. `note buy milk` notes it.'
}

async function who(socket: SocketClient, task: DemoTask): Promise<string> {
  const names = (await socket.tools()).map(({ name }) => name).sort()
  const shown = names.slice(0, TOOLS_SHOWN).map((name) => `\`${name}\``)
  const rest = names.length > TOOLS_SHOWN ? ` and ${names.length - TOOLS_SHOWN} more` : ''
  const money = task.moneyCents === undefined ? 'no limit' : `${task.moneyCents} cents left`
  return [
    `You are \`${task.sender}\`, in the chat \`${task.jid}\`.`,
    `I am the demo of the folder \`${task.folder}\`, tier ${tierOf(task.folder)}; money: ${money}; session \`${task.session}\`.`,
    `I have ${names.length} tools: ${shown.join(', ')}${rest}.`,
  ].join('\n')
}

async function spend(socket: SocketClient, cents: number): Promise<string> {
  const usage = { provider: 'other', model: 'demo', cost_usd: cents / 100 }
  await use(socket, 'log_external_cost', usage)
  return `${cents} ${cents === 1 ? 'cent' : 'cents'} spent, on nothing at all. The day's budget knows of it.`
}

/** The answer comes from there: whoever says nothing leaves the question to them. */
async function delegate(socket: SocketClient, task: DemoTask, named: string, prompt: string): Promise<undefined> {
  const isOwn = tierOf(task.folder) === 0 || named.startsWith(`${task.folder}/`)
  const group = isOwn ? named : `${task.folder}/${named}`
  await use(socket, 'delegate_group', { group, prompt, chatJid: task.jid })
  await socket.request('submit_status', { turn_id: task.turn.id, text: `I have asked ${group}` })
}

function talk({ folder, sender }: DemoTask, text: string): string {
  const letters = [...text]
  const quoted = letters.length > SHOWN ? `${letters.slice(0, SHOWN).join('')} …` : text
  const size = Buffer.byteLength(text)
  return [
    `This is the demo of \`${folder}\`: no model is set up, so I can only tell what arrived. The operator sets one with \`svc model\`.`,
    '',
    `> ${quoted.split('\n').join('\n> ')}`,
    '',
    `That was ${size} ${size === 1 ? 'byte' : 'bytes'} from \`${sender}\`, recorded before it was acknowledged.`,
    'I can do a little more than that: say `help`.',
  ].join('\n')
}

type Row = Readonly<Record<string, unknown>>

/** What a tool answers, as an object; a refusal breaks off with a sentence. */
async function use(socket: SocketClient, tool: string, args: Row): Promise<Row> {
  let answer: ToolCallResult
  try {
    answer = await socket.call(tool, args)
  } catch (error) {
    if (!(error instanceof RpcFault)) throw error
    throw new ToolRefused(`I cannot do that here: I have no tool \`${tool}\` (${error.message}).`)
  }
  if (answer.isError) throw new ToolRefused(`I tried \`${tool}\`, and was refused: ${answer.text}`)
  try {
    const read: unknown = JSON.parse(answer.text)
    return typeof read === 'object' && read !== null ? { ...(Array.isArray(read) ? { rows: read } : read) } : {}
  } catch {
    return {}
  }
}

/** The first list in an answer. */
function rowsOf(answer: Row): readonly Row[] {
  const list = Object.values(answer).find(Array.isArray)
  return (list ?? []).filter((row) => typeof row === 'object' && row !== null)
}

function brief(value: unknown): string {
  const text = String(value ?? '').replace(/\s+/g, ' ')
  return text.length > 120 ? `${text.slice(0, 120)} …` : text
}
