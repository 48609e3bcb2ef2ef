// Talks with the root agent: starts the agent client in the foreground, with the tools of the socket of `main`.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { constants } from 'node:os'
import { ROOT_FOLDER } from '../../core/access/tiers.ts'
import { groupDirs } from '../../core/layout.ts'
import { refuse } from '../../lib/refusal.ts'
import { readSettings } from '../../lib/settings.ts'
import { writeMcpConfigFile } from '../../runtimes/mcp-config.ts'
import { RUNTIME_SETTINGS } from '../../runtimes/settings.ts'
import { resolveSocketPath } from '../../runtimes/socket-client.ts'
import { defineSvcCommand } from '../command.ts'
import { findInstance } from '../instance/instance.ts'

export const chatCommands = [
  defineSvcCommand({
    usage: 'chat <instance>',
    about: 'start the agent client that AGENT_CLI names, with the tools of the root agent; the instance must be served',
    example: 'chat demo',
    run: async ({ io, print }, { instance }) => {
      const { layout, sources, warnings } = await findInstance(instance, io.environment)
      for (const warning of warnings) print.warn(warning)
      const { AGENT_CLI } = readSettings({ AGENT_CLI: RUNTIME_SETTINGS.AGENT_CLI }, sources)
      const { socket, home } = groupDirs(layout, ROOT_FOLDER)
      await mustAnswer(socket, instance)
      const bridge = await writeMcpConfigFile(socket)
      try {
        return await runInForeground(AGENT_CLI, ['--mcp-config', bridge.path, '--strict-mcp-config'], home)
      } finally {
        await bridge.remove()
      }
    },
  }),
]

async function mustAnswer(path: string, instance: string): Promise<void> {
  const socket = connect(await resolveSocketPath(path))
  try {
    await once(socket, 'connect')
  } catch {
    refuse(
      'unavailable',
      `nobody serves the tools of ${instance}: ${path} does not answer`,
      `svc serve ${instance} starts it`,
    )
  } finally {
    socket.destroy()
  }
}

/** Ctrl-C is the client's: the terminal sends it to both. */
async function runInForeground(program: string, args: readonly string[], cwd: string): Promise<number> {
  const child = spawn(program, args, { stdio: 'inherit', cwd })
  const ignore = (): void => undefined
  const pass = (): void => void child.kill('SIGTERM')
  process.on('SIGINT', ignore).on('SIGTERM', pass)
  try {
    const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null]
    return code ?? 128 + (signal ? constants.signals[signal] : 0)
  } catch (error) {
    const why = (error as NodeJS.ErrnoException).code === 'EACCES' ? 'it may not be run' : 'there is no such program'
    return refuse(
      'unavailable',
      `the agent client ${program} could not be started: ${why}`,
      'install it, or name another one: AGENT_CLI=<program> in .env',
    )
  } finally {
    process.off('SIGINT', ignore).off('SIGTERM', pass)
  }
}
