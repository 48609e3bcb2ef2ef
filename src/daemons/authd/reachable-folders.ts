// The folders that a person may talk to.
import { checkAccess } from '../../core/access/policy.ts'
import { groups } from '../../core/groups/groups.ts'
import { subjectOf } from '../../registry/authorization.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { ascending } from '../../registry/crud.ts'
import type { SignedIn } from '../http/signed-in.ts'

/** A longer list would help no person; the command line has no such limit. */
const FOLDERS_MAX = 500

export async function reachableFolders(host: InstanceHost, { request: { caller } }: SignedIn): Promise<string[]> {
  return host.engine.read(async (tx) => {
    const [rows, policy] = [await groups.list(tx, {}, ascending('folder')), await host.policies.read(tx)]
    const subject = subjectOf(caller)
    return rows
      .map(({ folder }) => folder)
      .filter((scope) => checkAccess(policy, subject, { action: 'interact', scope }).allow)
      .slice(0, FOLDERS_MAX)
  })
}
