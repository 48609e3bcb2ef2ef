// The decision without a connection: would a list let a host through.
import { command } from '../command.ts'

const DENIED = 1

export const checkCommands = [
  command({
    usage: 'check <host> --allow <list> [--json]',
    about:
      'say whether a list allows a host, and why; exit 0 when it does, 1 when it does not; a URL is judged by its host',
    example: 'check api.github.com --allow github.com,pypi.org',
    run: async ({ print }, { host: text, allow }) => {
      const [{ readAllowFlag }, { readPastedHost }, { compileSource, decide, explain }] = await Promise.all([
        import('../allow-flag.ts'),
        import('../pasted-host.ts'),
        import('../match.ts'),
      ])
      const { host, isBare } = readPastedHost(text)
      const source = compileSource({ ip: '', id: '', allowlist: readAllowFlag(allow, print) })
      const verdict = decide(source, host)
      if (!isBare) print.say(`the host alone decides: ${host.text}`)
      const sentence = explain(verdict, host)
      if (print.json) {
        const { allow, reason, rule } = verdict
        print.record({}, { host: host.text, allow, reason, ...(rule === undefined ? {} : { rule }), sentence })
      } else print.line(sentence)
      return verdict.allow ? 0 : DENIED
    },
  }),
]
