// Every form of the generic pages of resources, with real values: an operator creates, changes and deletes a row of each.
// A resource with a form and without a row here fails.
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { webHosts } from '../src/core/links/web-hosts.ts'
import { onboarding } from '../src/core/people/onboarding.ts'
import { passkeys } from '../src/core/people/passkeys.ts'
import { shapeOf } from '../src/daemons/dashd/pages/resources.ts'
import { timestamp } from '../src/lib/clock.ts'
import { encodeKey } from '../src/registry/url-key.ts'
import { aclMembershipResource } from '../src/resources/acl-membership.ts'
import { channelAccountsResource } from '../src/resources/channel-accounts.ts'
import { channelSecretsResource } from '../src/resources/channel-secrets.ts'
import { resources } from '../src/resources/index.ts'
import { routeTokensResource } from '../src/resources/route-tokens.ts'
import { scheduledTasksResource } from '../src/resources/scheduled-tasks.ts'
import { type Dashboard, OPERATOR, serveDashboard } from './support/dashboard.ts'
import { mustReadForm, type PageForm } from './support/dashboard-forms.ts'
import { signIn } from './support/sign-in.ts'

type Fields = Readonly<Record<string, string>>

interface FormRow {
  /** Makes the row of a resource without a form for new ones. */
  make?(dash: Dashboard): Promise<unknown>
  readonly create?: Fields
  /** The reply is shown once in place of the list. */
  readonly isShownOnce?: true
  /** A value of the row, which no other row has. */
  readonly value: string
  readonly change?: Fields
  /** A value that the change writes. */
  readonly changed?: string
  /** Whether the row stays after it was deleted, as one that was revoked. */
  readonly stays?: true
}

const ROWS: Readonly<Record<string, FormRow>> = {
  groups: { create: { folder: 'shop/till', name: 'The till' }, value: 'The till' },
  routes: {
    create: { seq: '7', match: 'platform=telegram room=-100', target: 'team', observe_window_messages: '3' },
    value: 'platform=telegram room=-100',
    change: { match: '', target: 'other#observe' },
    changed: 'other#observe',
  },
  web_routes: {
    create: { path_prefix: '/pub/team/a/', access: 'redirect', redirect_to: '/pub/team/b/', folder: 'team' },
    value: '/pub/team/a/',
    change: { redirect_to: '/pub/team/c/' },
    changed: '/pub/team/c/',
  },
  web_hosts: {
    make: ({ host }) =>
      host.engine.transaction((tx) => webHosts.insert(tx, { hostname: 'shop.example.com', folder: 'team' })),
    value: 'shop.example.com',
  },
  acl_membership: {
    make: ({ cli }) => cli.call(aclMembershipResource.verbs.add, { subject: 'github:7', role: 'role:member' }),
    value: 'github:7',
  },
  route_tokens: {
    make: ({ cli }) => cli.call(routeTokensResource.verbs.issue_chat, { target_folder: 'team', jid_suffix: 'site' }),
    value: 'web:team/site',
  },
  scheduled_tasks: {
    make: ({ cli }) =>
      cli.call(scheduledTasksResource.verbs.schedule, { targetJid: 'team', prompt: 'Look around.', cron: '0 9 * * *' }),
    value: 'Look around.',
    change: { cron: '0 10 * * *', prompt: 'Look\r\nelsewhere.' },
    changed: 'Look\nelsewhere.',
  },
  proxyd_routes: {
    create: { path: '/tools/', backend: 'http://127.0.0.1:9', auth: 'user', preserve_headers: '["X-Tool"]' },
    value: '/tools/',
    change: { auth: 'operator', preserve_headers: '["X-Tool","X-Other"]' },
    changed: '["X-Tool","X-Other"]',
  },
  onboarding: {
    make: ({ host }) => {
      const at = timestamp(host.clock.now())
      const row = { jid: 'telegram:5', status: 'queued', created: at, queued_at: at, attempts: 0 } as const
      const asked = { user_sub: 'telegram:u', position: 1, folder: 'guests/five' }
      return host.engine.transaction((tx) => onboarding.insert(tx, { ...row, ...asked }))
    },
    value: 'telegram:5',
    change: { 'input-action': 'refuse' },
    changed: 'refused',
  },
  onboarding_gates: {
    create: { spec: 'team/**', daily_limit: '3', enabled: 'true' },
    value: 'team/**',
    change: { daily_limit: '5', enabled: 'false' },
    changed: '5',
  },
  invites: { create: { target_glob: 'team', max_uses: '2' }, isShownOnce: true, value: 'team', stays: true },
  sessions: {
    make: (dash) => signIn(dash, 'local:guest'),
    value: 'local:guest',
    stays: true,
  },
  channel_accounts: {
    make: ({ cli }) =>
      cli.call(channelAccountsResource.verbs.add, {
        ...{ account: 'telegram-shop', platform: 'telegram', settings: {} },
        secrets: { token: '123456789:abcdefghijklmnopqrstu' },
      }),
    value: 'telegram-shop',
  },
  channel_secrets: {
    make: ({ cli }) => cli.call(channelSecretsResource.verbs.add, { name: 'phone', platforms: ['sms'] }),
    value: 'phone',
  },
  bearers: {
    create: { name: 'backup', ttl_ms: '60000', folder: 'team' },
    isShownOnce: true,
    value: 'backup',
  },
  passkeys: {
    make: ({ host }) =>
      host.engine.transaction((tx) =>
        passkeys.insert(tx, {
          ...{ id: 'passkey-1', sub: OPERATOR, user_handle: 'handle', public_key: new Uint8Array([1]), counter: 0 },
          ...{ transports: ['usb'], name: 'the blue key', is_backup_eligible: false, is_backed_up: false },
          created_at: timestamp(host.clock.now()),
        }),
      ),
    value: 'the blue key',
  },
}

