// Requirements of tests beyond `npm ci`. If one is missing, the test is skipped with a message, or fails on CI.
import { spawnSync } from 'node:child_process'
import { existsSync, statSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { openKernel } from '../../src/egress/transport/kernel.ts'
import { postgresMissing } from './postgres.ts'

interface Part {
  /** Why it is missing, or undefined. */
  missing(): string | undefined
  /** How to install it on Debian. */
  remedy: string
}

const PARTS = {
  postgres: { missing: postgresMissing, remedy: 'apt-get install postgresql' },
  root: {
    missing: () => (process.getuid?.() === 0 ? undefined : 'the tests do not run as root'),
    remedy: 'run as root',
  },
  browser: {
    missing: () => (commandMissing('chromium-headless-shell') ? commandMissing('chromium') : undefined),
    remedy: 'apt-get install chromium-headless-shell',
  },
  'full browser': { missing: () => commandMissing('chromium'), remedy: 'apt-get install chromium' },
  compiler: { missing: () => commandMissing('cc'), remedy: 'apt-get install gcc libc6-dev' },
  curl: { missing: () => commandMissing('curl'), remedy: 'apt-get install curl' },
  wget: { missing: () => commandMissing('wget'), remedy: 'apt-get install wget' },
  git: { missing: () => commandMissing('git'), remedy: 'apt-get install git' },
  npm: { missing: () => commandMissing('npm'), remedy: 'apt-get install npm' },
  python: { missing: () => commandMissing('python3'), remedy: 'apt-get install python3' },
  pip: {
    missing: () => (existsSync('/usr/bin/pip3') ? undefined : 'there is no /usr/bin/pip3'),
    remedy: 'apt-get install python3-pip',
  },
  script: { missing: () => commandMissing('script'), remedy: 'apt-get install bsdutils' },
  java: { missing: () => commandMissing('java'), remedy: 'apt-get install default-jre-headless' },
  kernel: {
    missing: () => (openKernel() ? undefined : 'this is not Linux, or this Node has no node:ffi'),
    remedy: 'the Node of this project, run by bin/node.js',
  },
  openssl: { missing: () => commandMissing('openssl'), remedy: 'apt-get install openssl' },
  apt: {
    missing: () => (existsSync('/usr/lib/apt/apt-helper') ? undefined : 'there is no apt'),
    remedy: 'it is there',
  },
  'open checkout': {
    missing: checkoutClosed,
    remedy: 'chmod o+x on the directories above the checkout, or run the tests as an ordinary user',
  },
  bubblewrap: { missing: bubblewrapMissing, remedy: 'apt-get install bubblewrap' },
  strace: { missing: straceMissing, remedy: 'apt-get install strace' },
  ip: { missing: () => commandMissing('ip'), remedy: 'apt-get install iproute2' },
  iptables: { missing: iptablesMissing, remedy: 'apt-get install iptables' },
  zsh: { missing: () => commandMissing('zsh'), remedy: 'apt-get install zsh' },
  fish: { missing: () => commandMissing('fish'), remedy: 'apt-get install fish' },
  'python clients': {
    missing: () => (existsSync(pythonClient('llm')) ? undefined : 'SVC_OPENAI_CLIENTS names no environment with them'),
    remedy: 'as in .ci/run',
  },
  langchain: {
    missing: () => (existsSync(nodeClients()) ? undefined : 'SVC_OPENAI_CLIENTS names no environment with it'),
    remedy: 'as in .ci/run',
  },
  'old node': {
    missing: () => (oldNode() ? undefined : 'there is no Node older than 24 at /usr/bin/node'),
    remedy: 'apt-get install nodejs',
  },
  'systemd-analyze': { missing: () => commandMissing('systemd-analyze'), remedy: 'apt-get install systemd' },
  systemd: { missing: systemdMissing, remedy: 'apt-get install systemd bubblewrap iproute2 procps' },
  'mail server': {
    missing: mailServerMissing,
    remedy: 'apt-get install postfix dovecot-core dovecot-imapd dovecot-lmtpd openssl',
  },
  nginx: { missing: () => programMissing('nginx'), remedy: 'apt-get install nginx-light' },
  caddy: { missing: () => commandMissing('caddy'), remedy: 'apt-get install caddy' },
  logrotate: { missing: () => programMissing('logrotate'), remedy: 'apt-get install logrotate' },
  engine: { missing: engineMissing, remedy: 'apt-get install docker.io iptables iproute2' },
  claude: {
    missing: () => commandMissing('claude'),
    remedy: 'npm install --global @anthropic-ai/claude-code',
  },
  compose: { missing: () => commandMissing('docker-compose'), remedy: 'apt-get install docker-compose' },
  mmdebstrap: { missing: () => commandMissing('mmdebstrap'), remedy: 'apt-get install mmdebstrap' },
} satisfies Record<string, Part>

export type PartName = keyof typeof PARTS

/** Prefix of all skip reasons for missing requirements; `npm test` counts them. */
export const NEEDS = 'needs '

/** Options of a test or suite: `test('a sentence', needs('postgres'), …)`. Empty if all requirements are met. */
export function needs(...names: PartName[]): { skip?: string } {
  for (const name of names) {
    const { missing, remedy }: Part = PARTS[name]
    const reason = missing()
    if (!reason) continue
    const sentence = `${NEEDS}${name}: ${reason} (Debian: ${remedy})`
    if (process.env.CI === 'true') throw new Error(`${sentence}; let .ci/run install it`)
    return { skip: sentence }
  }
  return {}
}

/** A program of the environment with OpenAI clients. */
export function pythonClient(program: string): string {
  return join(process.env.SVC_OPENAI_CLIENTS ?? '', 'bin', program)
}

/** A module of that environment, whose packages are too large for this project. */
export function nodeClients(): string {
  return join(process.env.SVC_OPENAI_CLIENTS ?? '', 'node_modules/@langchain/openai/package.json')
}

function commandMissing(command: string): string | undefined {
  const found = (process.env.PATH ?? '').split(delimiter).some((folder) => existsSync(join(folder, command)))
  return found ? undefined : `there is no ${command}`
}

/** For programs of the administrator, whose directory is not on every PATH. */
function programMissing(program: string): string | undefined {
  return existsSync(join('/usr/sbin', program)) ? undefined : commandMissing(program)
}

/** The Node of the machine, if it is older than svc requires. */
export function oldNode(): string | undefined {
  const { status, stdout } = spawnSync('/usr/bin/node', ['--version'], { encoding: 'utf8' })
  return status === 0 && Number(/^v(\d+)/.exec(stdout)?.[1]) < 24 ? '/usr/bin/node' : undefined
}

/** If root runs the tests, programs of the checkout are started as another user. */
function checkoutClosed(): string | undefined {
  if (process.getuid?.() !== 0) return undefined
  for (let at = join(import.meta.dirname, '..', '..'); at !== dirname(at); at = dirname(at))
    if ((statSync(at).mode & 0o001) === 0) return `other users than root cannot enter ${at}`
  return undefined
}

function bubblewrapMissing(): string | undefined {
  const reason = commandMissing('bwrap')
  if (reason) return reason
  const { status, stderr } = spawnSync('bwrap', ['--ro-bind', '/', '/', '--unshare-pid', 'true'], { encoding: 'utf8' })
  return status === 0 ? undefined : `bwrap does not work here: ${stderr.trim()}`
}

function straceMissing(): string | undefined {
  const reason = commandMissing('strace')
  if (reason) return reason
  const { status, stderr } = spawnSync('strace', ['-e', 'trace=none', 'true'], { encoding: 'utf8' })
  return status === 0 ? undefined : `strace does not work here: ${stderr.trim()}`
}

/** A test starts its own server, in its own network. */
function engineMissing(): string | undefined {
  const reason = ['docker', 'dockerd', 'iptables', 'ip'].map(commandMissing).find((each) => each !== undefined)
  if (reason) return reason
  const { status, stderr } = spawnSync('unshare', ['--net', '--mount', 'true'], { encoding: 'utf8' })
  return status === 0 ? undefined : `there can be no namespaces here: ${stderr.trim()}`
}

/** A test starts its own, at ports that only root may use. */
function mailServerMissing(): string | undefined {
  if (process.getuid?.() !== 0) return 'the tests do not run as root'
  const missing = ['postfix', 'dovecot', 'doveadm', 'openssl'].map(programMissing)
  return missing.find((each) => each !== undefined)
}

/** A test starts it as the first process of its own namespaces. */
function systemdMissing(): string | undefined {
  if (!existsSync('/lib/systemd/systemd')) return 'there is no /lib/systemd/systemd'
  const reason = ['bwrap', 'ip', 'pgrep'].map(commandMissing).find((each) => each !== undefined)
  if (reason) return reason
  const spaces = ['--pid', '--mount', '--net', '--uts', '--ipc', '--cgroup', '--fork']
  const mount = ['mount', '-t', 'cgroup2', 'none', '/mnt']
  const { status, stderr } = spawnSync('unshare', [...spaces, ...mount], { encoding: 'utf8' })
  return status === 0 ? undefined : `there can be no namespaces here: ${stderr.trim()}`
}

/** In a network of the test, with redirected packets. */
function iptablesMissing(): string | undefined {
  for (const command of ['iptables', 'ip6tables']) {
    const reason = commandMissing(command)
    if (reason) return reason
    const { status, stderr } = spawnSync('unshare', ['--net', command, '-t', 'nat', '-L'], { encoding: 'utf8' })
    if (status !== 0) return `${command} does not work here: ${stderr.trim()}`
  }
  return undefined
}
