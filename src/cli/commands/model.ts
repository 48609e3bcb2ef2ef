// The model of an instance or of one folder: set, shown and tested with a real call.
import { groups } from '../../core/groups/groups.ts'
import { throwUsageError } from '../../lib/command-line/program.ts'
import { refuse } from '../../lib/refusal.ts'
import type { RuntimeName } from '../../runtimes/settings.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import { readStdinText } from '../input/stdin.ts'
import type { ModelTestResult } from '../model/model-api.ts'
import { type ModelConfig, readModelConfig } from '../model/model-config.ts'
import { findModelFaults } from '../model/model-faults.ts'
import { promptForModel, terminalPrompter } from '../model/model-prompts.ts'
import { applyWantedModel, chooseRuntime, type ModelAnswers, readKey, resolveModel } from '../model/model-selection.ts'

const KEY_MAX_BYTES = 65_536

export const modelCommands = [
  defineSvcCommand({
    usage:
      'model <instance> [<folder>] [--runtime <name>] [--base-url <url>] [--model <name>] [--key <source>] [--command <program>] [--no-test] [--json]',
    about:
      'set the model of the instance, or of one folder, after a real call has succeeded; asks on a terminal; --key - reads the key from stdin',
    example: 'model demo --runtime openai --base-url http://127.0.0.1:11434/v1 --model qwen3',
    run: async (svc, { folder, noTest, key, json: _, ...flags }) => {
      const answers = await readAnswers(svc, { ...flags, key }, folder)
      await setModel(svc, folder, answers, !noTest)
    },
  }),
  defineSvcCommand({
    usage: 'model <instance> show [--json]',
    about: 'show runtime, endpoint and model of the instance and where each is set; a key only as set',
    example: 'model demo show',
    run: async (svc) => showModel(svc, await readCurrentModel(svc)),
  }),
  defineSvcCommand({
    usage: 'model <instance> test [--json]',
    about: 'make one real call with the model of the instance and show the answer and the time',
    example: 'model demo test',
    run: async (svc) => showTest(svc, await readCurrentModel(svc)),
  }),
  defineSvcCommand({
    usage: 'model <instance> <folder> show [--json]',
    about: 'show the model that runs of a folder use',
    example: 'model demo main show',
    run: async (svc, { folder }) => showModel(svc, await readCurrentModel(svc, folder)),
  }),
  defineSvcCommand({
    usage: 'model <instance> <folder> test [--json]',
    about: 'make one real call with the model that runs of a folder use',
    example: 'model demo main test',
    run: async (svc, { folder }) => showTest(svc, await readCurrentModel(svc, folder)),
  }),
]

async function readCurrentModel(svc: SvcContext, folder?: string, runtime?: RuntimeName): Promise<ModelConfig> {
  const { host, sources } = await svc.open()
  return host.engine.read(async (tx) => {
    if (folder !== undefined && !(await groups.find(tx, { folder }))) refuse('not_found', `there is no group ${folder}`)
    return readModelConfig(tx, { keyring: host.keyring, sources, folder, runtime })
  })
}

interface Flags extends Omit<ModelAnswers, 'key'> {
  readonly instance: string
  /** Where the key is to be read from. */
  readonly key?: string | undefined
}

/** By flags where there are some; else by questions. */
async function readAnswers(svc: SvcContext, flags: Flags, folder: string | undefined): Promise<ModelAnswers> {
  const { instance, key, ...answers } = flags
  if (key !== undefined && key !== '-')
    throwUsageError('a key on the command line stays in the history of the shell: --key - reads it from stdin')
  if (key !== undefined) return { ...answers, key: readKey(await readStdinText(svc.io.stdin, KEY_MAX_BYTES)) }
  if (Object.values(answers).some((value) => value !== undefined)) return answers
  const questions = terminalPrompter(svc)
  const place = `${instance}${folder === undefined ? '' : ` ${folder}`}`
  if (!questions || svc.print.json)
    throwUsageError(
      'nothing to set: questions need a terminal, so name the model by flags',
      `svc model ${place} --runtime openai --base-url http://127.0.0.1:11434/v1 --model <name>, with --key - where the endpoint wants a key`,
    )
  await readCurrentModel(svc, folder)
  questions.say(`Which model ${folder === undefined ? `do the agents of ${instance} use` : `does ${folder} use`}?\n`)
  return promptForModel(questions, (runtime) => readCurrentModel(svc, folder, runtime))
}

