// The model of the instance or of a folder: what is in force, a test call, and forms to connect another one.
import { groupDirs } from '../../core/layout.ts'
import { Refusal, refuse, TransientRefusal } from '../../lib/refusal.ts'
import { groupsResource } from '../../resources/groups.ts'
import { modelKeysResource } from '../../resources/model-keys.ts'
import { describePrice, writePrice } from '../../runtimes/model-prices.ts'
import { PRICES_DATE } from '../../runtimes/price-table.ts'
import { ANTHROPIC_PUBLIC_URL, OPENAI_PUBLIC_URL } from '../../runtimes/settings.ts'
import { renderDetails } from '../../web/dash/detail-pane.ts'
import type { FormField } from '../../web/dash/form.ts'
import { badge, link, notice, section, visibleText } from '../../web/dash/parts.ts'
import { EMPTY_HTML, type Html, html } from '../../web/html.ts'
import type { FormFields } from '../http/form-request.ts'
import { LOCAL_SERVERS, type ModelTestResult } from '../models/model-api.ts'
import { changeModel, type ModelAccess, readCurrentModel } from '../models/model-change.ts'
import { describeModel, formatModelCommand, hasEndpoint, type ModelConfig } from '../models/model-config.ts'
import { findModelFaults } from '../models/model-faults.ts'
import { isSameEndpoint, type ModelAnswers } from '../models/model-selection.ts'
import { listIdleCaps } from '../models/shared-models.ts'
import type { CustomAction, PageView } from './page.ts'

/** A person waits for the page meanwhile, and proxies in front commonly wait for 60 s. */
const TEST_TIMEOUT_MS = 55_000

interface ModelKind {
  readonly title: string
  readonly about: string
  readonly runtime: 'openai' | 'claude' | 'command' | 'demo'
  readonly baseUrl?: string
  readonly needsKey?: true
  /** Whether the provider or the program reports what calls cost. */
  readonly reportsCost?: true
}

/** Ways to connect a model, by the name in the URL. */
const KINDS: Readonly<Record<string, ModelKind>> = {
  openai: { title: 'OpenAI', about: 'needs an API key', runtime: 'openai', baseUrl: OPENAI_PUBLIC_URL, needsKey: true },
  openrouter: {
    title: 'OpenRouter',
    about: 'many providers with one key',
    runtime: 'openai',
    baseUrl: 'https://openrouter.ai/api/v1',
    needsKey: true,
    reportsCost: true,
  },
  claude: {
    title: 'Claude Code',
    about: 'needs the program claude on the server, and a key or token',
    runtime: 'claude',
    baseUrl: ANTHROPIC_PUBLIC_URL,
    reportsCost: true,
  },
  local: {
    title: 'A model on this server',
    about: LOCAL_SERVERS.map(({ name }) => name).join(', '),
    runtime: 'openai',
    baseUrl: LOCAL_SERVERS[0].baseUrl,
  },
  other: { title: 'Another address', about: "any endpoint that speaks OpenAI's protocol", runtime: 'openai' },
  command: { title: 'Your own program', about: 'reads the prompt, prints the answer', runtime: 'command' },
  demo: { title: 'The built-in demo', about: 'no model; answers show that messages arrive', runtime: 'demo' },
}

/** The actions of a page with this section. */
export const modelActions = {
  test_model: {
    run: async (view) => {
      const access = await openAccess(view)
      const config = await readCurrentModel(access)
      return { done: describeTest(config, await testModelOf(access, config)) }
    },
  },
  set_model: {
    run: async (view, fields) => {
      const access = await openAccess(view)
      const current = await readCurrentModel(access)
      const answers = keepEndpoint(readAnswers(fields), current)
      // Before the test: it already runs the program that is typed here.
      if (answers.runtime !== current.runtime || answers.command !== undefined)
        await view.call(modelKeysResource.verbs.list, {})
      const isTested = canTest(view) && fields.get('untested') !== 'true'
      const test = isTested ? (config: ModelConfig) => testModelOf(access, config) : undefined
      const { after, tested } = await withoutFlagNames(() =>
        changeModel({ ...access, needsPrice: true }, answers, test),
      )
      const price = after.price ? ` Price: ${describePrice(after.price)}.` : ''
      const saved = `Saved: ${describeModel(after)}.${price} Agents use it from the next turn on.`
      return { to: view.url({ kind: undefined }), done: tested ? `${describeTest(after, tested)} ${saved}` : saved }
    },
  },
} as const satisfies Record<string, CustomAction>

/** Refuses people who may not see the model. */
async function openAccess(view: PageView): Promise<ModelAccess> {
  const { host, daemon, params } = view
  const { folder } = params
  if (folder === undefined) await view.call(modelKeysResource.verbs.list, {})
  else await view.call(groupsResource.verbs.show, { folder })
  const layout = host.layout ?? refuse('unavailable', 'this process has no files of the instance')
  return {
    host,
    layout,
    sources: await daemon.currentSources(),
    folder,
    call: view.call,
    keepsRuntime: true,
    isOperator: view.isOperator,
  }
}

