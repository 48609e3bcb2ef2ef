// The text around the commands on the help page.
import type { HelpPage } from '../../lib/command-line/help.ts'

export const EGRESS_PAGE: HelpPage = {
  name: 'egress-proxy',
  head: `egress-proxy lets each source address reach the hosts on its own list, and nothing else. It decides on the host name alone.

usage: egress-proxy <command> [<argument>…]

A list is comma-separated host names; github.com also allows every name below it. Flags may appear anywhere; -- ends them.
egress-proxy help <command>, or --help anywhere, explains one command.
`,
  tail: `Exit codes: 0 success; 1 refused, failed or wrong usage, for check denied. run exits with the exit code of its command, or
with 125 if it could not start it.
`,
}
