// All tools of agents, for the sockets of folders and of runs.
import { createToolList, resourceTools, standaloneTools, type ToolList } from '../../faces/tool-list.ts'
import { resources } from '../../resources/index.ts'
import { tools } from '../../tools/index.ts'

export function agentTools(): ToolList {
  return createToolList([...resourceTools(resources), ...standaloneTools(tools)])
}
