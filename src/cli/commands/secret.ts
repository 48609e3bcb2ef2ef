// Secrets of folders and of people: written and deleted, never shown.
import { refuse } from '../../lib/refusal.ts'
import { secretsResource } from '../../resources/secrets.ts'
import { command, type Svc } from '../command.ts'
import { stdinText } from '../stdin.ts'

const secrets = secretsResource.verbs
type Scope = 'folder' | 'user'

const FROM_STDIN = '--value - reads it from stdin'
const VALUE_MAX_BYTES = 1_048_576

async function set(svc: Svc, scope_kind: Scope, owner: string, key: string, value: string): Promise<void> {
  if (value !== '-')
    svc.print.warn('a value on the command line may stay in the history of the shell; --value - reads it from stdin')
  await svc.call(secrets.create, { scope_kind, owner, key, value: value === '-' ? await typed(svc) : value })
  svc.print.line(`set ${key} of ${scope_kind} ${owner}`)
}

/** `echo … |` and an editor add one line break that nobody means. */
async function typed(svc: Svc): Promise<string> {
  const text = await stdinText(svc.io.stdin, VALUE_MAX_BYTES)
  return text.replace(/\r?\n$/, '') || refuse('invalid', 'value must not be empty: nothing came from stdin')
}

async function list(svc: Svc, scope_kind: Scope, owner: string): Promise<void> {
  svc.print.table({
    rows: await svc.rows(secrets.list_of, 'secrets', { scope_kind, owner }),
    columns: { KEY: ({ key }) => key, CREATED_AT: ({ created_at }) => created_at },
    empty: `no secrets of ${scope_kind} ${owner}`,
  })
}

async function remove(svc: Svc, scope_kind: Scope, owner: string, key: string): Promise<void> {
  await svc.call(secrets.delete, { scope_kind, owner, key })
  svc.print.line(`deleted ${key} of ${scope_kind} ${owner}`)
}

export const secretCommands = [
  command({
    usage: 'secret <instance> set <folder> <KEY> --value|-v <v>',
    about: `store a secret as an environment variable for the runs of a folder and those below it; ${FROM_STDIN}`,
    example: 'secret demo set main GITHUB_TOKEN --value - < token.txt',
    run: (svc, { folder, KEY, value }) => set(svc, 'folder', folder, KEY, value),
  }),
  command({
    usage: 'secret <instance> list <folder> [--json]',
    about: "show the keys of a folder's secrets, never the values",
    example: 'secret demo list main',
    run: (svc, { folder }) => list(svc, 'folder', folder),
  }),
  command({
    usage: 'secret <instance> delete <folder> <KEY>',
    about: 'delete a secret',
    example: 'secret demo delete main GITHUB_TOKEN',
    run: (svc, { folder, KEY }) => remove(svc, 'folder', folder, KEY),
  }),
]

export const userSecretCommands = [
  command({
    usage: 'user-secret <instance> set <sub> <KEY> --value|-v <v>',
    about: `store a secret as an environment variable for the turns that a person asks for; ${FROM_STDIN}`,
    example: 'user-secret demo set github:42 API_KEY --value - < key.txt',
    run: (svc, { sub, KEY, value }) => set(svc, 'user', sub, KEY, value),
  }),
  command({
    usage: 'user-secret <instance> list <sub> [--json]',
    about: "show the keys of a person's secrets, never the values",
    example: 'user-secret demo list github:42',
    run: (svc, { sub }) => list(svc, 'user', sub),
  }),
  command({
    usage: 'user-secret <instance> delete <sub> <KEY>',
    about: 'delete a secret',
    example: 'user-secret demo delete github:42 API_KEY',
    run: (svc, { sub, KEY }) => remove(svc, 'user', sub, KEY),
  }),
]
