// The tools as an agent of each tier reads them, without any acl row.
import { compilePolicy } from '../../src/core/access/policy.ts'
import { tierOf } from '../../src/core/access/tiers.ts'
import { createToolList, resourceTools, standaloneTools, toolsVisibleTo } from '../../src/faces/tool-list.ts'
import { resources } from '../../src/resources/index.ts'
import { tools } from '../../src/tools/index.ts'

const FOLDERS = ['main', 'team', 'team/a/b', 'team/a/b/c']

export function toolsText(): string {
  const list = createToolList([...resourceTools(resources), ...standaloneTools(tools)])
  const policy = compilePolicy([], [])
  const tiers = FOLDERS.map((folder) => [
    `tier ${tierOf(folder)}`,
    toolsVisibleTo(list, policy, { kind: 'agent', folder }),
  ])
  return `${JSON.stringify(Object.fromEntries(tiers), null, 2)}\n`
}
