// Every tool of a resource: allowed with the result of the specification, refused by rule, refused by containment, and
// refused for each invalid argument.
import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { agent, type EngineName, onEveryEngine, type TestHost, testHost } from '../../test/support/host.ts'
import { openTools, TOOL_VERBS, type ToolSession } from '../../test/support/tools.ts'
import { recordDenials } from '../core/access/network-denials.ts'

type Args = Record<string, unknown>

interface Stage {
  at: TestHost
  root: ToolSession
  team: ToolSession
  other: ToolSession
}

interface Case {
  /** Grants that `team` and `other` need on their own subtree, because their tier has none by default. */
  granted?: string[]
  /** Calls as `team`; checks the exact result. */
  allowed(stage: Stage): Promise<void>
  /** Arguments outside the folder of `team`, and the message of the refusal. */
  outside?(stage: Stage): Promise<[args: Args, message: RegExp][]>
  /** Invalid arguments and the message of the refusal, which changes nothing. */
  bad: [args: Args, message: string | RegExp][]
  /** Arguments with which the call would be allowed, for the refusal by rule. */
  sample: Args
}

const AT = '2026-01-01T00:00:00.000Z'
const LONG = 'x'.repeat(16_385)
const TOKEN = /^[A-Za-z0-9_-]{43}$/

const NO_ARGUMENTS: Case['bad'] = [
  [{ folder: 'team' }, 'unknown field "folder"'],
  [{ limit: 5 }, 'unknown field "limit"'],
]
const MINTING: Case['bad'] = [
  [{ jid_suffix: '' }, /^jid_suffix must be 1 to 64/],
  [{ jid_suffix: 'a/b' }, /^jid_suffix must be/],
  [{ jid_suffix: 'a b' }, /^jid_suffix must be/],
  [{ jid_suffix: 'ä' }, /^jid_suffix must be/],
  [{ jid_suffix: 'x'.repeat(65) }, /^jid_suffix must be/],
  [{ jid_suffix: 3 }, 'jid_suffix must be text'],
  [{ context: LONG }, 'context is longer than 16384 characters'],
  [{ context: 'a\u0000b' }, 'context must not contain a NUL character'],
  [{ context: null }, 'context must be text'],
  [{ target_folder: '../x' }, /^target_folder must be names/],
  [{ target_folder: 'team/share' }, 'target_folder must not use the reserved name share'],
  [{ owner_folder: 'other' }, 'unknown field "owner_folder"'],
  [{ token_hash: 'aa' }, 'unknown field "token_hash"'],
]
const TASK_ID: Case['bad'] = [
  [{}, 'taskId is required'],
  [{ taskId: '' }, 'taskId must not be empty'],
  [{ taskId: 1 }, 'taskId must be text'],
  [{ id: 'x' }, 'taskId is required; unknown field "id"'],
]

