// The text before and after the commands on the help page.
import type { HelpPage } from '../lib/command-line/help.ts'

export const SVC_HELP: HelpPage = {
  name: 'svc',
  head: `svc runs agents on your own machine. Each agent has a folder and gets its messages through chats and links.

usage: svc <command> <instance> [<argument>…]

The data of an instance is in $SVC_DATA_DIR/svc_<instance>; without SVC_DATA_DIR it is below \${PREFIX:-/srv}/data. Flags may come
anywhere; -- ends them. Commands that list or show take --json. svc help <command>, or --help anywhere, explains one command.
`,
  tail: `Exit codes: 0 done; 1 refused, or wrong usage; 2 apply found another config_version, or send could not reach the server.
`,
}
