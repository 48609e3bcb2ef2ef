// The position of a folder: its tier, its world (the first segment of its path) and the folders it reaches; and the default rules of each tier.

export type Tier = 0 | 1 | 2 | 3

/** Tier 0, and the ancestor of every other folder. See docs/decisions.md#the-root-folder. */
export const ROOT_FOLDER = 'main'

/** See docs/decisions.md#tiers. */
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

/** By the path only: a top-level folder has no parent. */
export function parentFolderOf(folder: string): string | undefined {
  const slash = folder.lastIndexOf('/')
  return slash < 0 ? undefined : folder.slice(0, slash)
}

/** From the top down: `a/b` gives `a`, `a/b`. */
export function selfAndAncestors(folder: string): string[] {
  const folders: string[] = []
  for (let slash = folder.indexOf('/'); slash >= 0; slash = folder.indexOf('/', slash + 1)) {
    folders.push(folder.slice(0, slash))
  }
  return [...folders, folder]
}

/** Whether the folder is `ancestor` or below it, by the path only. */
export function containsFolder(ancestor: string, folder: string): boolean {
  return folder === ancestor || folder.startsWith(`${ancestor}/`)
}

/** The root reaches every folder, any other folder its own subtree. See docs/decisions.md#containment. */
export function mayReachFolder(from: string, to: string): boolean {
  return from === ROOT_FOLDER || containsFolder(from, to)
}

/** The tiers that a tool declares. */
export interface ToolTiers {
  /** The highest tier that may have the tool, whatever the acl rows allow. Default: any. */
  readonly max?: 0 | 1 | 2
  /** The highest tier that has the tool without an acl row, within its reach. Default: 0. */
  readonly granted?: Tier
}

/** Why a folder of this tier can never have the tool; undefined if it can. */
export function tierFault(tool: string, { max }: ToolTiers, tier: Tier): string | undefined {
  if (max === undefined || tier <= max) return undefined
  return `the tool ${tool} is for ${max === 0 ? 'tier 0 only' : `tiers 0 to ${max}`}`
}

/** The default rule that gives a folder of this tier the tool, if there is one. */
export function defaultRule(tool: string, { granted = 0 }: ToolTiers, tier: Tier): string | undefined {
  if (tier === 0) return '*'
  return tier <= granted ? tool : undefined
}
