// The questions of `svc model` on a terminal.
import { cell } from '../../lib/command-line/print.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { ANTHROPIC_PUBLIC_URL, OPENAI_PUBLIC_URL } from '../../runtimes/settings.ts'
import type { SvcContext } from '../command.ts'
import { detectServers, LOCAL_SERVERS, listModels, similarNames } from './model-api.ts'
import type { ModelConfig } from './model-config.ts'
import { findProgram, isLoopback } from './model-faults.ts'
import { isSameEndpoint, type ModelAnswers, readBaseUrl, readKey } from './model-selection.ts'

export interface Prompter {
  /** Shows what is typed. */
  prompt(question: string): Promise<string>
  /** Does not. */
  promptHidden(question: string): Promise<string>
  say(line: string): void
}

/** The questions of this terminal; nothing where there is none. */
export function terminalPrompter({ io, print }: SvcContext): Prompter | undefined {
  const { prompt, promptHidden: ask } = io
  return prompt && ask ? { prompt, promptHidden: ask, say: print.say } : undefined
}

interface ModelOption {
  readonly name: string
  readonly note: string
  answer(): Promise<ModelAnswers>
}

const OPENROUTER_URL = 'https://openrouter.ai/api/v1'
const TRIES = 3
const SHOWN_MAX = 20

/** `current` answers what a runtime uses now, so that a key which is set need not be typed again. */
export async function promptForModel(
  questions: Prompter,
  current: (runtime: 'openai' | 'claude') => Promise<ModelConfig>,
): Promise<ModelAnswers> {
  const { say } = questions
  const [found, openai, claude] = await Promise.all([detectServers(), current('openai'), current('claude')])
  const endpoint = (name: string, baseUrl: string, note: string): ModelOption => ({
    name,
    note,
    answer: () => promptForEndpoint(questions, baseUrl, openai),
  })
  const program = claude.program ?? 'claude'
  const kinds: readonly ModelOption[] = [
    ...LOCAL_SERVERS.map(({ name, baseUrl }) => {
      const models = found.get(baseUrl)
      return endpoint(name, baseUrl, `${baseUrl}${models ? `  ✓ found, ${formatModelCount(models.length)}` : ''}`)
    }),
    endpoint('OpenAI', OPENAI_PUBLIC_URL, 'needs a key'),
    endpoint('OpenRouter', OPENROUTER_URL, 'needs a key'),
    {
      name: 'Claude Code',
      note:
        findProgram(program) === undefined
          ? `the program ${program} is not installed`
          : `✓ found ${program}, needs a key`,
      answer: () => promptForClaude(questions, claude),
    },
    {
      name: 'another URL',
      note: "any endpoint that speaks OpenAI's protocol",
      answer: async () => promptForEndpoint(questions, await retryPrompt(questions, promptForUrl), openai),
    },
    {
      name: 'your own program',
      note: 'the prompt on stdin, its stdout is the answer',
      answer: () => promptForCommand(questions),
    },
    { name: 'the built-in demo', note: 'no model', answer: async () => ({ runtime: 'demo' }) },
  ]
  const width = Math.max(...kinds.map(({ name }) => name.length))
  for (const [at, { name, note }] of kinds.entries())
    say(`  ${String(at + 1).padStart(2)}  ${name.padEnd(width)}  ${note}`)
  const kind = await retryPrompt(questions, async () => {
    const typed = (await questions.prompt('Which one? (a number)')).trim()
    return kinds[Number(typed) - 1] ?? refuse('invalid', `type a number from 1 to ${kinds.length}`)
  })
  return kind.answer()
}

function formatModelCount(models: number): string {
  return models === 1 ? '1 model' : `${models} models`
}

/** Says what is wrong with an answer, and asks again. */
async function retryPrompt<T>(questions: Prompter, ask: (questions: Prompter) => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await ask(questions)
    } catch (error) {
      const isWrongAnswer = error instanceof Refusal && (error.code === 'invalid' || error.code === 'unauthenticated')
      if (!isWrongAnswer || error.message.startsWith('stopped') || attempt === TRIES) throw error
      questions.say(error.message)
    }
  }
}

async function promptForUrl({ prompt }: Prompter): Promise<string> {
  return readBaseUrl(await prompt('Base URL (such as https://host/v1)'))
}