const CASES: Record<string, Case> = {
  issue_chat_link: {
    granted: ['issue_chat_link'],
    sample: {},
    allowed: async ({ team }) => {
      const minted = await answer(team, 'issue_chat_link', { jid_suffix: 'forms', context: 'Be brief.' })
      assert.match(String(minted.token), TOKEN)
      const url = `http://localhost:8080/chat/${minted.token}/`
      assert.deepEqual(minted, { token: minted.token, url, jid: 'web:team/forms' })
      assert.equal((await answer(team, 'issue_chat_link', { target_folder: 'team/a' })).jid, 'web:team/a')
      assert.equal((await answer(team, 'issue_chat_link')).jid, 'web:team')
    },
    outside: async () => [[{ target_folder: 'other' }, /^issue_chat_link: not permitted on other/]],
    bad: MINTING,
  },
  issue_webhook: {
    granted: ['issue_webhook'],
    sample: { source_label: 'ci' },
    allowed: async ({ team }) => {
      const minted = await answer(team, 'issue_webhook', { source_label: 'github', jid_suffix: 'ci' })
      assert.match(String(minted.token), TOKEN)
      const url = `http://localhost:8080/hook/${minted.token}`
      assert.deepEqual(minted, { token: minted.token, url, jid: 'hook:team/github/ci' })
    },
    outside: async () => [
      [{ source_label: 'ci', target_folder: 'other' }, /^issue_webhook: not permitted on other/],
      [{ source_label: 'ci', target_folder: 'main' }, /^issue_webhook: not permitted on main/],
    ],
    bad: [
      [{}, 'source_label is required'],
      [{ source_label: '' }, /^source_label must be 1 to 64/],
      [{ source_label: 'a.b' }, /^source_label must be/],
      ...MINTING.map(([args, message]): [Args, string | RegExp] => [{ source_label: 'ci', ...args }, message]),
    ],
  },
  list_route_tokens: {
    granted: ['list_route_tokens', 'issue_chat_link'],
    sample: {},
    allowed: async ({ team, other }) => {
      await team.call('issue_chat_link', { context: 'Be brief.' })
      await other.call('issue_chat_link')
      const owned = { jid: 'web:team', owner_folder: 'team', target_folder: 'team', created_at: AT }
      assert.deepEqual(await team.call('list_route_tokens'), { tokens: [{ ...owned, context: 'Be brief.' }] })
    },
    bad: NO_ARGUMENTS,
  },
  revoke_route_token: {
    granted: ['revoke_route_token', 'issue_chat_link'],
    sample: { jid: 'web:team' },
    allowed: async ({ team }) => {
      for (const _ of [1, 2]) await team.call('issue_chat_link')
      assert.deepEqual(await team.call('revoke_route_token', { jid: 'web:team' }), { deleted: 2 })
      assert.equal(await team.refusal('revoke_route_token', { jid: 'web:team' }), 'there is no token at web:team')
    },
    outside: async ({ other, root }) => {
      await other.call('issue_chat_link')
      await root.call('issue_chat_link', { target_folder: 'team', jid_suffix: 'from-above' })
      return [
        [{ jid: 'web:other' }, /that issued web:other$/],
        // Delivery to the folder is not ownership.
        [{ jid: 'web:team/from-above' }, /that issued web:team\/from-above$/],
      ]
    },
    bad: [
      [{}, 'jid is required'],
      [{ jid: 'team' }, 'jid must look like platform:room'],
      [{ jid: 'web:a\nb' }, 'jid must not contain control characters'],
      [{ jid: 'web:team', owner_folder: 'team' }, 'unknown field "owner_folder"'],
    ],
  },
  add_route: {
    sample: { route: '{"target": "team"}' },
    allowed: async ({ team, root }) => {
      const route = { seq: -5, match: 'platform=telegram room=4* verb=mention', target: 'folder:team/a#observe' }
      const { id, ...rest } = await answer(team, 'add_route', { route: JSON.stringify(route) })
      assert.deepEqual([typeof id, rest], ['number', {}])
      assert.deepEqual(await routesOf(root), [{ id, ...route }])
      assert.equal(await team.refusal('add_route', { route: JSON.stringify(route) }), 'this route exists already')
      await team.call('add_route', { route: '{"target": "team"}' })
      assert.equal((await routesOf(root)).length, 2)
    },
    outside: async () =>
      ['other', 'teams', 'folder:other#x', 'daemon:mail', 'builtin:drop', '{sender}'].map((target) => [
        { route: JSON.stringify({ target }) },
        /^add_route: not permitted/,
      ]),
    bad: [
      [{}, 'route is required'],
      [{ route: { target: 'team' } }, 'route must be text'],
      [{ route: 'target=team' }, 'route must be JSON'],
      [{ route: '[]' }, 'route must be an object'],
      [{ route: 'null' }, 'route must be an object'],
      [{ route: '{}' }, 'route.target is required'],
      [{ route: '{"target": "team", "seq": 1.5}' }, /^route\.seq must be a/],
      [{ route: '{"target": "team", "seq": "1"}' }, /^route\.seq must be a/],
      [{ route: '{"target": "team", "seq": 1e300}' }, /^route\.seq/],
      [{ route: '{"target": "team", "match": "chat=1"}' }, /^route\.match has the unknown key "chat"/],
      [{ route: '{"target": "team", "match": "room"}' }, /^route\.match has "room", which is not key=glob/],
      [{ route: '{"target": "team", "match": "room=["}' }, /^route\.match has "room=\[", whose glob is malformed/],
      [{ route: '{"target": "builtin:../x"}' }, /^route\.target must be a folder/],
      [{ route: '{"target": "builtin:none"}' }, /^route\.target must be a folder/],
      [{ route: '{"target": "../other"}' }, /^route\.target must be a folder/],
      [{ route: '{"target": "team", "id": 1}' }, 'unknown field "route.id"'],
    ],
  },
  delete_route: {
    sample: { id: 1 },
    allowed: async ({ team, root }) => {
      const { id } = await answer(team, 'add_route', { route: '{"match": "room=1", "target": "team/a"}' })
      assert.deepEqual(await team.call('delete_route', { id }), { deleted: true, id })
      assert.deepEqual(await routesOf(root), [])
      assert.equal(await team.refusal('delete_route', { id }), `there is no route ${id}`)
    },
    outside: async ({ team, root, other }) => {
      const { id: theirs } = await answer(other, 'add_route', { route: '{"target": "other"}' })
      const { id: daemon } = await answer(root, 'add_route', { route: '{"target": "builtin:drop"}' })
      const { id: own } = await answer(team, 'add_route', { route: '{"seq": 0, "target": "team"}' })
      return [
        [{ id: theirs }, /^there is no route \d+$/],
        [{ id: daemon }, /^there is no route \d+$/],
        [{ id: own }, /^your own default route cannot be deleted$/],
      ]
    },
    bad: [
      [{}, 'id is required'],
      [{ id: 1.5 }, /^id must be a/],
      [{ id: '1' }, /^id must be a/],
      [{ id: 99 }, 'there is no route 99'],
      [{ id: -1 }, 'there is no route -1'],
    ],
  },
  list_routes: {
    granted: ['list_routes'],
    sample: {},
    allowed: async ({ team, other, root }) => {
      await root.call('add_route', { route: '{"match": "room=8", "target": "builtin:echo"}' })
      await other.call('add_route', { route: '{"match": "room=7", "target": "other"}' })
      const { id: late } = await answer(team, 'add_route', { route: '{"seq": 2, "match": "room=1", "target": "team"}' })
      const { id: early } = await answer(team, 'add_route', {
        route: '{"seq": -1, "match": "room=2", "target": "team/a"}',
      })
      assert.deepEqual(await team.call('list_routes'), {
        routes: [
          { id: early, seq: -1, match: 'room=2', target: 'team/a' },
          { id: late, seq: 2, match: 'room=1', target: 'team' },
        ],
      })
    },
    bad: NO_ARGUMENTS,
  },
  set_routes: {
    sample: { routes: '[]' },
    allowed: async ({ team, other, root }) => {
      const { id } = await answer(team, 'add_route', { route: '{"match": "room=1", "target": "team"}' })
      await team.call('add_route', { route: '{"match": "room=2", "target": "team/a"}' })
      const { id: theirs } = await answer(other, 'add_route', { route: '{"match": "room=7", "target": "other"}' })
      const wanted = [
        { seq: 0, match: 'room=1', target: 'team' },
        { seq: 3, match: 'room=3', target: 'team/a' },
      ]
      assert.deepEqual(await team.call('set_routes', { routes: JSON.stringify(wanted) }), { updated: true, count: 2 })
      const rows = await routesOf(root)
      assert.deepEqual(
        rows.map(({ match, target }) => `${match} ${target}`),
        ['room=1 team', 'room=7 other', 'room=3 team/a'],
      )
      // Unchanged routes keep their ids, and other subtrees keep their rows.
      assert.deepEqual([rows[0]?.id, rows[1]?.id], [id, theirs])
    },
    outside: async ({ team }) => {
      await team.call('add_route', { route: '{"match": "room=9", "target": "team"}' })
      return [
        [{ routes: '[{"target": "other"}]' }, /other is outside team/],
        [{ routes: '[{"target": "builtin:drop"}]' }, /builtin:drop is outside team/],
        [{ routes: '[]' }, /^your own default route cannot be deleted\nhint: include it in the new list$/],
      ]
    },
    bad: [
      [{}, 'routes is required'],
      [{ routes: [] }, 'routes must be text'],
      [{ routes: '{}' }, 'routes must be a list'],
      [{ routes: '[1]' }, 'routes.0 must be an object'],
      [{ routes: '[{"target": "team"}, {"target": "team"}]' }, 'the list contains a route twice'],
      [
        {
          routes: JSON.stringify(
            [...Array(499)].map((_, seq) => ({ seq, target: 'team' })).concat({ seq: 0.5, target: 'team' }),
          ),
        },
        /^routes\.499\.seq must be a/,
      ],
    ],
  },
  list_acl: {
    sample: { folder: 'team' },
    allowed: async ({ at, team }) => {
      await at.grant('github:1', 'admin', 'team')
      await at.grant('github:1', 'admin', 'team/**')
      const row = { principal: 'github:1', action: 'admin', scope: 'team', effect: 'allow', params: '', predicate: '' }
      assert.deepEqual(await team.call('list_acl', { folder: 'team' }), {
        folder: 'team',
        acl: [{ ...row, granted_by: 'cli', granted_at: AT }],
      })
      assert.deepEqual(await team.call('list_acl', { folder: 'team/a' }), { folder: 'team/a', acl: [] })
    },
    outside: async () => [
      [{ folder: 'other' }, /^list_acl: not permitted on other/],
      [{ folder: 'main' }, /^list_acl: not permitted on main/],
    ],
    bad: [
      [{}, 'folder is required'],
      [{ folder: '' }, 'folder must not be empty'],
      [{ folder: '**' }, /^folder must be names/],
      [{ folder: 'team', scope: 'team' }, 'unknown field "scope"'],
    ],
  },
  invite_create: {
    sample: { target_glob: 'team/a' },
    allowed: async ({ team }) => {
      const invited = await answer(team, 'invite_create', { target_glob: 'team/**' })
      assert.match(String(invited.token), TOKEN)
      const accept_url = `http://localhost:8080/invite/${invited.token}`
      assert.deepEqual(invited, { token: invited.token, target_glob: 'team/**', max_uses: 1, accept_url })
      const limited = { target_glob: 'team/a', max_uses: 3, expires_at: '2026-02-01T01:00:00+01:00' }
      const { token: _, accept_url: __, ...rest } = await answer(team, 'invite_create', limited)
      assert.deepEqual(rest, { ...limited, expires_at: '2026-02-01T00:00:00.000Z' })
    },
    outside: async () =>
      ['**', '*', 'other', 'other/**', 'te*', '*/a', 'teams/**', 'main'].map((target_glob) => [
        { target_glob },
        /^invite_create: not permitted: your authority does not cover /,
      ]),
    bad: [
      [{}, 'target_glob is required'],
      [{ target_glob: '' }, /^target_glob must be a folder or a folder glob/],
      [{ target_glob: 'team/[' }, 'target_glob is not a folder glob'],
      [{ target_glob: 'team//a' }, /^target_glob has a segment that/],
      [{ target_glob: 'team', max_uses: 0 }, 'max_uses must be at least 1'],
      [{ target_glob: 'team', max_uses: -1 }, 'max_uses must be at least 1'],
      [{ target_glob: 'team', max_uses: 1.5 }, /^max_uses must be a/],
      [{ target_glob: 'team', expires_at: 'soon' }, /^expires_at must be an RFC 3339 time/],
      [{ target_glob: 'team', expires_at: '2026-02-30T00:00:00Z' }, /^expires_at must be/],
      [{ target_glob: 'team', expires_at: '2026-02-01T00:00:00' }, /^expires_at must be/],
      [{ target_glob: 'team', expires_at: '2025-12-31T23:59:59Z' }, 'expires_at is in the past'],
      [{ target_glob: 'team', expires_at: '9999-12-31T23:59:59-12:00' }, 'expires_at is after 9999'],
      [{ target_glob: 'team', issued_by_sub: 'github:1' }, 'unknown field "issued_by_sub"'],
    ],
  },
  list_web_routes: {
    sample: {},
    allowed: async ({ team, other }) => {
      await team.call('set_web_route', { path: '/pub/team/b', access: 'auth' })
      await team.call('set_web_route', { path: '/a', access: 'redirect', redirect_to: '/pub/team/b' })
      await other.call('set_web_route', { path: '/pub/other/', access: 'public' })
      assert.deepEqual(await team.call('list_web_routes'), [
        { path_prefix: '/a', access: 'redirect', redirect_to: '/pub/team/b', folder: 'team', created_at: AT },
        { path_prefix: '/pub/team/b', access: 'auth', folder: 'team', created_at: AT },
      ])
    },
    bad: NO_ARGUMENTS,
  },
  set_web_route: {
    sample: { path: '/pub/team/x', access: 'public' },
    allowed: async ({ team }) => {
      assert.equal(await team.call('set_web_route', { path: '/pub/team/x', access: 'public' }), 'ok')
      assert.equal(
        await team.call('set_web_route', { path: '/pub/team/x', access: 'redirect', redirect_to: '/priv/team/y' }),
        'ok',
      )
      assert.equal(await team.call('set_web_route', { path: '/pub/team/x', access: 'deny' }), 'ok')
      assert.deepEqual(await team.call('list_web_routes'), [
        { path_prefix: '/pub/team/x', access: 'deny', folder: 'team', created_at: AT },
      ])
    },
    outside: async ({ other }) => {
      await other.call('set_web_route', { path: '/shop/', access: 'public' })
      return [
        [{ path: '/pub/other/x', access: 'public' }, /^\/pub\/other\/x is another folder's slot$/],
        [{ path: '/pub/teams/x', access: 'public' }, /another folder's slot/],
        [{ path: '/priv/', access: 'public' }, /another folder's slot/],
        [{ path: '/shop/', access: 'deny' }, /^\/shop\/ is claimed by folder other$/],
        [{ path: '/shop/cart', access: 'deny' }, /^\/shop\/ is claimed by folder other$/],
        [{ path: '/', access: 'deny' }, /^\/ belongs to the front door$/],
        [{ path: '/team', access: 'redirect', redirect_to: '/pub/other/' }, /^redirect_to must point into/],
      ]
    },
    bad: [
      [{}, 'path is required; access is required'],
      [{ path: 'pub/team', access: 'public' }, 'path must start with /'],
      [{ path: '/pub/team/../other', access: 'public' }, 'path must not contain . or .. as a segment'],
      [{ path: '/pub//team', access: 'public' }, 'path must not contain //'],
      [{ path: '/pub/team/%2e%2e', access: 'public' }, /^path must not contain spaces/],
      [{ path: '/pub/team?a', access: 'public' }, /^path must not contain spaces/],
      [{ path: `/${'x'.repeat(1024)}`, access: 'public' }, 'path is longer than 1024 characters'],
      [{ path: '/pub/team', access: 'open' }, 'access must be one of public, auth, deny, redirect'],
      [{ path: '/pub/team', access: 'redirect' }, 'redirect_to is required when access is redirect'],
      [
        { path: '/pub/team', access: 'public', redirect_to: '/pub/team/a' },
        'redirect_to is allowed only with access redirect',
      ],
      [{ path: '/a', access: 'redirect', redirect_to: 'https://evil.example' }, 'redirect_to must start with /'],
      [{ path: '/a', access: 'redirect', redirect_to: '//evil.example' }, 'redirect_to must not contain //'],
      [{ path: '/pub/team', access: 'public', folder: 'other' }, 'unknown field "folder"'],
    ],
  },
  del_web_route: {
    sample: { path: '/pub/team/x' },
    allowed: async ({ team, root, other }) => {
      await team.call('set_web_route', { path: '/pub/team/x', access: 'public' })
      assert.equal(await team.call('del_web_route', { path: '/pub/team/x' }), 'ok')
      await other.call('set_web_route', { path: '/pub/other/', access: 'public' })
      assert.equal(await root.call('del_web_route', { path: '/pub/other/' }), 'ok')
      assert.deepEqual(await root.call('list_web_routes'), [])
    },
    outside: async ({ other }) => {
      await other.call('set_web_route', { path: '/pub/other/', access: 'public' })
      return [[{ path: '/pub/other/' }, /^there is no web route \/pub\/other\/, or it is not yours$/]]
    },
    bad: [
      [{}, 'path is required'],
      [{ path: '/pub/none' }, 'there is no web route /pub/none, or it is not yours'],
      [{ path: 'x' }, 'path must start with /'],
      [{ path_prefix: '/pub/team' }, 'path is required; unknown field "path_prefix"'],
    ],
  },
  schedule_task: {
    sample: { targetJid: 'team', prompt: 'Look.' },
    allowed: async ({ team, root }) => {
      const args = { targetJid: 'team', prompt: 'Look.', cron: '*/5 * * * *' }
      const { taskId, ...rest } = await answer(team, 'schedule_task', args)
      assert.match(String(taskId), new RegExp(`^task-${Date.parse(AT)}-[0-9a-f]{8}$`))
      assert.deepEqual(rest, {})
      // A repeated call returns the same task.
      assert.deepEqual(await team.call('schedule_task', args), { taskId })
      assert.deepEqual(await taskOf(root, taskId), {
        ...{ id: taskId, owner: 'team', chat_jid: 'team', prompt: 'Look.', cron: '*/5 * * * *' },
        ...{
          next_run: '2026-01-01T00:05:00.000Z',
          status: 'active',
          context_mode: 'group',
          created_at: AT,
          reach: 'all',
        },
      })
      for (const [cron, next_run, kept] of [
        [undefined, AT, undefined],
        ['60000', '2026-01-01T00:01:00.000Z', '60000'],
        ['2026-03-01T10:00:00+02:00', '2026-03-01T08:00:00.000Z', undefined],
        ['2020-01-01T00:00:00Z', '2020-01-01T00:00:00.000Z', undefined],
      ] as const) {
        const once = await answer(team, 'schedule_task', {
          targetJid: 'team/a',
          prompt: 'Once.',
          ...(cron ? { cron } : {}),
        })
        const task = await taskOf(root, once.taskId)
        assert.deepEqual([task?.owner, task?.next_run, task?.cron], ['team/a', next_run, kept])
      }
    },
    outside: async () => [
      [{ targetJid: 'other', prompt: 'Look.' }, /^schedule_task: not permitted on other/],
      [{ targetJid: 'web:other', prompt: 'Look.' }, /^schedule_task: not permitted on web:other$/],
    ],
    bad: [
      [{}, 'targetJid is required; prompt is required'],
      [{ targetJid: 'team', prompt: ' \n ' }, 'prompt must not be empty'],
      [{ targetJid: 'team', prompt: 'x'.repeat(100_001) }, 'prompt is longer than 100000 characters'],
      [{ targetJid: 'telegram:1', prompt: 'x' }, 'no group is registered for telegram:1'],
      [{ targetJid: 'team', prompt: 'x', cron: '' }, /^cron must not be empty/],
      [{ targetJid: 'team', prompt: 'x', contextMode: 'alone' }, 'contextMode must be one of group, isolated'],
      ...['* * * *', '60 * * * *', '0 0 31 2 *', '* * * * * *', '@reboot', '0', '1', String(2 ** 53), '2026-13-01'].map(
        (cron): [Args, RegExp] => [{ targetJid: 'team', prompt: 'x', cron }, /^invalid cron /],
      ),
      [{ targetJid: 'team', prompt: 'x', cron: 60_000 }, 'cron must be text'],
      [{ targetJid: 'team', prompt: 'x', owner: 'other' }, 'unknown field "owner"'],
    ],
  },
  list_tasks: {
    sample: {},
    allowed: async ({ team, other }) => {
      await other.call('schedule_task', { targetJid: 'other', prompt: 'Theirs.' })
      const { taskId } = await answer(team, 'schedule_task', { targetJid: 'team', prompt: 'Ours.' })
      const tasks = await team.call('list_tasks')
      assert.ok(Array.isArray(tasks))
      assert.ok(tasks.some(({ id }) => id === taskId))
      assert.ok(tasks.every(({ owner }) => owner === 'team' || owner === 'team/a'))
    },
    bad: NO_ARGUMENTS,
  },
  pause_task: {
    sample: { taskId: 'team-mem-0' },
    allowed: async ({ team, root }) => {
      for (const _ of [1, 2]) {
        assert.deepEqual(await team.call('pause_task', { taskId: 'team-mem-0' }), { ok: true })
        assert.equal((await taskOf(root, 'team-mem-0'))?.status, 'paused')
      }
    },
    outside: async () => [[{ taskId: 'other-mem-0' }, /^there is no task other-mem-0$/]],
    bad: [...TASK_ID, [{ taskId: 'none' }, 'there is no task none']],
  },
  resume_task: {
    sample: { taskId: 'team-mem-0' },
    allowed: async ({ at, team, root }) => {
      await team.call('pause_task', { taskId: 'team-mem-0' })
      at.clock.advance(3 * 24 * 3_600_000)
      assert.deepEqual(await team.call('resume_task', { taskId: 'team-mem-0' }), { ok: true })
      const task = await taskOf(root, 'team-mem-0')
      assert.deepEqual([task?.status, task?.next_run], ['active', '2026-01-04T02:00:00.000Z'])
      assert.deepEqual(await team.call('resume_task', { taskId: 'team-mem-0' }), { ok: true })
      assert.deepEqual(await team.call('resume_task', { taskId: 'none' }), { ok: true })
    },
    outside: async () => [[{ taskId: 'other-mem-0' }, /^there is no task other-mem-0$/]],
    bad: TASK_ID,
  },
  cancel_task: {
    sample: { taskId: 'team-mem-0' },
    allowed: async ({ team, root }) => {
      await team.call('pause_task', { taskId: 'team-mem-1' })
      for (const taskId of ['team-mem-0', 'team-mem-1']) {
        assert.deepEqual(await team.call('cancel_task', { taskId }), { ok: true })
        assert.equal(await taskOf(root, taskId), undefined)
        assert.equal(await team.refusal('cancel_task', { taskId }), `there is no task ${taskId}`)
      }
    },
    outside: async () => [[{ taskId: 'other-mem-0' }, /^there is no task other-mem-0$/]],
    bad: [...TASK_ID, [{ taskId: 'none' }, 'there is no task none']],
  },
  refresh_groups: {
    sample: {},
    allowed: async ({ team, root }) => {
      assert.deepEqual(await team.call('refresh_groups'), [
        { folder: 'team', name: 'team' },
        { folder: 'team/a', name: 'a', parent: 'team' },
      ])
      assert.deepEqual(await root.call('refresh_groups'), [
        { folder: 'main', name: 'main' },
        { folder: 'other', name: 'other' },
        { folder: 'team', name: 'team' },
        { folder: 'team/a', name: 'a', parent: 'team' },
      ])
    },
    bad: NO_ARGUMENTS,
  },
  'network_rules.allow': {
    granted: ['network_rules.allow'],
    sample: { folder: 'team', target: 'api.example' },
    allowed: async ({ team }) => {
      const rule = { folder: 'team', target: 'API.example.' }
      assert.deepEqual(await team.call('network_rules.allow', rule), { added: true, target: 'api.example' })
      assert.deepEqual(await team.call('network_rules.allow', rule), { added: false, target: 'api.example' })
    },
    outside: async () => [
      [{ folder: 'other', target: 'api.example' }, /not permitted on other/],
      [{ folder: '', target: 'api.example' }, /^network_rules\.allow: not permitted/],
    ],
    bad: [
      [{ folder: 'team' }, 'target is required'],
      [{ folder: 'team', target: '*.example' }, /^target must not contain a wildcard/],
      [{ folder: 'team', target: '127.0.0.1' }, /^target must be a host name, not an IP/],
      [{ folder: 'team/none', target: 'a.example' }, 'there is no group team/none'],
    ],
  },
  'network_rules.denied': {
    granted: ['network_rules.denied'],
    sample: {},
    allowed: async ({ at, team }) => {
      const denial = { host: 'a.example', port: 443, reason: 'blocked-by-allowlist', count: 1 }
      await at.host.engine.transaction((tx) =>
        recordDenials(
          tx,
          ['team', 'other'].map((folder) => ({ ...denial, folder, at: AT })),
        ),
      )
      const row = { ...denial, sni: '', folder: 'team', first_at: AT, last_at: AT }
      assert.deepEqual(await team.call('network_rules.denied'), { network_denials: [row] })
      assert.deepEqual(await team.call('network_rules.denied', { folder: 'other' }), { network_denials: [] })
    },
    bad: [[{ folder: '' }, 'folder must not be empty']],
  },
  'network_rules.deny': {
    granted: ['network_rules.allow', 'network_rules.deny'],
    sample: { folder: 'team', target: 'api.example' },
    allowed: async ({ team }) => {
      await team.call('network_rules.allow', { folder: 'team', target: 'api.example' })
      assert.equal(await team.call('network_rules.deny', { folder: 'team', target: 'api.example' }), 'ok')
    },
    outside: async () => [[{ folder: 'other', target: 'api.example' }, /not permitted on other/]],
    bad: [[{ folder: 'team', target: 'none.example' }, 'team has no rule for none.example']],
  },
  'network_rules.list': {
    granted: ['network_rules.allow', 'network_rules.list'],
    sample: {},
    allowed: async ({ team, other }) => {
      await team.call('network_rules.allow', { folder: 'team', target: 'a.example' })
      await other.call('network_rules.allow', { folder: 'other', target: 'b.example' })
      const rule = { folder: 'team', target: 'a.example', created_at: AT, created_by: 'folder:team' }
      assert.deepEqual(await team.call('network_rules.list'), { network_rules: [rule] })
      assert.deepEqual(await team.call('network_rules.list', { folder: 'other' }), { network_rules: [] })
    },
    bad: [[{ limit: 5 }, 'unknown field "limit"']],
  },
  'network_rules.resolve': {
    granted: ['network_rules.allow', 'network_rules.resolve'],
    sample: { folder: 'team' },
    allowed: async ({ team }) => {
      await team.call('network_rules.allow', { folder: 'team', target: 'a.example' })
      const { hosts } = await answer(team, 'network_rules.resolve', { folder: 'team/a' })
      assert.ok(Array.isArray(hosts) && hosts.includes('a.example'), JSON.stringify(hosts))
    },
    outside: async () => [[{ folder: 'other' }, /not permitted on other/]],
    bad: [[{}, 'folder is required']],
  },
  'audit.list': {
    granted: ['audit.list'],
    sample: {},
    allowed: async ({ team, other }) => {
      await other.call('set_web_route', { path: '/pub/other/', access: 'public' })
      await team.call('set_web_route', { path: '/pub/team/', access: 'public' })
      const { audit } = await answer(team, 'audit.list', { limit: 1000 })
      assert.ok(Array.isArray(audit))
      const [{ id, duration_ms, ...row }] = audit
      assert.equal(audit.length, 1)
      assert.deepEqual([typeof id, typeof duration_ms], ['number', 'number'])
      assert.deepEqual(row, {
        ...{ created_at: AT, category: 'mutation', action: 'web_routes.set', actor: 'folder:team' },
        ...{ resource: 'web_routes', key: '/pub/team/', surface: 'tool', outcome: 'ok', folder: 'team' },
        ...{ instance: 'test', params_summary: '{"path":"/pub/team/","access":"public"}' },
      })
    },
    bad: [
      [{ limit: '10' }, 'limit must be a number'],
      [{ category: 'all' }, 'category must be one of mutation, authz'],
      [{ after: 'x' }, 'unknown field "after"'],
    ],
  },
  'installed_packages.list': {
    granted: ['installed_packages.list'],
    sample: {},
    allowed: async ({ team }) =>
      assert.deepEqual(await team.call('installed_packages.list'), { installed_packages: [] }),
    bad: NO_ARGUMENTS,
  },
}

/** Tools for the whole instance: the root may call them, a caller with a grant for a folder may not. */
const INSTANCE_CASES: Record<string, { prepare?: [string, Args][]; args: Args; answer: unknown }> = {
  'proxyd_routes.list': { args: {}, answer: { proxyd_routes: [] } },
  'proxyd_routes.create': {
    args: { path: '/x/', backend: 'http://127.0.0.1:9', auth: 'user' },
    answer: { path: '/x/', backend: 'http://127.0.0.1:9', auth: 'user' },
  },
  'proxyd_routes.update': {
    prepare: [['proxyd_routes.create', { path: '/x/', backend: 'http://127.0.0.1:9', auth: 'user' }]],
    args: { path: '/x/', auth: 'operator' },
    answer: { path: '/x/', backend: 'http://127.0.0.1:9', auth: 'operator' },
  },
  'proxyd_routes.delete': {
    prepare: [['proxyd_routes.create', { path: '/x/', redirect_to: '/y/', auth: 'public' }]],
    args: { path: '/x/' },
    answer: 'ok',
  },
  'web_hosts.list': {
    prepare: [['set_web_host', { hostname: 'a.example', folder: 'main' }]],
    args: {},
    answer: { web_hosts: [{ hostname: 'a.example', folder: 'main' }] },
  },
  'web_hosts.delete': {
    prepare: [['set_web_host', { hostname: 'a.example', folder: 'main' }]],
    args: { hostname: 'a.example' },
    answer: 'ok',
  },
  'onboarding.list': { args: {}, answer: { onboarding: [] } },
  'onboarding_gates.list': { args: {}, answer: { onboarding_gates: [] } },
  'onboarding_gates.create': {
    args: { spec: 'team/*', daily_limit: 3 },
    answer: { spec: 'team/*', daily_limit: 3, enabled: true },
  },
  'onboarding_gates.update': {
    prepare: [['onboarding_gates.create', { spec: 'team/*', daily_limit: 3 }]],
    args: { spec: 'team/*', enabled: false },
    answer: { spec: 'team/*', daily_limit: 3, enabled: false },
  },
  'onboarding_gates.delete': {
    prepare: [['onboarding_gates.create', { spec: 'team/*', daily_limit: 3 }]],
    args: { spec: 'team/*' },
    answer: 'ok',
  },
}
/** Needs a row that only a web page creates. */
const UNTESTED = ['onboarding.update']

const unknown = (name: string) => ({ code: -32602, message: `unknown tool: ${name}` })

async function answer(session: ToolSession, name: string, args?: Args): Promise<Args> {
  const result = await session.call(name, args)
  assert.ok(typeof result === 'object' && result !== null && !Array.isArray(result), `${name}: ${String(result)}`)
  return { ...result }
}

async function rowsOf(session: ToolSession, name: string, member?: string): Promise<Args[]> {
  const rows: unknown = member ? (await answer(session, name))[member] : await session.call(name)
  assert.ok(Array.isArray(rows))
  return rows
}

const routesOf = (session: ToolSession) => rowsOf(session, 'list_routes', 'routes')

async function taskOf(session: ToolSession, id: unknown): Promise<Args | undefined> {
  return (await rowsOf(session, 'list_tasks')).find((task) => task.id === id)
}

async function openStage(t: TestContext, engine: EngineName, granted: readonly string[] = []): Promise<Stage> {
  const at = await testHost(t, engine)
  await at.groups('main', 'team', 'team/a', 'other')
  for (const folder of ['team', 'other'])
    for (const tool of granted) await at.grant(`folder:${folder}`, `mcp:${tool}`, `${folder}/**`)
  const open = (folder: string) => openTools(t, at.host, agent(folder))
  return { at, root: await open('main'), team: await open('team'), other: await open('other') }
}

/** Rows that a refused call must not change. */
async function snapshot({ root }: Stage): Promise<unknown> {
  return Promise.all(
    ['list_routes', 'list_web_routes', 'list_route_tokens', 'list_tasks', 'network_rules.list'].map((name) =>
      root.call(name),
    ),
  )
}

onEveryEngine('tools', (engine) => {
  for (const [name, { granted, allowed }] of Object.entries(CASES)) {
    test(`${name}: returns the result of the specification`, async (t) => {
      await allowed(await openStage(t, engine, granted))
    })
  }

  for (const [name, { prepare = [], args, answer }] of Object.entries(INSTANCE_CASES)) {
    test(`${name}: allowed for the root, refused with a grant for a folder`, async (t) => {
      const { at, root, team } = await openStage(t, engine)
      for (const [tool, toolArgs] of prepare) await root.call(tool, toolArgs)
      await assert.rejects(team.call(name, args), unknown(name))
      await at.grant('folder:team', `mcp:${name}`, 'team/**')
      assert.match(await team.refusal(name, args), new RegExp(`^${name}: not permitted`))
      assert.deepEqual(await root.call(name, args), answer)
    })
  }
})

for (const [name, { granted, outside, bad, sample }] of Object.entries(CASES)) {
  suite(`${name}: refused`, () => {
    if (outside)
      test('outside the folder', async (t) => {
        const here = await openStage(t, 'sqlite', granted)
        for (const [args, message] of await outside(here)) {
          const before = await snapshot(here)
          assert.match(await here.team.refusal(name, args), message, JSON.stringify(args))
          assert.deepEqual(await snapshot(here), before, JSON.stringify(args))
        }
      })

    test('with invalid arguments', async (t) => {
      const here = await openStage(t, 'sqlite', granted)
      const before = await snapshot(here)
      for (const [args, message] of bad) {
        const text = await here.team.refusal(name, args)
        if (typeof message === 'string') assert.equal(text, message, JSON.stringify(args).slice(0, 200))
        else assert.match(text, message, JSON.stringify(args).slice(0, 200))
      }
      assert.deepEqual(await snapshot(here), before)
    })

    test('without a rule, and with a deny', async (t) => {
      const here = await openStage(t, 'sqlite', granted)
      await here.root.call('add_route', { route: '{"match": "room=1", "target": "team"}' })
      const stranger = await openTools(t, here.at.host, agent('team/a/b/c'))
      await here.at.grant('folder:team', `mcp:${name}`, '**', 'deny')
      const before = await snapshot(here)
      await assert.rejects(stranger.call(name, sample), unknown(name))
      assert.match(await here.team.refusal(name, sample), /not permitted/)
      assert.deepEqual(await snapshot(here), before)
    })
  })
}

test('tests every tool', () => {
  const tested = [...Object.keys(CASES), ...Object.keys(INSTANCE_CASES), ...UNTESTED]
  assert.deepEqual(tested.toSorted(), [...TOOL_VERBS.keys()].toSorted())
})
