// REST access rules: every operation against every kind of caller. An operation without a row fails the first test.
import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import type { Hono } from 'hono'
import { httpOperations } from '../src/faces/operations.ts'
import { encodeKey } from '../src/registry/url-key.ts'
import { resources } from '../src/resources/index.ts'
import { testHost } from './support/host.ts'
import { ask, restApp } from './support/rest.ts'

/** Bearer subjects, in the order of the columns below. */
const CALLERS: Record<string, string | undefined> = {
  anonymous: undefined,
  stranger: 'github:stranger',
  'the admin of a sibling': 'github:sibling',
  'the admin of the folder': 'github:admin',
  'an operator': 'github:op',
}

/** Statuses in the order of CALLERS; for a list with the number of visible rows: `200/1`. */
type Row = readonly [request: string, responses: string, body?: object]

const key = (...parts: string[]): string => encodeURIComponent(encodeKey(parts))

const EVERY = '401 200/0 200/0 200/1 200/2'
const FOLDER = '401 403 403 200 200'
/** Callers who cannot list the row are not told that it exists. */
const HIDDEN = '401 404 404 200 200'
const OPERATORS = '401 403 403 403 200'

const MATRIX: Record<string, Row> = {
  list_groups: ['GET /v1/groups', '401 200/0 200/1 200/1 200/4'],

  list_routes: ['GET /v1/routes', EVERY],
  create_routes: ['POST /v1/routes', '401 403 403 201 201', { seq: 1, target: 'team' }],
  update_routes: ['PATCH /v1/routes/1', HIDDEN, { seq: 7 }],
  delete_routes: ['DELETE /v1/routes/1', HIDDEN],

  list_web_routes: ['GET /v1/web_routes', EVERY],
  create_web_routes: [
    'POST /v1/web_routes',
    '401 403 403 201 201',
    { path_prefix: '/pub/team/new/', access: 'public', folder: 'team' },
  ],
  update_web_routes: [`PATCH /v1/web_routes/${key('/pub/team/')}`, HIDDEN, { access: 'deny' }],
  // 404 instead of 403: the owner of a path is not disclosed.
  delete_web_routes: [`DELETE /v1/web_routes/${key('/pub/team/')}`, '401 404 404 204 204'],

  list_acl: ['GET /v1/acl?scope=team', '401 200/0 200/0 200/1 200/1'],

  create_secrets: [
    'POST /v1/secrets',
    '401 403 403 201 201',
    { scope_kind: 'folder', owner: 'team', key: 'NEW', value: 'x' },
  ],
  delete_secrets: [`DELETE /v1/secrets/${key('folder', 'team', 'OLD')}`, '401 403 403 204 204'],

  list_route_tokens: ['GET /v1/route_tokens', EVERY],
  issue_chat_route_tokens: [
    'POST /v1/route_tokens/chat',
    '401 403 403 201 201',
    { target_folder: 'team', jid_suffix: 'new' },
  ],
  issue_hook_route_tokens: [
    'POST /v1/route_tokens/hook',
    '401 403 403 201 201',
    { target_folder: 'team', source_label: 'ci' },
  ],
  revoke_route_tokens: [`DELETE /v1/route_tokens/${key('web:team')}`, FOLDER],

  list_installed_packages: ['GET /v1/installed_packages', '401 200/0 200/0 200/1 200/3'],

  list_scheduled_tasks: ['GET /v1/tasks', '401 200/0 200/5 200/5 200/20'],
  update_scheduled_tasks: ['PATCH /v1/tasks/team-mem-0', HIDDEN, { status: 'paused' }],
  delete_scheduled_tasks: ['DELETE /v1/tasks/team-mem-0', HIDDEN],

  list_audit: ['GET /v1/audit?category=authz', '401 200/0 200/0 200/1 200/2'],

  list_proxyd_routes: ['GET /v1/proxyd_routes', '401 403 403 403 200/1'],
  create_proxyd_routes: [
    'POST /v1/proxyd_routes',
    '401 403 403 403 201',
    { path: '/new/', backend: 'http://b:1', auth: 'user' },
  ],
  update_proxyd_routes: [`PATCH /v1/proxyd_routes/${key('/old/')}`, OPERATORS, { auth: 'public' }],
  delete_proxyd_routes: [`DELETE /v1/proxyd_routes/${key('/old/')}`, '401 403 403 403 204'],

  list_web_hosts: ['GET /v1/web_hosts', '401 403 403 403 200/1'],
  delete_web_hosts: [`DELETE /v1/web_hosts/${key('a.example')}`, '401 403 403 403 204'],

  list_onboarding: ['GET /v1/onboarding', '401 403 403 403 200/1'],
  update_onboarding: [`PATCH /v1/onboarding/${key('telegram:1')}`, OPERATORS, { action: 'refuse' }],

  list_onboarding_gates: ['GET /v1/onboarding_gates', '401 403 403 403 200/1'],
  create_onboarding_gates: ['POST /v1/onboarding_gates', '401 403 403 403 201', { spec: 'new/*', daily_limit: 1 }],
  update_onboarding_gates: [`PATCH /v1/onboarding_gates/${key('old/*')}`, OPERATORS, { enabled: false }],
  delete_onboarding_gates: [`DELETE /v1/onboarding_gates/${key('old/*')}`, '401 403 403 403 204'],

  list_invites: ['GET /v1/invites', EVERY],
  create_invites: ['POST /v1/invites', '401 403 403 201 201', { target_glob: 'team' }],
  // 404 instead of 403: the existence of an invite or a session is not disclosed.
  revoke_invites: ['DELETE /v1/invites/AAAAAAAAAAAA', '401 404 404 204 204'],

  list_signing_keys: ['GET /v1/signing_keys', '401 403 403 403 200/1'],

  list_sessions: ['GET /v1/sessions', EVERY],
  delete_sessions: ['DELETE /v1/sessions/first', '401 404 404 204 204'],
}

