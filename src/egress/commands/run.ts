// `run`: runs a command in a network from which only the listed hosts can be reached.
import { defineEgressCommand } from '../cli/command.ts'

export const runCommands = [
  defineEgressCommand({
    usage: 'run --allow <list> [--id <name>] [--image <img>] [--deny-private] -- <command>…',
    about:
      "run a command in a container that can reach only the listed hosts; --allow '' allows none; --image is the image of the container",
    example: "run --allow github.com,pypi.org -- sh -c 'git clone https://github.com/git/git'",
    run: async ({ io, print }, { allow, id, image, denyPrivate, command }) => {
      const [{ readAllowFlag }, { runWorkload }] = await Promise.all([
        import('../cli/allow-flag.ts'),
        import('../run/run-workload.ts'),
      ])
      return runWorkload({ allow: readAllowFlag(allow, print), id, image, denyPrivate, command }, io)
    },
  }),
]