async function promptForEndpoint(questions: Prompter, baseUrl: string, current: ModelConfig): Promise<ModelAnswers> {
  const kept = isSameEndpoint(baseUrl, current.endpoint) ? current.key : undefined
  // A server on this machine mostly wants no key.
  const open = isLoopback(baseUrl) ? await listWithoutKey(questions, baseUrl) : undefined
  if (open) return { runtime: 'openai', baseUrl, model: await chooseModel(questions, open) }
  const [key, models] = await retryPrompt(questions, async () => {
    const key = await promptForKey(questions, 'Key', kept !== undefined)
    return [key, await listOrReport(questions, { baseUrl, key: key ?? kept })] as const
  })
  return { runtime: 'openai', baseUrl, key, model: await chooseModel(questions, models) }
}

/** Undefined where it wants a key. */
async function listWithoutKey(questions: Prompter, baseUrl: string): Promise<readonly string[] | undefined> {
  try {
    return await listOrReport(questions, { baseUrl })
  } catch (error) {
    if (error instanceof Refusal && error.code === 'unauthenticated') return undefined
    throw error
  }
}

async function promptForKey(
  { promptHidden: ask }: Prompter,
  what: string,
  isSet: boolean,
): Promise<string | undefined> {
  const typed = await ask(isSet ? `${what} (Enter keeps the one that is set)` : `${what} (it is not shown)`)
  return isSet && typed.trim() === '' ? undefined : readKey(typed)
}

/** None where the endpoint does not list its models: the name is typed then. */
async function listOrReport({ say }: Prompter, endpoint: Parameters<typeof listModels>[0]): Promise<readonly string[]> {
  try {
    return await listModels(endpoint)
  } catch (error) {
    if (!(error instanceof Refusal) || error.code !== 'unprocessable') throw error
    say(error.message)
    return []
  }
}

/** A number picks, a name or a part of one narrows, and a name that is not listed can be used as well. */
async function chooseModel(questions: Prompter, models: readonly string[]): Promise<string> {
  const { say, prompt } = questions
  let shown = models
  for (;;) {
    for (const [at, name] of shown.slice(0, SHOWN_MAX).entries()) say(`  ${String(at + 1).padStart(2)}  ${cell(name)}`)
    if (shown.length > SHOWN_MAX) say(`      and ${shown.length - SHOWN_MAX} more: type a part of the name`)
    const typed = (await prompt(models.length > 0 ? 'Model (a number, a name or a part of it)' : 'Model')).trim()
    if (typed === '') continue
    const picked = /^\d+$/.test(typed) ? shown[Number(typed) - 1] : models.find((name) => name === typed)
    if (picked !== undefined) return picked
    const narrowed = models.filter((name) => name.toLowerCase().includes(typed.toLowerCase()))
    const [only] = narrowed
    if (narrowed.length === 1 && only !== undefined) {
      say(`→ ${cell(only)}`)
      return only
    }
    if (narrowed.length > 1) shown = narrowed
    else if (models.length === 0 || (await confirmUnlisted(questions, typed, models))) return typed
    else shown = models
  }
}

async function confirmUnlisted({ say, prompt }: Prompter, name: string, models: readonly string[]): Promise<boolean> {
  const near = similarNames(name, models)
  say(`No model ${cell(name)} is listed${near.length > 0 ? `; near: ${near.map(cell).join(', ')}` : ''}.`)
  return /^y(es)?$/i.test((await prompt('Use this name anyway? [y/N]')).trim())
}

async function promptForClaude(questions: Prompter, current: ModelConfig): Promise<ModelAnswers> {
  const baseUrl = current.endpoint ?? ANTHROPIC_PUBLIC_URL
  const key = await retryPrompt(questions, () =>
    promptForKey(questions, 'Key of an account, or token of claude setup-token', current.key !== undefined),
  )
  const model = (await questions.prompt('Model (Enter for the default of Claude Code)')).trim()
  return { runtime: 'claude', baseUrl, key, model }
}

async function promptForCommand(questions: Prompter): Promise<ModelAnswers> {
  const command = await retryPrompt(questions, async ({ prompt }) => {
    const typed = (await prompt('Program, as a shell runs it in the workspace')).trim()
    return typed || refuse('invalid', 'type a command such as ./agent.py --brief')
  })
  return { runtime: 'command', command }
}