async function setModel(
  svc: SvcContext,
  folder: string | undefined,
  answers: ModelAnswers,
  isTested: boolean,
): Promise<void> {
  const runtime = chooseRuntime(answers, await readCurrentModel(svc, folder))
  const before = await readCurrentModel(svc, folder, runtime)
  const wanted = await resolveModel(runtime, answers, before)
  const after = applyWantedModel(before, wanted)
  const tested = isTested && runtime !== 'demo' ? await callWithNotice(svc, after) : undefined
  const { writeFolderModel, writeInstanceModel } = await import('../model/model-writer.ts')
  const written =
    folder === undefined
      ? await writeInstanceModel(svc, wanted)
      : await writeFolderModel(svc, folder, wanted, { config: before.config, kept: before.key })
  if (svc.print.json) return svc.print.record({}, { ...toModelRecord(after), written, ...tested })
  if (tested) printTested(svc, after, tested)
  svc.print.line(`set ${describeModel(after)} for ${folder ?? 'the instance'}: ${written}`)
  svc.print.line('A running svc serve uses it from the next turn on.')
}

/** Says what is going on: a model may have to be loaded first. */
async function callWithNotice(svc: SvcContext, config: ModelConfig): Promise<ModelTestResult> {
  const { host, layout } = await svc.open()
  const { testModel } = await import('../model/test-call.ts')
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
  print.record({ [`${describeModel(config)} answers in ${(ms / 1000).toFixed(1)} s`]: answer }, undefined)
}

/** What runs, in a few words. */
function describeModel({ runtime, model, endpoint, command }: ModelConfig): string {
  if (runtime === 'openai') return `${model} at ${endpoint}`
  if (runtime === 'claude') return model === undefined ? 'Claude Code' : `Claude Code with ${model}`
  return runtime === 'command' ? `the program ${formatCommand(command)}` : 'the built-in demo'
}

function formatCommand(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

async function showModel(svc: SvcContext, config: ModelConfig): Promise<void> {
  const { layout } = await svc.open()
  for (const warning of config.warnings) svc.print.warn(warning)
  const { groupDirs } = await import('../../core/layout.ts')
  const faults = findModelFaults(config, groupDirs(layout, config.folder ?? 'main').home)
  const { runtime, runtimeFrom, endpoint, endpointFrom, model, modelFrom, program, command, commandFrom } = config
  const line = (value: string | undefined, from: string | undefined): string =>
    value === undefined ? 'not set' : `${value} (${from})`
  const hasEndpoint = runtime === 'openai' || runtime === 'claude'
  svc.print.record(
    {
      runtime: line(runtime, runtimeFrom),
      ...(program === undefined ? {} : { program }),
      ...(hasEndpoint
        ? { endpoint: line(endpoint, endpointFrom), model: line(model, modelFrom), key: describeKeyState(config) }
        : {}),
      ...(runtime === 'command'
        ? { command: line(command === undefined ? undefined : formatCommand(command), commandFrom) }
        : {}),
      ...(faults.length > 0 ? { missing: faults.join('; ') } : {}),
    },
    { ...toModelRecord(config), runtime_from: runtimeFrom, endpoint_from: endpointFrom, model_from: modelFrom, faults },
  )
}

function describeKeyState({ key }: ModelConfig): string {
  return key === undefined ? 'not set' : 'set'
}

function toModelRecord(config: ModelConfig): object {
  const { folder, runtime, endpoint, model, program, command } = config
  const hasEndpoint = runtime === 'openai' || runtime === 'claude'
  return {
    folder,
    runtime,
    endpoint,
    model,
    program,
    command,
    ...(hasEndpoint ? { key: describeKeyState(config) } : {}),
  }
}
