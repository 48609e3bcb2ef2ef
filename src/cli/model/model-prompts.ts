// The prompts of `svc model` on a terminal.

import { detectServers, LOCAL_SERVERS, listModels, similarNames } from '../../daemons/models/model-api.ts'
import { findModelPrice, type ModelConfig } from '../../daemons/models/model-config.ts'
import { findProgram, isLoopback } from '../../daemons/models/model-faults.ts'
import { isSameEndpoint, type ModelAnswers, readBaseUrl, readKey } from '../../daemons/models/model-selection.ts'
import { cell } from '../../lib/command-line/print.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { describePrice } from '../../runtimes/model-prices.ts'
import { ANTHROPIC_PUBLIC_URL, OPENAI_PUBLIC_URL, PRICE_RULE, parsePrice } from '../../runtimes/settings.ts'
import type { SvcContext } from '../command.ts'

interface Prompter {
  prompt(question: string): Promise<string>
  /** Without echo. */
  promptHidden(question: string): Promise<string>
  say(line: string): void
}

/** Undefined if stdin is not a terminal. */
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
const ATTEMPTS_MAX = 3
const SHOWN_MAX = 20

/** `readCurrent` returns the current configuration of a runtime, so that its key need not be typed again. */
export async function promptForModel(
  prompter: Prompter,
  readCurrent: (runtime: 'openai' | 'claude') => Promise<ModelConfig>,
): Promise<ModelAnswers> {
  const { say } = prompter
  const [found, openai, claude] = await Promise.all([detectServers(), readCurrent('openai'), readCurrent('claude')])
  const endpoint = (name: string, baseUrl: string, note: string): ModelOption => ({
    name,
    note,
    answer: () => promptForEndpoint(prompter, baseUrl, openai),
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
      answer: () => promptForClaude(prompter, claude),
    },
    {
      name: 'another URL',
      note: "any endpoint that speaks OpenAI's protocol",
      answer: async () => promptForEndpoint(prompter, await retryPrompt(prompter, promptForUrl), openai),
    },
    {
      name: 'your own program',
      note: 'reads the prompt from stdin, prints the answer',
      answer: () => promptForCommand(prompter),
    },
    { name: 'the built-in demo', note: 'no model', answer: async () => ({ runtime: 'demo' }) },
  ]
  const width = Math.max(...kinds.map(({ name }) => name.length))
  for (const [at, { name, note }] of kinds.entries())
    say(`  ${String(at + 1).padStart(2)}  ${name.padEnd(width)}  ${note}`)
  const kind = await retryPrompt(prompter, async () => {
    const typed = (await prompter.prompt('Which one? (a number)')).trim()
    return kinds[Number(typed) - 1] ?? refuse('invalid', `type a number from 1 to ${kinds.length}`)
  })
  return kind.answer()
}

function formatModelCount(models: number): string {
  return models === 1 ? '1 model' : `${models} models`
}

/** Prints what is wrong with an answer and prompts again. */
async function retryPrompt<T>(prompter: Prompter, prompt: (prompter: Prompter) => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await prompt(prompter)
    } catch (error) {
      const isWrongAnswer = error instanceof Refusal && (error.code === 'invalid' || error.code === 'unauthenticated')
      if (!isWrongAnswer || error.message.startsWith('stopped') || attempt === ATTEMPTS_MAX) throw error
      prompter.say(error.message)
    }
  }
}

async function promptForUrl({ prompt }: Prompter): Promise<string> {
  return readBaseUrl(await prompt('Base URL (such as https://host/v1)'))
}

