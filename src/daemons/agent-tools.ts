// Every tool that agents can have, whichever socket they use.
import { hotToolsOf, type ToolList, toolList, toolsOf } from '../faces/mcp.ts'
import { resources } from '../resources/index.ts'
import { tools } from '../tools/index.ts'

export function agentTools(): ToolList {
  return toolList([...toolsOf(resources), ...hotToolsOf(tools)])
}