/** In a container of its own the dashboard reaches no model. */
function canTest({ daemon }: PageView): boolean {
  return daemon.peers.isLocal('runed')
}

/** Whether agents of this process answer with the built-in demo, as far as this person may know. */
export async function usesDemoModel({ host, daemon, isOperator }: PageView): Promise<boolean> {
  if (!isOperator || !daemon.peers.isLocal('runed')) return false
  return (await readCurrentModel({ host, sources: await daemon.currentSources() })).runtime === 'demo'
}

async function testModelOf({ host, layout }: ModelAccess, config: ModelConfig): Promise<ModelTestResult> {
  // Loaded on demand: it starts cells and a proxy.
  const { testModel } = await import('../models/test-call.ts')
  try {
    return await testModel(host, layout, config, TEST_TIMEOUT_MS)
  } catch (error) {
    if (!(error instanceof Refusal) || error instanceof TransientRefusal || error.code !== 'unavailable') throw error
    // Not this service is unavailable but the model, and the person wants to know why.
    throw new Refusal('unprocessable', error.message, error.hint ?? 'nothing was changed')
  }
}

function describeTest(config: ModelConfig, { answer, ms }: ModelTestResult): string {
  return `${describeModel(config)} answered in ${(ms / 1000).toFixed(1)} s: ${visibleText(answer)}`
}

function readAnswers(fields: FormFields): ModelAnswers & { readonly runtime: string } {
  const typed = (name: string): string | undefined => fields.get(name)?.trim() || undefined
  const kind = KINDS[fields.get('kind') ?? ''] ?? refuse('invalid', 'choose what to connect')
  if (kind.runtime === 'command')
    return { runtime: 'command', command: typed('command') ?? refuse('invalid', 'command must not be empty') }
  if (kind.runtime === 'demo') return { runtime: 'demo' }
  const model = typed('model')
  if (kind.runtime === 'openai' && model === undefined)
    refuse('invalid', 'model must not be empty', 'the provider lists its models')
  return { runtime: kind.runtime, baseUrl: typed('base_url'), model, key: typed('key'), price: typed('price') }
}

/** An unchanged endpoint without a new key stays as it is, with its key, also if a folder inherits it. */
function keepEndpoint<A extends ModelAnswers>(answers: A, current: ModelConfig): A {
  const { baseUrl, key, price } = answers
  const { runtime, endpoint, folder, endpointOwner, statedPrice } = current
  if (key !== undefined || answers.runtime !== runtime || !isSameEndpoint(baseUrl ?? '', endpoint)) return answers
  if (folder === undefined || endpointOwner === folder) return { ...answers, baseUrl: undefined }
  // The form shows the price that is inherited with the endpoint.
  const isInherited = price === undefined || (statedPrice && price === writePrice(statedPrice.price))
  return isInherited ? { ...answers, baseUrl: undefined, price: undefined } : answers
}

/** Hints for the command line do not help here. */
async function withoutFlagNames<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof Refusal) || !`${error.message} ${error.hint}`.includes('--key')) throw error
    const { code, message } = error
    const flagged = message.lastIndexOf(';', message.indexOf('--key'))
    const plain = flagged > 0 ? message.slice(0, flagged) : message
    throw new Refusal(code === 'unauthenticated' ? 'unprocessable' : code, plain, 'check the key')
  }
}

export async function renderModelSection(view: PageView): Promise<Html> {
  const access = await openAccess(view)
  const { folder, layout } = access
  const config = await readCurrentModel(access)
  const faults = [...config.warnings, ...findModelFaults(config, groupDirs(layout, folder ?? 'main').home)]
  const state = renderDetails({
    Runtime: `${config.runtime} (${config.runtimeFrom})`,
    Program: config.program,
    Command: config.command === undefined ? undefined : formatModelCommand(config.command),
    ...(hasEndpoint(config.runtime)
      ? {
          Endpoint: `${config.endpoint} (${config.endpointFrom})`,
          Model: config.model === undefined ? 'not set' : `${config.model} (${config.modelFrom})`,
          Key: config.key === undefined ? badge('not set') : badge('set', 'ok'),
          Price: config.price && describePrice(config.price),
        }
      : {}),
  })
  const missing = [...faults, ...(await describeUncounted(access, config))].map((fault) =>
    notice('warn', visibleText(fault)),
  )
  const isTestable = config.runtime !== 'demo' && canTest(view)
  const test = isTestable ? view.button({ action: 'test_model', text: 'Test' }) : EMPTY_HTML
  const command = view.inTerminal(`svc model ${view.host.instance}${folder === undefined ? '' : ` ${folder}`}`)
  const change = await renderChange(view, config)
  const introduction =
    config.runtime === 'demo'
      ? html`<p>Agents answer with the built-in demo. Connect a model to get real answers.</p>`
      : EMPTY_HTML
  return html`${section('model', folder === undefined ? 'Current model' : 'Model', html`${introduction}${missing}${state}`, test)}${change}${command}`
}

