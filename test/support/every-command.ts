// A shell script that runs every command of `svc help` once, on one instance and beside one `svc serve`: for installations
// such as the npm package and the image, where a command may lack a file that the checkout has.

/**
 * Forms of the commands whose example needs something that the script lacks, such as the id of a message. The key is the
 * example as `svc help` prints it; all other commands run as their example. Forms can use what earlier commands made.
 */
const FORMS: Readonly<Record<string, string>> = {
  'svc start --port 9000': 'serve env SVC_DATA_DIR="$PWD/started" svc start --port 9000 && stop',
  'svc serve demo --port 9000': 'serve svc serve demo --port 9000',
  'svc pair demo whatsapp --phone 4912345': 'svc pair demo webd --phone 4912345',
  'svc logs demo webd --follow': 'refuses "writes its log to" svc logs demo webd --follow',
  'svc model demo --runtime openai --base-url http://127.0.0.1:11434/v1 --model qwen3':
    'svc model demo --runtime openai --base-url http://127.0.0.1:11434/v1 --model qwen3 --no-test && svc model demo --runtime demo',
  'svc channel demo set telegram dm open':
    'echo 123456789:a-token-of-nobody-0123456789 | svc channel demo add telegram --token - --no-check && svc channel demo set telegram dm open && svc channel demo rm telegram',
  'svc group demo rm team': 'svc group demo add sandbox:old old && svc group demo rm old',
  'svc group demo set main runtime openai':
    'svc group demo set main runtime openai && svc group demo set main runtime --unset',
  'svc route demo move 3 up': 'svc route demo add room=other main && svc route demo move 3 down',
  'svc token demo issue webhook main github --verify github --verify-secret - < secret.txt':
    'echo a secret that is long enough > secret.txt && svc token demo issue webhook main github --verify github --verify-secret - < secret.txt',
  'svc token demo replay 0199a1b2-c3d4-7e5f': 'svc token demo replay "$(svc messages demo main --json | last id)"',
  'svc chat demo': 'AGENT_CLI=true svc chat demo',
  "svc send demo main 'What is new?' --wait":
    "svc token demo issue chat main && svc send demo main 'What is new?' --wait",
  'svc sandbox demo show lobby --follow': 'svc sandbox demo show lobby',
  'svc sandbox demo press lobby mia s2 approve': 'refuses "has no button" svc sandbox demo press lobby mia s2 approve',
  'svc messages demo show 019c8a53-7f9e':
    'message=$(svc messages demo team --json | last id) && svc messages demo show "$message"',
  'svc messages demo retry 019c8a53-7f9e': 'refuses "answered" svc messages demo retry "$message"',
  'svc turns demo show 019c8a53-7f9e':
    'turn=$(svc turns demo list team --json | last id) && svc turns demo show "$turn"',
  'svc turns demo stop 019c8a53-7f9e': 'refuses "ended" svc turns demo stop "$turn"',
  'svc approvals demo approve 1f0c88ab': 'refuses "no tool call" svc approvals demo approve 1f0c88ab',
  'svc approvals demo reject 1f0c88ab': 'refuses "no tool call" svc approvals demo reject 1f0c88ab',
  'svc logout prod': 'refuses "not signed in" svc logout prod',
  'svc session demo revoke 0199f3a2-7c41-7d0e-8f6b-3a5c2e9d1b47':
    'curl -sf -d "" -H "Origin: http://localhost:9000" "$(svc login demo local:operator)" && svc session demo revoke "$(svc session demo list --json | last family_id)"',
  'svc bearers demo revoke 019b76da-a800-7000-8000-000000000000':
    'svc bearers demo revoke "$(svc bearers demo list --json | last id)"',
  'svc people demo show github:42': 'svc people demo show local:operator',
  'svc invite demo revoke XyQ2mB7kPq1d': 'svc invite demo revoke "$(svc invite demo list --json | last token_id)"',
  "svc gate demo rm 'team/**'": "svc gate demo rm 'team/**' && svc gate demo add 'team/**' 10/day",
  'svc onboarding demo approve telegram:42 --folder team/ada':
    'refuses "telegram:42" svc onboarding demo approve telegram:42 --folder team/ada',
  'svc onboarding demo refuse telegram:42': 'refuses "telegram:42" svc onboarding demo refuse telegram:42',
  'svc onboarding demo reprompt telegram:42': 'refuses "telegram:42" svc onboarding demo reprompt telegram:42',
  'svc network demo resolve team/support': 'svc network demo resolve team',
  'svc secret demo set main GITHUB_TOKEN': 'echo key | svc secret demo set main GITHUB_TOKEN --value -',
  'svc user-secret demo set github:42 API_KEY': 'echo key | svc user-secret demo set github:42 API_KEY --value -',
  'svc packages demo add litellm': 'svc packages demo add litellm --yes',
  'svc packages demo install ./my-package --dry-run': `mkdir -p my-package/skills/note && echo '# Note' > my-package/skills/note/SKILL.md && printf 'name = "mine"\\nabout = "A package."\\n' > my-package/package.toml && svc packages demo install ./my-package --dry-run`,
  'svc packages demo remove litellm': 'svc packages demo remove litellm --yes',
  'svc bridge /srv/data/svc_demo/ipc/main/gated.sock': 'svc bridge "$SVC_DATA_DIR/svc_demo/ipc/main/gated.sock"',
  'svc completion bash > ~/.local/share/bash-completion/completions/svc':
    'svc completion bash > completions && test -s completions',
  'svc completion install': 'svc completion install bash',
}

