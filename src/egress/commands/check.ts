// `check`: would this allowlist allow a host? Makes no connection.
import { defineEgressCommand } from '../cli/command.ts'

const DENIED = 1

export const checkCommands = [
  defineEgressCommand({
    usage: 'check <host> --allow <list> [--json]',
    about: 'show whether a list allows a host, and why; exit 0 if allowed, 1 if denied; checks only the host of a URL',
    example: 'check api.github.com --allow github.com,pypi.org',
    run: async ({ print }, { host: text, allow }) => {
      const [{ readAllowFlag }, { readPastedHost }, { compileSource, evaluatePolicy, explainVerdict }] =
        await Promise.all([
          import('../cli/allow-flag.ts'),
          import('../cli/pasted-host.ts'),
          import('../policy/policy.ts'),
        ])
      const { host, isBare } = readPastedHost(text)
      const source = compileSource({ ip: '', id: '', allowlist: readAllowFlag(allow, print) })
      const verdict = evaluatePolicy(source, host)
      if (!isBare) print.say(`checking only the host: ${host.text}`)
      const sentence = explainVerdict(verdict, host)
      if (print.json) {
        const { allow, reason, rule } = verdict
        print.record({}, { host: host.text, allow, reason, ...(rule === undefined ? {} : { rule }), sentence })
      } else print.line(sentence)
      return verdict.allow ? 0 : DENIED
    },
  }),
]
