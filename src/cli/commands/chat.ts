// Starts the agent client in the foreground with the tools of the root agent.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { constants } from 'node:os'
import { ROOT_FOLDER } from '../../core/access/tiers.ts'
import { groupDirs } from '../../core/layout.ts'
import { startCommand } from '../../deploy/start-command.ts'
import { refuse } from '../../lib/refusal.ts'
import { readSettings } from '../../lib/settings.ts'
import { writeMcpConfigFile } from '../../runtimes/mcp-config.ts'
import { RUNTIME_SETTINGS } from '../../runtimes/settings.ts'
import { resolveSocketPath } from '../../runtimes/socket-client.ts'
import { defineSvcCommand } from '../command.ts'
import type { InstanceLocation } from '../instance/instance.ts'

export const chatCommands = [
  defineSvcCommand({
    usage: 'chat <instance>',
    about: 'start the agent client set in AGENT_CLI with the tools of the root agent; the instance must be running',
    example: 'chat demo',
    run: async (svc) => {
      const configured = await svc.findInstance()
      const { layout, sources } = configured
      const { AGENT_CLI } = readSettings({ AGENT_CLI: RUNTIME_SETTINGS.AGENT_CLI }, sources)
      const { socket, home } = groupDirs(layout, ROOT_FOLDER)
      await mustListen(socket, configured)
      const bridge = await writeMcpConfigFile(socket)
      try {
        return await runInForeground(AGENT_CLI, ['--mcp-config', bridge.path, '--strict-mcp-config'], home)
      } finally {
        await bridge.remove()
      }
    },
  }),
]

async function mustListen(path: string, { name, layout }: InstanceLocation): Promise<void> {
  const socket = connect(await resolveSocketPath(path))
  try {
    await once(socket, 'connect')
  } catch {
    refuse(
      'unavailable',
      `${name} is not being served: no server listens at ${path}`,
      `${await startCommand({ name, layout })} starts it`,
    )
  } finally {
    socket.destroy()
  }
}

/** Ignores Ctrl-C, which the terminal sends to the client too. */
async function runInForeground(program: string, args: readonly string[], cwd: string): Promise<number> {
  const child = spawn(program, args, { stdio: 'inherit', cwd })
  const ignore = (): void => undefined
  const forward = (): void => void child.kill('SIGTERM')
  process.on('SIGINT', ignore).on('SIGTERM', forward)
  try {
    const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null]
    return code ?? 128 + (signal ? constants.signals[signal] : 0)
  } catch (error) {
    const why = (error as NodeJS.ErrnoException).code === 'EACCES' ? 'permission denied' : 'program not found'
    return refuse(
      'unavailable',
      `cannot start the agent client ${program}: ${why}`,
      'install it, or set another one in .env: AGENT_CLI=<program>',
    )
  } finally {
    process.off('SIGINT', ignore).off('SIGTERM', forward)
  }
}
