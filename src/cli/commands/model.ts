// Sets, shows and tests the model of an instance or a folder.

import type { ModelTestResult } from '../../daemons/models/model-api.ts'
import { changeModel, readCurrentModel } from '../../daemons/models/model-change.ts'
import { describeModel, formatModelCommand, hasEndpoint, type ModelConfig } from '../../daemons/models/model-config.ts'
import { findModelFaults } from '../../daemons/models/model-faults.ts'
import { type ModelAnswers, readKey } from '../../daemons/models/model-selection.ts'
import { listIdleCaps, suggestPriceCommand } from '../../daemons/models/shared-models.ts'
import { throwUsageError } from '../../lib/command-line/program.ts'
import { describePrice } from '../../runtimes/model-prices.ts'
import type { RuntimeName } from '../../runtimes/settings.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import { readStdinText } from '../input/stdin.ts'
import { promptForModel, terminalPrompter } from '../model/model-prompts.ts'

const KEY_MAX_BYTES = 65_536

export const modelCommands = [
  defineSvcCommand({
    usage:
      'model <instance> [<folder>] [--runtime <name>] [--base-url <url>] [--model <name>] [--key <source>] [--command <program>] [--price <dollars>] [--no-test] [--json]',
    about:
      'set the model of the instance or of one folder after a successful test call; prompts on a terminal; --key - reads the key from stdin; --price is per million tokens as 1.25/0.125/10 (input, cached input, output), free or unknown',
    example: 'model demo --runtime openai --base-url http://127.0.0.1:11434/v1 --model qwen3',
    run: async (svc, { folder, noTest, key, json: _, ...flags }) => {
      const answers = await readAnswers(svc, { ...flags, key }, folder)
      await setModel(svc, folder, answers, !noTest)
    },
  }),
  defineSvcCommand({
    usage: 'model <instance> show [--json]',
    about: 'show runtime, endpoint and model of the instance and where each is set, but never the key',
    example: 'model demo show',
    run: async (svc) => showModel(svc, await readModel(svc)),
  }),
  defineSvcCommand({
    usage: 'model <instance> test [--json]',
    about: 'make one real call with the model of the instance and print the answer and the time',
    example: 'model demo test',
    run: async (svc) => showTest(svc, await readModel(svc)),
  }),
  defineSvcCommand({
    usage: 'model <instance> <folder> show [--json]',
    about: 'show the model that the runs of a folder use',
    example: 'model demo main show',
    run: async (svc, { folder }) => showModel(svc, await readModel(svc, folder)),
  }),
  defineSvcCommand({
    usage: 'model <instance> <folder> test [--json]',
    about: 'make one real call with the model that the runs of a folder use',
    example: 'model demo main test',
    run: async (svc, { folder }) => showTest(svc, await readModel(svc, folder)),
  }),
]

async function readModel(svc: SvcContext, folder?: string, runtime?: RuntimeName): Promise<ModelConfig> {
  const { host, sources } = await svc.open()
  return readCurrentModel({ host, sources, folder }, runtime)
}

interface ModelFlags extends Omit<ModelAnswers, 'key'> {
  readonly instance: string
  /** Only `-`, which means stdin. */
  readonly key?: string | undefined
}

/** Uses the flags if there are any, else prompts. */
async function readAnswers(svc: SvcContext, flags: ModelFlags, folder: string | undefined): Promise<ModelAnswers> {
  const { instance, key, ...answers } = flags
  if (key !== undefined && key !== '-')
    throwUsageError('a key on the command line would stay in the shell history: --key - reads it from stdin')
  if (key !== undefined) return { ...answers, key: readKey(await readStdinText(svc.io.stdin, KEY_MAX_BYTES)) }
  if (Object.values(answers).some((value) => value !== undefined)) return answers
  const prompter = terminalPrompter(svc)
  const target = `${instance}${folder === undefined ? '' : ` ${folder}`}`
  if (!prompter || svc.print.json)
    throwUsageError(
      'nothing to set: prompts need a terminal, so pass flags instead',
      `svc model ${target} --runtime openai --base-url http://127.0.0.1:11434/v1 --model <name>, with --key - if the endpoint requires a key`,
    )
  await readModel(svc, folder)
  prompter.say(`Which model ${folder === undefined ? `do the agents of ${instance} use` : `does ${folder} use`}?\n`)
  return promptForModel(prompter, (runtime) => readModel(svc, folder, runtime))
}

