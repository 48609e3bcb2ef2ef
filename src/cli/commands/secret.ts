// Sets, lists and deletes the secrets of folders and people. Values are never shown.
import { reservedVariableFault } from '../../core/secrets/reserved-variables.ts'
import { refuse } from '../../lib/refusal.ts'
import { parse } from '../../lib/text/schema-parser.ts'
import { secretsResource } from '../../resources/secrets.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import { readStdinText } from '../input/stdin.ts'

const secrets = secretsResource.verbs
type Scope = 'folder' | 'user'

const FROM_STDIN = '--value - reads it from stdin'
const VALUE_HELP = `without --value svc prompts for it without echo; ${FROM_STDIN}`
const VALUE_MAX_BYTES = 1_048_576

async function set(
  svc: SvcContext,
  scope_kind: Scope,
  owner: string,
  key: string,
  given: string | undefined,
): Promise<void> {
  // Refuse an invalid name before prompting for the value.
  parse(secrets.create.input, { scope_kind, owner, key, value: 'x' })
  const reserved = reservedVariableFault({ scope_kind, key })
  if (reserved) refuse('invalid', reserved, 'choose another name')
  await svc.open()
  const value = await readValue(svc, key, given)
  await svc.call(secrets.create, { scope_kind, owner, key, value })
  svc.print.line(`set ${key} of ${scope_kind} ${owner}`)
  if (given !== undefined && given !== '-')
    svc.print.warn(`a value on the command line may stay in the shell history; ${FROM_STDIN}`)
}

/** Reads the value from the command line, stdin or a prompt without echo. */
async function readValue({ io }: SvcContext, key: string, given: string | undefined): Promise<string> {
  if (given === '-') {
    // `echo … |` and editors add a final line break that is not part of the value.
    const text = (await readStdinText(io.stdin, VALUE_MAX_BYTES)).replace(/\r?\n$/, '')
    return text || refuse('invalid', 'value must not be empty, but stdin was empty')
  }
  if (given !== undefined) return given
  if (!io.promptHidden) refuse('invalid', '--value is missing, and stdin is not a terminal', FROM_STDIN)
  return (await io.promptHidden(`value of ${key} (not shown)`)) || refuse('invalid', 'value must not be empty')
}

async function list(svc: SvcContext, scope_kind: Scope, owner: string): Promise<void> {
  svc.print.table({
    rows: await svc.listAll(secrets.list_of, 'secrets', { scope_kind, owner }),
    columns: { KEY: ({ key }) => key, CREATED_AT: ({ created_at }) => created_at },
    empty: `no secrets of ${scope_kind} ${owner}`,
  })
}

async function remove(svc: SvcContext, scope_kind: Scope, owner: string, key: string): Promise<void> {
  await svc.call(secrets.delete, { scope_kind, owner, key })
  svc.print.line(`deleted ${key} of ${scope_kind} ${owner}`)
}

export const secretCommands = [
  defineSvcCommand({
    usage: 'secret <instance> set <folder> <KEY> [--value|-v <v>]',
    about: `store a secret as an environment variable for the runs of a folder and those below it; ${VALUE_HELP}`,
    example: 'secret demo set main GITHUB_TOKEN',
    run: (svc, { folder, KEY, value }) => set(svc, 'folder', folder, KEY, value),
  }),
  defineSvcCommand({
    usage: 'secret <instance> list <folder> [--json]',
    about: "list the keys of a folder's secrets, never the values",
    example: 'secret demo list main',
    run: (svc, { folder }) => list(svc, 'folder', folder),
  }),
  defineSvcCommand({
    usage: 'secret <instance> delete <folder> <KEY>',
    about: 'delete a secret',
    example: 'secret demo delete main GITHUB_TOKEN',
    run: (svc, { folder, KEY }) => remove(svc, 'folder', folder, KEY),
  }),
]

export const userSecretCommands = [
  defineSvcCommand({
    usage: 'user-secret <instance> set <sub> <KEY> [--value|-v <v>]',
    about: `store a secret as an environment variable for the turns that a person starts; ${VALUE_HELP}`,
    example: 'user-secret demo set github:42 API_KEY',
    run: (svc, { sub, KEY, value }) => set(svc, 'user', sub, KEY, value),
  }),
  defineSvcCommand({
    usage: 'user-secret <instance> list <sub> [--json]',
    about: "list the keys of a person's secrets, never the values",
    example: 'user-secret demo list github:42',
    run: (svc, { sub }) => list(svc, 'user', sub),
  }),
  defineSvcCommand({
    usage: 'user-secret <instance> delete <sub> <KEY>',
    about: 'delete a secret',
    example: 'user-secret demo delete github:42 API_KEY',
    run: (svc, { sub, KEY }) => remove(svc, 'user', sub, KEY),
  }),
]