const AT = '2026-01-01T00:00:00.000Z'
const bytes = (value: number): Uint8Array => new Uint8Array(32).fill(value)
const session = {
  ...{ scope: '', started_at: AT, renewed_at: AT, expires_at: AT, rotations: 0, status: 'active' },
  ...{ kind: 'browser', method: 'link', idle_ms: 1000, ends_at: AT },
}
const invite = { issued_at: AT, max_uses: 1, used_count: 0, target_glob: 'team' }
const installed = { name: 'p', source: 's', revision: 'r', installed_at: AT }
const refusal = { created_at: AT, category: 'authz', action: 'a.b', actor: 'x:1', resource: 'a', key: 'k' }
const recorded = {
  ...refusal,
  surface: 'rest',
  params_summary: '{}',
  outcome: 'denied',
  duration_ms: 0,
  instance: 'test',
}

/** Rows that the requests refer to: one of `team` or its admin, and one of `other`. */
const SEEDS: Record<string, readonly Record<string, unknown>[]> = {
  routes: [
    { id: 1, seq: 0, match: 'room=1', target: 'team' },
    { id: 2, seq: 0, match: 'room=2', target: 'other' },
  ],
  web_routes: ['team', 'other'].map((folder) => ({
    path_prefix: `/pub/${folder}/`,
    access: 'public',
    folder,
    created_at: AT,
  })),
  secrets: [{ scope_kind: 'folder', owner: 'team', key: 'OLD', value: bytes(0), created_at: AT }],
  route_tokens: ['team', 'other'].map((folder, index) => ({
    token_hash: bytes(index),
    jid: `web:${folder}`,
    owner_folder: folder,
    target_folder: folder,
    created_at: AT,
  })),
  installed_packages: ['', 'team', 'other'].map((folder) => ({ folder, ...installed })),
  audit: ['team', 'other'].map((folder, index) => ({ ...recorded, id: 1000 + index, folder })),
  proxyd_routes: [{ path: '/old/', backend: 'http://b:1', auth: 'user' }],
  web_hosts: [{ hostname: 'a.example', folder: 'team' }],
  onboarding: [{ jid: 'telegram:1', status: 'queued', created: AT, attempts: 0 }],
  onboarding_gates: [{ spec: 'old/*', daily_limit: 1, enabled: true }],
  invites: [
    { ...invite, token_hash: bytes(0), token_id: 'AAAAAAAAAAAA', issued_by_sub: 'github:admin' },
    { ...invite, token_hash: bytes(1), token_id: 'BBBBBBBBBBBB', issued_by_sub: 'github:other' },
  ],
  signing_keys: [
    {
      kid: 'k',
      alg: 'ES256',
      active: true,
      status: 'active',
      public_jwk: '{}',
      private_sealed: bytes(0),
      created_at: AT,
    },
  ],
  sessions: [
    { ...session, family_id: 'first', sub: 'github:admin' },
    { ...session, family_id: 'second', sub: 'github:other' },
  ],
}

async function seededApp(t: TestContext): Promise<Hono> {
  const { host, groups, grant, operator } = await testHost(t)
  await groups('main', 'team', 'sibling', 'other')
  await grant('github:admin', 'admin', 'team')
  await grant('github:sibling', 'admin', 'sibling')
  await operator('github:op')
  await host.engine.transaction(async (tx) => {
    for (const { name, table } of resources) for (const row of SEEDS[name] ?? []) await table.insertIfMissing(tx, row)
  })
  return restApp(host, resources)
}

/** `201`, or for a list `200/<rows>`. */
function describeResponse(status: number, body: unknown, isList: boolean): string {
  const [rows] = isList && status === 200 ? Object.values(body as object) : []
  return Array.isArray(rows) ? `${status}/${rows.length}` : String(status)
}

suite('access over REST', () => {
  test('every operation has a row and every row an operation', () => {
    const ids = resources.flatMap(httpOperations).map(({ id }) => id)
    assert.deepEqual(Object.keys(MATRIX).sort(), ids.sort(), 'a new operation needs a row in this file')
  })

  for (const [id, [request, responses, body]] of Object.entries(MATRIX)) {
    test(`${id}: ${responses}`, async (t) => {
      const got: string[] = []
      let app = await seededApp(t)
      for (const as of Object.values(CALLERS)) {
        const response = await ask(app, request, { ...(as ? { as } : {}), ...(body ? { body } : {}) })
        got.push(describeResponse(response.status, response.body, id.startsWith('list_')))
        // Each caller starts from the same rows.
        if (response.status < 300 && !request.startsWith('GET')) app = await seededApp(t)
      }
      assert.equal(got.join(' '), responses, Object.keys(CALLERS).join(', '))
    })
  }
})
