// Secrets of folders and of people: written and deleted, never shown.

import { refuse } from '../../lib/refusal.ts'
import { parse } from '../../lib/text/schema-parser.ts'
import { secretsResource } from '../../resources/secrets.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import { readStdinText } from '../input/stdin.ts'

const secrets = secretsResource.verbs
type Scope = 'folder' | 'user'

const FROM_STDIN = '--value - reads it from stdin'
const ASKED = `without --value it is asked for and not shown; ${FROM_STDIN}`
const VALUE_MAX_BYTES = 1_048_576

async function set(
  svc: SvcContext,
  scope_kind: Scope,
  owner: string,
  key: string,
  said: string | undefined,
): Promise<void> {
  // A wrong name is refused before a secret is typed.
  parse(secrets.create.input, { scope_kind, owner, key, value: 'x' })
  await svc.open()
  const value = await readValue(svc, key, said)
  await svc.call(secrets.create, { scope_kind, owner, key, value })
  svc.print.line(`set ${key} of ${scope_kind} ${owner}`)
  if (said !== undefined && said !== '-')
    svc.print.warn(`a value on the command line may stay in the history of the shell; ${FROM_STDIN}`)
}

/** From the command line, from stdin, or from the terminal without an echo. */
async function readValue({ io }: SvcContext, key: string, said: string | undefined): Promise<string> {
  if (said === '-') {
    // `echo … |` and an editor add one line break that is not part of the value.
    const text = (await readStdinText(io.stdin, VALUE_MAX_BYTES)).replace(/\r?\n$/, '')
    return text || refuse('invalid', 'value must not be empty: nothing came from stdin')
  }
  if (said !== undefined) return said
  if (!io.promptHidden) refuse('invalid', '--value is missing, and there is no terminal to ask for it', FROM_STDIN)
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
    about: `store a secret as an environment variable for the runs of a folder and those below it; ${ASKED}`,
    example: 'secret demo set main GITHUB_TOKEN',
    run: (svc, { folder, KEY, value }) => set(svc, 'folder', folder, KEY, value),
  }),
  defineSvcCommand({
    usage: 'secret <instance> list <folder> [--json]',
    about: "show the keys of a folder's secrets, never the values",
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
    about: `store a secret as an environment variable for the turns that a person asks for; ${ASKED}`,
    example: 'user-secret demo set github:42 API_KEY',
    run: (svc, { sub, KEY, value }) => set(svc, 'user', sub, KEY, value),
  }),
  defineSvcCommand({
    usage: 'user-secret <instance> list <sub> [--json]',
    about: "show the keys of a person's secrets, never the values",
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
