// Where a folder stands: its tier, its world, whom it reaches, and what the specification gives each tier.

export type Tier = 0 | 1 | 2 | 3

/** The root folder: tier 0, and for reach the ancestor of every other (decisions A1, A9). */
export const ROOT_FOLDER = 'main'

/** Decision A1: only the root is 0, so that a new top-level folder is not an operator by its place alone. */
export function tierOf(folder: string): Tier {
  if (folder === ROOT_FOLDER) return 0
  const slashes = folder.split('/').length - 1
  if (slashes <= 1) return 1
  return slashes === 2 ? 2 : 3
}

export function worldOf(folder: string): string {
  return folder.split('/', 1)[0] ?? folder
}

export function folderBaseName(folder: string): string {
  return folder.slice(folder.lastIndexOf('/') + 1)
}

/** By the path alone; a top-level folder has none. */
export function parentFolderOf(folder: string): string | undefined {
  const slash = folder.lastIndexOf('/')
  return slash < 0 ? undefined : folder.slice(0, slash)
}

/** From the world down to the folder itself: `a/b` gives `a`, `a/b`. */
export function selfAndAncestors(folder: string): string[] {
  const folders: string[] = []
  for (let slash = folder.indexOf('/'); slash >= 0; slash = folder.indexOf('/', slash + 1)) {
    folders.push(folder.slice(0, slash))
  }
  return [...folders, folder]
}

/** Equal or below, by the path alone: `team` holds `team/a` but not `teams`. */
export function containsFolder(ancestor: string, folder: string): boolean {
  return folder === ancestor || folder.startsWith(`${ancestor}/`)
}

/** Decisions A5 and A9: the root reaches every folder, any other its own subtree. */
export function mayReachFolder(from: string, to: string): boolean {
  return from === ROOT_FOLDER || containsFolder(from, to)
}

/** A tool's declaration: which tiers may have it, and which have it without an acl row. */
export interface ToolTiers {
  /** The highest tier that may have the tool, whatever the acl rows say; absent: any. */
  readonly max?: 0 | 1 | 2
  /** The highest tier that has the tool by default, within its reach; absent: 0, the root alone. */
  readonly granted?: Tier
}

/** Why a folder of this tier can never have the tool, whatever its rules say; undefined when it can. */
export function bracketFault(tool: string, { max }: ToolTiers, tier: Tier): string | undefined {
  if (max === undefined || tier <= max) return undefined
  return `the tool ${tool} is for ${max === 0 ? 'tier 0 only' : `tiers 0 to ${max}`}`
}

/** The default rule that gives a folder of this tier the tool, in the rule grammar; undefined when there is none. */
export function defaultRule(tool: string, { granted = 0 }: ToolTiers, tier: Tier): string | undefined {
  if (tier === 0) return '*'
  return tier <= granted ? tool : undefined
}
