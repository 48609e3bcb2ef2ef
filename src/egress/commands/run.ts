// One command in a network of its own, from which only the hosts of a list can be reached.
import { command } from '../command.ts'

export const runCommands = [
  command({
    usage: 'run --allow <list> [--id <name>] [--image <img>] [--deny-private] -- <command>…',
    about:
      "run a command in a container whose only way out is the proxy; --allow '' lets it reach nothing; --image is the container's",
    example: "run --allow github.com,pypi.org -- sh -c 'git clone https://github.com/git/git'",
    run: async ({ io, print }, { allow, id, image, denyPrivate, command }) => {
      const [{ readAllowFlag }, { runWorkload }] = await Promise.all([import('../allow-flag.ts'), import('../run.ts')])
      return runWorkload({ allow: readAllowFlag(allow, print), id, image, denyPrivate, command }, io)
    },
  }),
]