async function promptForEndpoint(prompter: Prompter, baseUrl: string, current: ModelConfig): Promise<ModelAnswers> {
  const currentKey = isSameEndpoint(baseUrl, current.endpoint) ? current.key : undefined
  // Local servers usually need no key.
  const local = isLoopback(baseUrl) ? await listWithoutKey(prompter, baseUrl) : undefined
  const withPrice = async (answers: ModelAnswers & { readonly model: string }): Promise<ModelAnswers> => ({
    ...answers,
    price: await promptForPrice(prompter, baseUrl, answers.model, current),
  })
  if (local) return withPrice({ runtime: 'openai', baseUrl, model: await chooseModel(prompter, local) })
  const [key, models] = await retryPrompt(prompter, async () => {
    const key = await promptForKey(prompter, 'Key', currentKey !== undefined)
    return [key, await listOrReport(prompter, { baseUrl, key: key ?? currentKey })] as const
  })
  return withPrice({ runtime: 'openai', baseUrl, key, model: await chooseModel(prompter, models) })
}

/** Undefined if the price is known without an answer. */
async function promptForPrice(
  prompter: Prompter,
  baseUrl: string,
  model: string,
  { settings, endpoint, statedPrice }: ModelConfig,
): Promise<string | undefined> {
  const stated = isSameEndpoint(baseUrl, endpoint) ? statedPrice : undefined
  const known = findModelPrice(settings, baseUrl, model, stated)
  if (known && known.kind !== 'unknown') {
    prompter.say(`Price: ${describePrice(known)}`)
    return undefined
  }
  prompter.say(`No price is known for ${cell(model)}. Daily budgets count only what has a price.`)
  return retryPrompt(prompter, async ({ prompt }) => {
    const typed = (await prompt(PRICE_QUESTION)).trim() || 'unknown'
    const isRead = typed.toLowerCase() === 'unknown' || parsePrice(typed) !== undefined
    return isRead ? typed : refuse('invalid', `the price ${PRICE_RULE}`)
  })
}

const PRICE_QUESTION =
  'Dollars per million tokens (input/cached/output, such as 1.25/0.125/10), free (my own machine), or Enter if unknown'

/** Undefined if the endpoint requires a key. */
async function listWithoutKey(prompter: Prompter, baseUrl: string): Promise<readonly string[] | undefined> {
  try {
    return await listOrReport(prompter, { baseUrl })
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
  const typed = await ask(isSet ? `${what} (Enter keeps the current one)` : `${what} (not shown)`)
  return isSet && typed.trim() === '' ? undefined : readKey(typed)
}

/** Empty if the endpoint does not list its models; the operator then types the name. */
async function listOrReport({ say }: Prompter, endpoint: Parameters<typeof listModels>[0]): Promise<readonly string[]> {
  try {
    return await listModels(endpoint)
  } catch (error) {
    if (!(error instanceof Refusal) || error.code !== 'unprocessable') throw error
    say(error.message)
    return []
  }
}

/** A number or a name selects a model, a part of a name filters the list, and an unlisted name must be confirmed. */
async function chooseModel(prompter: Prompter, models: readonly string[]): Promise<string> {
  const { say, prompt } = prompter
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
    else if (models.length === 0 || (await confirmUnlisted(prompter, typed, models))) return typed
    else shown = models
  }
}

async function confirmUnlisted({ say, prompt }: Prompter, name: string, models: readonly string[]): Promise<boolean> {
  const near = similarNames(name, models)
  say(`${cell(name)} is not in the list${near.length > 0 ? `; similar: ${near.map(cell).join(', ')}` : ''}.`)
  return /^y(es)?$/i.test((await prompt('Use this name anyway? [y/N]')).trim())
}

async function promptForClaude(prompter: Prompter, current: ModelConfig): Promise<ModelAnswers> {
  const baseUrl = current.endpoint ?? ANTHROPIC_PUBLIC_URL
  const key = await retryPrompt(prompter, () =>
    promptForKey(prompter, 'API key, or token of claude setup-token', current.key !== undefined),
  )
  const model = (await prompter.prompt('Model (Enter for the default of Claude Code)')).trim()
  return { runtime: 'claude', baseUrl, key, model }
}

async function promptForCommand(prompter: Prompter): Promise<ModelAnswers> {
  const command = await retryPrompt(prompter, async ({ prompt }) => {
    const typed = (await prompt('Shell command, run in the workspace')).trim()
    return typed || refuse('invalid', 'type a command such as ./agent.py --brief')
  })
  return { runtime: 'command', command }
}
