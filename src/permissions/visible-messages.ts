// Which messages a person at the dashboard may see: those of folders that they administer, and for operators all others too.
import {
  type AdministrationContext,
  adminFilter,
  administeredRoots,
  canOperate,
  INSTANCE_SCOPE,
} from '../registry/authorization.ts'

export interface VisibleMessages {
  /** Subtrees that contain all visible folders; absent: any folder may be visible. */
  readonly roots?: readonly string[] | undefined
  /** Undefined for messages that no folder has. */
  readonly maySee: (folder: string | undefined) => boolean
}

export async function visibleMessages(ctx: AdministrationContext): Promise<VisibleMessages> {
  if (ctx.caller.kind === 'host') return { maySee: () => true }
  const mayAdmin = await adminFilter(ctx)
  if (await canOperate(ctx, INSTANCE_SCOPE)) return { maySee: (folder) => folder === undefined || mayAdmin(folder) }
  return {
    roots: await administeredRoots(ctx),
    maySee: (folder) => folder !== undefined && mayAdmin(folder),
  }
}

/** Whether there can be messages that the person may see. */
export async function hasVisibleMessages(ctx: AdministrationContext): Promise<boolean> {
  const roots = await administeredRoots(ctx)
  return roots === undefined || roots.length > 0
}