async function setModel(
  svc: SvcContext,
  folder: string | undefined,
  answers: ModelAnswers,
  isTested: boolean,
): Promise<void> {
  const { host, sources, layout } = await svc.open()
  const access = { host, sources, layout, folder, call: svc.call, isOperator: true }
  const test = (config: ModelConfig): Promise<ModelTestResult> => callWithNotice(svc, config)
  const { after, tested, written } = await changeModel(access, answers, isTested ? test : undefined)
  if (svc.print.json) return svc.print.record({}, { ...toModelRecord(after), written, ...tested })
  if (tested) printTested(svc, after, tested)
  svc.print.line(`set ${describeModel(after)} for ${folder ?? 'the instance'}: ${written}`)
  if (after.price) svc.print.line(`price: ${describePrice(after.price)}`)
  if (after.price?.kind === 'unknown')
    svc.print.warn(
      `no price is known for ${describeModel(after)}, so its turns count no cost and no cap limits them; ${suggestPriceCommand(host.instance, folder)}`,
    )
  svc.print.line('A running instance uses it from the next turn on.')
}

/** Prints a notice on a terminal, because a server may have to load the model first. */
async function callWithNotice(svc: SvcContext, config: ModelConfig): Promise<ModelTestResult> {
  const { host, layout } = await svc.open()
  const { testModel } = await import('../../daemons/models/test-call.ts')
  if (svc.io.stderr.isTerminal) svc.print.say(`calling ${describeModel(config)} …`)
  return testModel(host, layout, config)
}

async function showTest(svc: SvcContext, config: ModelConfig): Promise<void> {
  for (const warning of config.warnings) svc.print.warn(warning)
  const tested = await callWithNotice(svc, config)
  if (svc.print.json) svc.print.record({}, { ...toModelRecord(config), ...tested })
  else printTested(svc, config, tested)
}

function printTested({ print }: SvcContext, config: ModelConfig, { answer, ms }: ModelTestResult): void {
  print.record({ [`${describeModel(config)} answered in ${(ms / 1000).toFixed(1)} s`]: answer }, undefined)
}

async function showModel(svc: SvcContext, config: ModelConfig): Promise<void> {
  const { layout } = await svc.open()
  for (const warning of config.warnings) svc.print.warn(warning)
  const { groupDirs } = await import('../../core/layout.ts')
  const faults = findModelFaults(config, groupDirs(layout, config.folder ?? 'main').home)
  const { runtime, runtimeFrom, endpoint, endpointFrom, model, modelFrom, program, command, commandFrom, price } =
    config
  const uncounted = price?.kind === 'unknown' ? await describeIdleCaps(svc, config) : undefined
  const line = (value: string | undefined, from: string | undefined): string =>
    value === undefined ? 'not set' : `${value} (${from})`
  svc.print.record(
    {
      runtime: line(runtime, runtimeFrom),
      ...(program === undefined ? {} : { program }),
      ...(hasEndpoint(runtime)
        ? { endpoint: line(endpoint, endpointFrom), model: line(model, modelFrom), key: describeKeyState(config) }
        : {}),
      ...(price === undefined ? {} : { price: describePrice(price) }),
      ...(runtime === 'command'
        ? { command: line(command === undefined ? undefined : formatModelCommand(command), commandFrom) }
        : {}),
      ...(faults.length > 0 ? { missing: faults.join('; ') } : {}),
      ...(uncounted === undefined ? {} : { 'not counted': uncounted }),
    },
    { ...toModelRecord(config), runtime_from: runtimeFrom, endpoint_from: endpointFrom, model_from: modelFrom, faults },
  )
}

/** What follows from an unknown price. */
async function describeIdleCaps(svc: SvcContext, { folder }: ModelConfig): Promise<string> {
  const { host, sources } = await svc.open()
  const caps = await host.engine.read((tx) => listIdleCaps(tx, { keyring: host.keyring, sources }, folder))
  const whose =
    caps.length === 0 ? 'no cap would limit its turns' : `the caps of ${caps.join(', ')} do not limit its turns`
  return `${whose}; ${suggestPriceCommand(host.instance, folder)}`
}

function describeKeyState({ key }: ModelConfig): string {
  return key === undefined ? 'not set' : 'set'
}

function toModelRecord(config: ModelConfig): object {
  const { folder, runtime, endpoint, model, program, command } = config
  const key = hasEndpoint(runtime) ? { key: describeKeyState(config) } : {}
  const price = config.price && { price: describePrice(config.price) }
  return { folder, runtime, endpoint, model, program, command, ...key, ...price }
}
