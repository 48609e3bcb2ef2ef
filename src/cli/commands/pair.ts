// Runs one service of the compose file once, on this terminal: to pair an adapter with a phone, for example.
import { defineSvcCommand } from '../command.ts'

export const pairCommands = [
  defineSvcCommand({
    usage: 'pair <instance> <service> [<args>…]',
    passesFlags: true,
    about:
      'run one service of the compose file on this terminal, with these arguments instead of its own; the container is removed when it exits, and its exit code is kept',
    example: 'pair demo whatsapp --phone 4912345',
    run: async (svc, { instance, service, args }) => {
      const [{ mustHaveService, pairOverride, readComposeServices }, compose, { withTemporaryFile }] =
        await Promise.all([
          import('../../deploy/written-compose.ts'),
          import('../../deploy/compose-command.ts'),
          import('../../deploy/temporary-file.ts'),
        ])
      const { layout } = await svc.findInstance()
      const services = await readComposeServices(layout.compose, instance)
      mustHaveService(services, service)
      const command = await compose.findCompose()
      await compose.mustReachEngine(command)
      const isTerminal = svc.io.prompt !== undefined
      const runService = async (files: readonly string[]): Promise<number> => {
        const before = compose.composeArguments(command, instance, layout, files)
        const input = isTerminal ? [] : ['-T']
        const { code } = await compose.runAttached(
          command,
          [...before, 'run', '--rm', ...input, service, ...args],
          isTerminal,
        )
        return code
      }
      const override = await pairOverride(services, service)
      return override === undefined
        ? runService([])
        : withTemporaryFile('pair.yml', override, (path) => runService([path]))
    },
  }),
]
