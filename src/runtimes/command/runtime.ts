// Any program as an agent: the prompt on its stdin, the socket and the turn in its environment, its stdout is the result.
import { variablesForEndpoint } from '../../core/secrets/model-variables.ts'
import { mustHaveSucceeded, runAgentProgram } from '../agent-process.ts'
import { type Job, RunFault, type Runtime } from '../runtime.ts'
import type { RuntimeContext } from '../runtime-context.ts'

/** More than this is no message any more; the log has all of it. */
const RESULT_MAX = 1_048_576

export async function openRuntime(setup: RuntimeContext): Promise<Runtime> {
  return {
    name: 'command',
    run: async (given) => {
      const job = { ...given, env: variablesForEndpoint(given.env, given.personal, MODEL_URLS) }
      let result = ''
      const exit = await runAgentProgram(setup, job, {
        argv: argvOf(job, setup.settings.AGENT_COMMAND),
        input: job.prompt,
        onText: (text) => {
          if (result.length < RESULT_MAX) result += text.slice(0, RESULT_MAX - result.length)
        },
      })
      mustHaveSucceeded(exit)
      return { result: result.trim() }
    },
    close: async () => undefined,
  }
}

/** The program may use either. */
const MODEL_URLS = ['ANTHROPIC_BASE_URL', 'OPENAI_BASE_URL']

/** The group's own, else the instance's. A list is a program and its arguments; a text is for a shell. */
function argvOf({ config }: Job, instance: string | undefined): readonly string[] {
  const command = config?.command ?? instance
  if (typeof command === 'string' && command.trim() !== '') return ['/bin/sh', '-c', command]
  if (Array.isArray(command) && command.length > 0 && command.every((part) => typeof part === 'string')) return command
  throw new RunFault(
    'terminal',
    'no program is set for this agent: AGENT_COMMAND, or command in the config of the group, names one',
  )
}
