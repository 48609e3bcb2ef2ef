// The export of a small instance with something of everything that a manifest holds.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openHost } from '../../src/daemons/process/host.ts'
import { manifestVerbs } from '../../src/faces/manifest/manifest-verbs.ts'
import { callVerb } from '../../src/registry/call.ts'
import type { RequestContext } from '../../src/registry/context.ts'
import { aclResource } from '../../src/resources/acl.ts'
import { aclMembershipResource } from '../../src/resources/acl-membership.ts'
import { groupsResource } from '../../src/resources/groups.ts'
import { resources } from '../../src/resources/index.ts'
import { networkRulesResource } from '../../src/resources/network-rules.ts'
import { onboardingGatesResource } from '../../src/resources/onboarding-gates.ts'
import { proxydRoutesResource } from '../../src/resources/proxyd-routes.ts'
import { scheduledTasksResource } from '../../src/resources/scheduled-tasks.ts'
import { secretsResource } from '../../src/resources/secrets.ts'
import { webRoutesResource } from '../../src/resources/web-routes.ts'
import { fakeClock, seededRandom } from '../support/clock.ts'

const PROMPT = `Look through yesterday's tickets.

Answer with:
  - what is open
  - who waits`

export async function exportGolden(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-golden-'))
  const host = await openHost({
    instance: 'golden',
    store: { path: join(folder, 'svc.db'), create: true },
    secretsKey: 'a key of the tests',
    webBase: 'http://localhost:8080',
    clock: fakeClock(),
    random: seededRandom(),
  })
  try {
    const asking: RequestContext = { host, caller: { kind: 'host', sub: 'cli' }, face: 'cli' }
    await seed(asking)
    return await callVerb(asking, manifestVerbs(resources).export, {})
  } finally {
    await host.close()
    rmSync(folder, { recursive: true })
  }
}

async function seed(asking: RequestContext): Promise<void> {
  await callVerb(asking, groupsResource.verbs.add, { folder: 'main', jid: 'web:main' })
  await callVerb(asking, groupsResource.verbs.add, { folder: 'team/support', jid: 'discord:1/2', name: 'Support & Co' })
  await callVerb(asking, groupsResource.verbs.set_budget, { folder: 'team/support', daily: 500 })
  await callVerb(asking, aclResource.verbs.grant, { principal: 'github:42', action: 'admin', scope: 'team/**' })
  await callVerb(asking, aclMembershipResource.verbs.add, { subject: 'github:1', role: 'role:operator' })
  await callVerb(asking, networkRulesResource.verbs.allow, { folder: 'team/support', target: 'api.example.com' })
  await callVerb(asking, onboardingGatesResource.verbs.create, { spec: 'team/*', daily_limit: 5 })
  await callVerb(asking, proxydRoutesResource.verbs.create, {
    path: '/docs/',
    backend: 'http://127.0.0.1:9000',
    auth: 'user',
    preserve_headers: ['X-Request-Id', 'Accept'],
    strip_prefix: true,
    escapes: 'keep',
  })
  await callVerb(asking, scheduledTasksResource.verbs.schedule, {
    targetJid: 'web:main',
    prompt: PROMPT,
    cron: '0 7 * * 1-5',
  })
  await callVerb(asking, webRoutesResource.verbs.create, {
    path_prefix: '/pub/team/',
    access: 'public',
    folder: 'team/support',
  })
  await callVerb(asking, secretsResource.verbs.create, {
    scope_kind: 'folder',
    owner: 'main',
    key: 'API_KEY',
    value: 'hush',
  })
}
