// Names of environment variables that secrets cannot set in a run.
import type { SecretName } from './secrets.ts'

const SERVICE_VARIABLES: ReadonlySet<string> = new Set([
  ...['PATH', 'HOME', 'LANG', 'TZ', 'DISABLE_AUTOUPDATER'],
  ...['NPM_CONFIG_NOPROXY', 'JAVA_TOOL_OPTIONS', 'GIT_SSH_COMMAND'],
])

/** Variables that svc sets. All proxy variables are reserved because they control how a run reaches the network. */
export function isServiceVariable(name: string): boolean {
  const upper = name.toUpperCase()
  return upper.startsWith('SVC_') || upper.endsWith('_PROXY') || SERVICE_VARIABLES.has(upper)
}

const LOADER_VARIABLE =
  /^(?:LD_|DYLD_|GIT_|GCONV_PATH$|NODE_OPTIONS$|NODE_PATH$|BASH_ENV$|ENV$|IFS$|PS4$|SHELLOPTS$|BASHOPTS$|PROMPT_COMMAND$|PYTHON|PERL5|RUBY|JDK_JAVA_OPTIONS$|_JAVA_OPTIONS$|EDITOR$|VISUAL$|PAGER$|CLAUDE_(?!CODE_OAUTH_TOKEN$))/

/**
 * Variables that make common programs run code or read files. People may set their own keys for a shared agent but must not be
 * able to run programs as that agent. Administrators of a folder may set these.
 */
export function isLoaderVariable(name: string): boolean {
  return LOADER_VARIABLE.test(name)
}

/** Why no run gets a secret of this name; undefined if runs do. */
export function reservedVariableFault({ scope_kind, key }: Pick<SecretName, 'scope_kind' | 'key'>): string | undefined {
  if (isServiceVariable(key)) return `${key} is set by svc, so runs never get a secret of this name`
  if (scope_kind === 'user' && isLoaderVariable(key))
    return `${key} can make programs run code, so runs never get it from the secrets of a person`
  return undefined
}