/** Says that caps do not work for a model without a price. */
async function describeUncounted({ host, sources, folder }: ModelAccess, config: ModelConfig): Promise<string[]> {
  if (config.price?.kind !== 'unknown') return []
  const query = { keyring: host.keyring, sources }
  const caps = await host.engine.read((tx) => listIdleCaps(tx, query, folder))
  const whose =
    caps.length === 0 ? 'no cap would limit its turns' : `the caps of ${caps.join(', ')} do not limit its turns`
  return [`No price is known for ${describeModel(config)}, so ${whose}. Connect it again with its price, or as free.`]
}

async function renderChange(view: PageView, config: ModelConfig): Promise<Html> {
  const mayChangeRuntime = await view.may(modelKeysResource.verbs.list, {})
  const kinds = Object.entries(KINDS).filter(
    ([name, { runtime }]) =>
      mayChangeRuntime || (runtime === config.runtime && hasEndpoint(runtime) && name !== 'local'),
  )
  if (kinds.length === 0) return html`<p class="muted">Only operators of this server can choose another runtime.</p>`
  const chosen = view.query.kind ?? ''
  const kind = kinds.find(([name]) => name === chosen)?.[1]
  const links = kinds.map(([name, { title, about }]) => {
    const current = name === chosen ? html` aria-current="true"` : EMPTY_HTML
    return html`<li${current}>${link(view.url({ kind: name }), title)} <span class="muted">${about}</span></li>`
  })
  const form = kind === undefined ? EMPTY_HTML : renderKindForm(view, chosen, kind, config)
  return section(
    'connect',
    config.runtime === 'demo' ? 'Connect a model' : 'Connect another model',
    html`<ul class="choices">${links}</ul>${form}`,
  )
}

function renderKindForm(view: PageView, name: string, kind: ModelKind, config: ModelConfig): Html {
  const fields = [
    ...fieldsOfKind(name, kind, config),
    ...(kind.runtime === 'demo' || !canTest(view)
      ? []
      : [{ name: 'untested', label: 'Save without a test call', kind: 'checkbox' } as const]),
  ]
  const submit = kind.runtime === 'demo' ? 'Use the demo' : canTest(view) ? 'Test and save' : 'Save'
  return html`<h3>${kind.title}</h3>${view.form({ action: 'set_model', fields, submit, fixed: { kind: name } })}`
}

function fieldsOfKind(name: string, kind: ModelKind, config: ModelConfig): FormField[] {
  if (kind.runtime === 'demo') return []
  if (kind.runtime === 'command')
    return [{ name: 'command', label: 'Shell command', isRequired: true, hint: 'Run in the workspace of the folder.' }]
  const isCurrent = kind.runtime === config.runtime
  const baseUrl = kind.baseUrl ?? (isCurrent ? config.endpoint : '')
  const suggestions = name === 'local' ? LOCAL_SERVERS.map((server) => server.baseUrl) : []
  const hasKey = isCurrent && config.key !== undefined && config.endpoint === baseUrl
  return [
    {
      name: 'base_url',
      inputNames: ['base URL'],
      label: 'Base URL',
      isRequired: true,
      value: baseUrl,
      suggestions,
      placeholder: 'https://host/v1',
    },
    {
      name: 'key',
      label: 'Key',
      kind: 'password',
      isRequired: kind.needsKey === true && !hasKey,
      hint: hasKey ? 'Empty keeps the current key.' : 'Stored encrypted and never shown again.',
    },
    {
      name: 'model',
      label: 'Model',
      isRequired: kind.runtime === 'openai',
      value: isCurrent && config.endpoint === baseUrl ? config.model : '',
      hint: kind.runtime === 'claude' ? 'Empty for the default of Claude Code.' : 'Its name at the provider.',
    },
    ...(kind.reportsCost ? [] : [priceField(config, isCurrent && config.endpoint === baseUrl)]),
  ]
}

function priceField({ statedPrice }: ModelConfig, isCurrent: boolean): FormField {
  return {
    name: 'price',
    label: 'Price',
    value: isCurrent && statedPrice ? writePrice(statedPrice.price) : '',
    suggestions: ['free'],
    placeholder: '1.25/0.125/10',
    hint: `Dollars per million tokens: input/cached input/output; "free" for a model on your own machine. Empty for well-known models (prices of ${PRICES_DATE}); "unknown" counts no cost.`,
  }
}
