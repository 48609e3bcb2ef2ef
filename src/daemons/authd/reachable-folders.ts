// The folders that a person may talk to.
import { allowedScopes, checkAccess } from '../../core/access/policy.ts'
import { groups } from '../../core/groups/groups.ts'
import { rootsOf, subjectOf } from '../../registry/authorization.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { ascending } from '../../registry/crud.ts'
import type { SignedIn } from '../http/signed-in.ts'

/** A longer list would help no person; the command line has no such limit. */
const FOLDERS_MAX = 500

export async function reachableFolders(host: InstanceHost, { request: { caller } }: SignedIn): Promise<string[]> {
  return host.engine.read(async (tx) => {
    const [policy, subject] = [await host.policies.read(tx), subjectOf(caller)]
    const paths = rootsOf(allowedScopes(policy, subject, 'interact'))
    const { rows } = await groups.page(tx, {
      order: ascending('folder'),
      limit: FOLDERS_MAX,
      below: paths && { column: 'folder', paths },
      keep: ({ folder: scope }) => checkAccess(policy, subject, { action: 'interact', scope }).allow,
    })
    return rows.map(({ folder }) => folder)
  })
}
