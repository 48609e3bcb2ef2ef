// What stands around the commands on the page of help.
import type { HelpPage } from '../lib/command-line/help.ts'

export const SVC_HELP: HelpPage = {
  name: 'svc',
  head: `svc runs agents on your own machine: one agent lives in one folder, and messages reach it through chats and links.

usage: svc <command> <instance> [<argument>…]

An instance lies in svc_<instance> below $SVC_DATA_DIR, otherwise below \${PREFIX:-/srv}/data. Flags may stand anywhere; -- ends
them. --json on a command that lists or shows gives JSON. svc help <command>, or --help anywhere, explains one command.
`,
  tail: `Exit codes: 0 done; 1 refused, or wrongly used; 2 apply found another config_version, or send did not reach the server.
`,
}
