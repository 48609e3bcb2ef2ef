// Runs any program as an agent: the prompt is its stdin, its environment names the socket and the turn, stdout is the result.
import { MODEL_URLS, variablesForEndpoint } from '../../core/secrets/model-variables.ts'
import { requireSuccess, runAgentProgram } from '../agent-process.ts'
import { ANSWER_MAX, type Job, oversizedAnswer, RunFault, type Runtime } from '../runtime.ts'
import type { RuntimeContext } from '../runtime-context.ts'

export async function openRuntime(context: RuntimeContext): Promise<Runtime> {
  return {
    name: 'command',
    run: async (given) => {
      // The program may call either provider.
      const job = { ...given, env: variablesForEndpoint(given.env, given.personal, MODEL_URLS) }
      let result = ''
      const exit = await runAgentProgram(context, job, {
        argv: buildArgv(job, context.settings.AGENT_COMMAND),
        input: job.prompt,
        onText: (text) => {
          if (result.length <= ANSWER_MAX) result += text
          job.draft?.add(text)
        },
      })
      requireSuccess(exit)
      if (result.length > ANSWER_MAX) throw oversizedAnswer()
      return { result: result.trim() }
    },
    close: async () => undefined,
  }
}

/** The group's command, or else the instance's. A list is a program with arguments; a string is a shell command. */
function buildArgv({ config }: Job, instance: string | undefined): readonly string[] {
  const command = config?.command ?? instance
  if (typeof command === 'string' && command.trim() !== '') return ['/bin/sh', '-c', command]
  if (Array.isArray(command) && command.length > 0 && command.every((part) => typeof part === 'string')) return command
  throw new RunFault(
    'terminal',
    'no program is set for this agent; set AGENT_COMMAND, or command in the config of the group',
  )
}
