// Runs the commands of the README and the guides as printed, with the installed package and, where they need it, in the checkout.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, suite, type TestContext, test } from 'node:test'
import { svcCommands } from '../../src/cli/commands/index.ts'
import { ALL_SETTINGS, isOpenIdKey } from '../../src/daemons/settings.ts'
import { egressCommands as proxyCommands } from '../../src/egress/commands/index.ts'
import { readSettings, sourceOf, unknownKeys } from '../../src/lib/settings.ts'
import { parseDotenv } from '../../src/lib/text/dotenv.ts'
import { DISCORD_TOKEN } from '../support/discord-server.ts'
import { EMAIL_PASSWORD } from '../support/email-server.ts'
import { commandsOf, type GuideOptions, runGuide, settingsOf } from '../support/guide.ts'
import { type InstalledPackage, installPackage } from '../support/installed-package.ts'
import { needs } from '../support/needs.ts'
import { SLACK_TOKENS } from '../support/slack-server.ts'
import { TELEGRAM_TOKEN } from '../support/telegram-server.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const GUIDES = [
  'README.md',
  ...readdirSync(join(ROOT, 'docs')).flatMap((name) => (name.endsWith('.md') ? `docs/${name}` : [])),
]
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')

/** Commands that the test skips, with the reason. */
const SKIPPED: Readonly<Record<string, string>> = {
  'claude mcp add --transport http svc https://chat.example.com/mcp': 'needs Claude Code',
  'svc model demo': 'needs a terminal',
  'svc model demo team': 'needs a terminal',
  'svc model demo --base-url https://api.openai.com/v1 --model gpt-5-mini --key - < key.txt': 'needs the Internet',
  'svc model demo --runtime claude --key - < key.txt': 'needs the Internet',
  'svc login prod --url https://svc.example.com': 'needs a browser and another machine',
  'svc login prod --url https://svc.example.com --device': 'needs a browser and another machine',
  'svc logout prod': 'needs the login before',
  'curl -X POST "$CHAT$TURN_ID/stop"': 'is refused, because the answer has ended',
  'npm ci && npm test': 'runs this test',
  'curl -x http://127.0.0.1:3128 https://example.com': 'needs the Internet',
  'curl -x http://127.0.0.1:3128 https://example.org': 'fails, as the guide says',
  'egress-proxy run --allow example.com -- curl https://example.com': 'needs the Internet',
  'docker build -t egress-proxy:latest .': 'needs a base image from a registry',
  'python3 -m http.server 9000 --directory site': 'runs until it is stopped; a test with a browser serves the page',
}

/** The test with systemd runs it. */
const RUN_ELSEWHERE = ['docs/server.md']
/** Its mail servers are started by root. */
const FOR_ROOT = ['docs/email.md']