type Row = Readonly<Record<string, unknown>>

async function readRows({ operator }: Dashboard, path: string): Promise<Row[]> {
  return JSON.parse(await (await operator.get(`${path}?format=json`)).text())
}

const has = (value: string) => (row: Row) => Object.values(row).map(String).includes(value)

/** What an operator does with one row, by the forms of its page alone. */
async function walk(dash: Dashboard, name: string, row: FormRow): Promise<void> {
  const { operator } = dash
  const path = `/dash/resources/${name}`
  const read = async (at = path): Promise<string> => (await operator.get(at)).text()
  const send = async (to: string, fields: Fields): Promise<string> => {
    const response = await operator.post(to, fields)
    const body = await response.text()
    assert.ok(
      [200, 303].includes(response.status),
      `${name}: ${response.status} ${/class="notice fault".*?<\/div>/s.exec(body)}`,
    )
    return body
  }
  await row.make?.(dash)
  if (row.create) {
    const form = mustReadForm(await read(), ({ id }) => id === 'form-create', `${name}: create`)
    for (const field of Object.keys(row.create)) assert.ok(field in form.fields, `${name}: no field ${field}`)
    const reply = await send(form.to, { ...form.fields, ...row.create })
    assert.equal(/shown only this once/.test(reply), row.isShownOnce ?? false, `${name}: shown once`)
  }
  assert.equal((await readRows(dash, path)).filter(has(row.value)).length, 1, `${name}: one row with ${row.value}`)

  if (row.change) {
    const [before = {}] = (await readRows(dash, path)).filter(has(row.value))
    const id = encodeKey(mustFind(name).key.map((column) => String(before[column])))
    const edit = `${path}?edit=${encodeURIComponent(id)}`
    assert.ok((await read()).includes(`href="${edit}#form-update"`), `${name}: a link to edit it`)
    const form = mustReadForm(await read(edit), (one) => one.id === 'form-update', `${name}: update`)
    await send(form.to, { ...form.fields, ...row.change })
    const [changed] = (await readRows(dash, path)).filter(has(row.changed ?? row.value))
    assert.ok(changed, `${name}: changed to ${row.changed}`)
    for (const value of Object.values(row.change).filter((one) => one === ''))
      assert.ok(has(value)(changed), `${name}: a field was emptied`)
  }

  if (!shapeOf(mustFind(name))?.remove) return
  const [target = {}] = (await readRows(dash, path)).filter(has(row.changed ?? row.value))
  const isOf = ({ fields }: PageForm): boolean =>
    fields.action === 'remove' && mustFind(name).key.every((column) => fields[column] === String(target[column]))
  const remove = mustReadForm(await read(), isOf, `${name}: remove`)
  const question = await send(remove.to, remove.fields)
  const confirm = mustReadForm(question, ({ id }) => id === 'confirm', `${name}: asks first`)
  await send(confirm.to, confirm.fields)
  if (!row.stays)
    assert.deepEqual((await readRows(dash, path)).filter(has(row.changed ?? row.value)), [], `${name}: gone`)
}

const mustFind = (name: string) => resources.find((one) => one.name === name) ?? assert.fail(name)

suite('forms of the pages of resources', () => {
  test('have a row each', () => {
    const withForms = resources.filter((resource) => {
      const { create, update, remove } = shapeOf(resource) ?? {}
      return create ?? update ?? remove
    })
    assert.deepEqual(withForms.map(({ name }) => name).toSorted(), Object.keys(ROWS).toSorted())
  })

  test('create, change and delete rows with real values', async (t) => {
    const dash = await serveDashboard(t, { daemons: ['proxyd', 'authd', 'dashd'] })
    const faults: string[] = []
    for (const [name, row] of Object.entries(ROWS))
      await walk(dash, name, row).catch((error: unknown) => faults.push(String(error)))
    assert.deepEqual(faults, [])
  })
})
