// The tools as an agent of each tier reads them, without any acl row.
import { compilePolicy } from '../../src/core/access.ts'
import { tierOf } from '../../src/core/tiers.ts'
import { hotToolsOf, shownTo, toolList, toolsOf } from '../../src/faces/mcp.ts'
import { resources } from '../../src/resources/index.ts'
import { tools } from '../../src/tools/index.ts'

const FOLDERS = ['main', 'team', 'team/a/b', 'team/a/b/c']

export function toolsText(): string {
  const list = toolList([...toolsOf(resources), ...hotToolsOf(tools)])
  const policy = compilePolicy([], [])
  const tiers = FOLDERS.map((folder) => [`tier ${tierOf(folder)}`, shownTo(list, policy, { kind: 'agent', folder })])
  return `${JSON.stringify(Object.fromEntries(tiers), null, 2)}\n`
}