const withoutComment = (command: string): string => command.replace(/\s+# .*$/, '')
const isSkipped = (command: string): boolean => withoutComment(command) in SKIPPED
const isForCheckout = (command: string): boolean => /^npm /.test(command)

const TEAM = 'svc group demo add sandbox:lobby team > /dev/null'
const SERVED = ['export SVC_DATA_DIR=$PWD/data', 'svc create demo > /dev/null', 'svc serve demo']
const STARTED = ['svc start', 'export SVC_DATA_DIR=$PWD/.svc']
/** Tries for half a minute. */
const untilShown = (command: string, text: string): string =>
  `for try in $(seq 150); do ${command} > shown.log || true; ! grep '${text}' shown.log || break; sleep 0.2; done; grep -q '${text}' shown.log`
const MODEL_SERVER = `${process.execPath} ${join(ROOT, 'test/support/model-server.ts')} > /dev/null & others+=($!)
until curl -s localhost:11434 > /dev/null; do sleep 0.1; done`
const TELEGRAM = `${process.execPath} ${join(ROOT, 'test/support/telegram-program.ts')} > /dev/null & others+=($!)
until curl -s 127.0.0.1:8095/sent > /dev/null; do sleep 0.1; done`
const SLACK = `${process.execPath} ${join(ROOT, 'test/support/slack-program.ts')} > /dev/null & others+=($!)
until curl -s 127.0.0.1:8096/sent > /dev/null; do sleep 0.1; done`
const DISCORD = `${process.execPath} ${join(ROOT, 'test/support/discord-program.ts')} > /dev/null & others+=($!)
until curl -s 127.0.0.1:8097/sent > /dev/null; do sleep 0.1; done`
/** The servers of the guide are at loopback addresses and without TLS. */
const EMAIL = `${process.execPath} ${join(ROOT, 'test/support/email-program.ts')} > /dev/null & others+=($!)
until curl -s 127.0.0.1:8098/servers > servers; do kill -0 $!; sleep 0.1; done
read -r imap smtp < servers || true
svc() {
  local typed=("$@")
  typed=("\${typed[@]/#imap.example.com:993/$imap}")
  typed=("\${typed[@]/#smtp.example.com:465/$smtp}")
  [ "$1 \${3:-}" != 'channel add' ] || typed+=(--tls off)
  command svc "\${typed[@]}"
}`
const OPTIONS: Readonly<Record<string, Partial<GuideOptions>>> = {
  // Tests with a container engine and with systemd run that section.
  'README.md': { before: [], leftOutSection: '## Run it on a server' },
  'docs/egress.md': { before: ['export EGRESS_ADMIN_SECRET='] },
  'docs/kubernetes.md': {
    // There is no cluster; a test of its own runs the pods.
    before: ['kubectl() { printf "kubectl %s\\n" "$*"; }'],
    files: { 'demo.env': settingsOf(read('docs/kubernetes.md'))[0] ?? '' },
  },
  'docs/agents.md': { before: [...SERVED, TEAM] },
  'docs/security.md': { before: [...SERVED, TEAM] },
  'docs/first-agent.md': {
    before: [MODEL_SERVER],
    after: [
      untilShown(
        `curl -s "$(svc token demo issue chat shop check | sed -n 's/^url: //p')"`,
        'data-name="Ada" .*data-starters="When are you open?',
      ),
      untilShown("svc send demo shop 'When are you open?' --wait", 'hello'),
    ],
  },
  'docs/web-site.md': {
    before: [...STARTED, 'svc group demo add sandbox:shop shop > /dev/null'],
    after: [untilShown(`curl -s "$(sed -n 's/.*src="\\([^"]*\\)".*/\\1/p' site/index.html)"`, '"name":"shop"')],
  },
  'docs/webhook.md': {
    before: STARTED,
    after: [untilShown('svc sandbox demo show builds', 'A build failed: .*"step": 3')],
  },
  'docs/own-program.md': {
    before: STARTED,
    after: [
      untilShown("svc send demo lab 'Again' --wait", 'Question 3: Again'),
      // As a visitor, who has a HOME of their own.
      `lab=$(svc token demo issue chat lab check | sed -n 's/^url: //p'); id=$(curl -s -d content=Hi "$lab" | sed 's/.*"turn_id":"//; s/".*//')`,
      untilShown('curl -s "$lab$id"', 'Question 1: Hi'),
    ],
  },
  'docs/telegram.md': {
    before: [TELEGRAM, 'export TELEGRAM_API_URL=http://127.0.0.1:8095', ...STARTED],
    files: { 'token.txt': `${TELEGRAM_TOKEN}\n` },
    after: [
      'svc channel demo add telegram --token - < token.txt',
      'curl -s "127.0.0.1:8095/say?What+is+new" > /dev/null',
      untilShown('curl -s 127.0.0.1:8095/sent', '"chat":"user/42","text":"This is the demo of `helpdesk`'),
    ],
  },
  'docs/slack.md': {
    before: [SLACK, 'export SLACK_API_URL=http://127.0.0.1:8096', ...STARTED],
    files: { 'tokens.txt': `${SLACK_TOKENS.app_token}\n${SLACK_TOKENS.bot_token}\n` },
    after: [
      'svc channel demo add slack --app-token - --bot-token - < tokens.txt',
      'svc group demo add slack:T0TEST/dm/D0MIA helpdesk > /dev/null',
      'curl -s "127.0.0.1:8096/say?What+is+new" > /dev/null',
      untilShown('curl -s 127.0.0.1:8096/sent', '"chat":"T0TEST/dm/D0MIA","text":"This is the demo of `helpdesk`'),
    ],
  },
  'docs/discord.md': {
    before: [DISCORD, 'export DISCORD_API_URL=http://127.0.0.1:8097', ...STARTED],
    files: { 'token.txt': `${DISCORD_TOKEN}\n` },
    after: [
      'svc channel demo add discord --token - < token.txt',
      'curl -s "127.0.0.1:8097/say?What+is+new" > /dev/null',
      untilShown(
        'curl -s 127.0.0.1:8097/sent',
        '"chat":"dm/400000000000000004","text":"This is the demo of `helpdesk`',
      ),
    ],
  },
  'docs/email.md': {
    before: [EMAIL, ...STARTED],
    files: { 'password.txt': `${EMAIL_PASSWORD}\n` },
    after: [
      'svc channel demo add email --address help@example.com --imap imap.example.com:993 --smtp smtp.example.com:465 --user help@example.com --password - < password.txt',
      untilShown('svc channel demo status', 'email.*healthy'),
      'curl -s "127.0.0.1:8098/say?What+is+new" > /dev/null',
      untilShown('curl -s 127.0.0.1:8098/sent', 'mia@example.com","Re: Hello'),
    ],
  },
  'docs/runtimes.md': {
    before: [...SERVED, TEAM, 'install -m 755 agent.py data/svc_demo/groups/team/', MODEL_SERVER],
    files: { 'agent.py': '#!/bin/sh\necho hello\n' },
  },
  'docs/links.md': {
    before: [...SERVED, TEAM],
    files: { 'log.txt': 'a line\n', 'photo.png': 'a photo\n', 'secret.txt': 'a secret that is long enough\n' },
  },
}

/** Those that differ with the installed package. */
const PACKAGE_OPTIONS: Readonly<Record<string, Partial<GuideOptions>>> = {
  // `npm start` runs `svc start`.
  'README.md': { before: ['svc start'], leftOut: (command) => isSkipped(command) || isForCheckout(command) },
  'docs/first-agent.md': {
    before: [MODEL_SERVER, 'svc start'],
    leftOut: (command) => isSkipped(command) || isForCheckout(command),
  },
}

suite('the commands', needs('root', 'ip', 'curl', 'npm', 'git', 'bubblewrap', 'open checkout'), () => {
  let installed: InstalledPackage
  before(async () => {
    installed = await installPackage()
  })

  const guides = GUIDES.filter((path) => !RUN_ELSEWHERE.includes(path) && commandsOf(read(path)).length > 0)
  const runWith = (t: TestContext, path: string, more: Partial<GuideOptions>): Promise<void> =>
    runGuide(t, path, { before: SERVED, leftOut: isSkipped, ...OPTIONS[path], ...more })

  for (const path of guides.filter((path) => !FOR_ROOT.includes(path)))
    test(`of ${path} work as printed for an ordinary user who installed the package`, (t) =>
      runWith(t, path, { ...PACKAGE_OPTIONS[path], installed }))

  // The other guides need no checkout.
  for (const path of guides.filter((path) => commandsOf(read(path)).some(isForCheckout)))
    test(`of ${path} work as printed for root in the checkout`, (t) => runWith(t, path, {}))
  for (const path of FOR_ROOT)
    test(`of ${path} work as printed for root`, needs('mail server'), (t) => runWith(t, path, {}))
})

test('every skipped command is still in a guide', () => {
  const all = new Set(GUIDES.flatMap((path) => commandsOf(read(path)).map(withoutComment)))
  for (const command of Object.keys(SKIPPED)) assert.ok(all.has(command), command)
})

test('the settings in guides exist and have valid values', () => {
  const blocks = GUIDES.flatMap((path) => settingsOf(read(path)))
  assert.ok(blocks.length > 0)
  for (const block of blocks) {
    const values = parseDotenv(block, 'a guide')
    assert.deepEqual(unknownKeys(ALL_SETTINGS, values, isOpenIdKey), [])
    assert.doesNotThrow(() => readSettings(ALL_SETTINGS, [sourceOf('a guide', values)]))
  }
})

test('every command named in a guide exists', () => {
  const known = { svc: svcCommands, 'egress-proxy': proxyCommands }
  for (const path of GUIDES)
    for (const [, program, noun = ''] of read(path).matchAll(/`(svc|egress-proxy) ([a-z][a-z-]*)/g))
      assert.ok(noun in known[program as keyof typeof known], `${path}: ${program} ${noun}`)
})