/** What the forms use. `serve` runs a server until `stop` or the end of the script. */
const HELPERS = `server=
serve() {
  "$@" > served.log 2>&1 & server=$!
  until grep -qE '^(ready|Ctrl-C)' served.log; do kill -0 $server || { cat served.log; return 1; }; sleep 0.1; done
}
stop() { kill $server && wait $server; }
refuses() {
  sentence=$1; shift
  if said=$("$@" 2>&1); then echo "$said"; echo 'it was not refused'; return 1; fi
  case $said in *"$sentence"*) ;; *) echo "$said"; echo "the refusal does not say: $sentence"; return 1 ;; esac
}
last() { sed -n 's/^ *"'"$1"'": "\\([^"]*\\)".*/\\1/p' | tail -n 1; }
failed=0
step() {
  eval "$1" < /dev/null > step.log 2>&1 || { printf '%s\\nexit code %s\\n' "$1" "$?"; tail -n 20 step.log; failed=1; }
}`

/**
 * Makes the script from the text of `svc help`. It needs `svc` and `docker-compose` on the PATH (see `fakePrograms`), an empty
 * working directory, and SVC_DATA_DIR. It prints `EVERY_COMMAND_RAN`, or the commands that failed with
 * the end of their output.
 */
export function everyCommandScript(help: string): string {
  const commands = commandsOf(help)
  const unknown = Object.keys(FORMS).filter((example) => !commands.some((command) => command.example === example))
  if (unknown.length > 0) throw new Error(`svc help has no example for these forms: correct or remove ${unknown}`)
  const steps = commands.map(({ usage, example }) => {
    const form = FORMS[example] ?? example
    if (!patternOf(usage).test(form)) throw new Error(`the form of svc ${usage} runs another command: ${form}`)
    return `step ${quoted(form)}`
  })
  return [HELPERS, ...steps, 'step stop', `[ $failed = 0 ] && echo '${EVERY_COMMAND_RAN}'`].join('\n')
}

export const EVERY_COMMAND_RAN = 'every command ran'

/** For a test in which a command failed. */
export const EVERY_COMMAND_HINT =
  'make the example of the command work after the examples above it in `svc help`, or add a form that works to FORMS in test/support/every-command.ts'

interface HelpCommand {
  readonly usage: string
  readonly example: string
}

/** A usage line, its explanation and its example, indented by 2, 6 and 6 blanks. */
function commandsOf(help: string): HelpCommand[] {
  const usages = help.match(/^ {2}svc .*$/gm) ?? []
  const commands = [...help.matchAll(/^ {2}svc (.*)\n {6}.*\n {6}\$ (.*)$/gm)].map(([, usage = '', example = '']) => ({
    usage,
    example,
  }))
  if (usages.length === 0 || usages.length !== commands.length)
    throw new Error('svc help has a command without an example')
  return commands
}

/** Matches a shell line that calls the command. */
function patternOf(usage: string): RegExp {
  const words = usage.replace(/ \[.*/, '').split(' ')
  return new RegExp(`\\bsvc ${words.map((word) => (/^[a-z]/.test(word) ? word : '\\S+')).join(' ')}`)
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
