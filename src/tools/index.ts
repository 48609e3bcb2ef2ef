// All tools that are not verbs of a resource.
import type { NamedVerb } from '../registry/resource.ts'
import { costTools } from './cost.ts'
import { delegateTools } from './delegate.ts'
import { engageTools } from './engage.ts'
import { fileTools } from './file.ts'
import { groupSettingsTools } from './group-settings.ts'
import { historyTools } from './history.ts'
import { injectTools } from './inject.ts'
import { inspectTools } from './inspect.ts'
import { messageActionTools } from './message-actions.ts'
import { messageEditTools } from './message-edits.ts'
import { paneTools } from './pane.ts'
import { registerGroupTools } from './register-group.ts'
import { relayTools } from './relay.ts'
import { searchTools } from './search.ts'
import { sendTools } from './send.ts'
import { topicTools } from './topics.ts'
import { voiceTools } from './voice.ts'
import { webHostTools } from './web-host.ts'
import { workFileTools } from './work-file.ts'

export const tools: readonly NamedVerb[] = [
  ...delegateTools,
  ...engageTools,
  ...groupSettingsTools,
  ...injectTools,
  ...registerGroupTools,
  ...topicTools,
  ...webHostTools,
  ...workFileTools,
  ...messageActionTools,
  ...costTools,
  ...fileTools,
  ...paneTools,
  ...relayTools,
  ...messageEditTools,
  ...sendTools,
  ...voiceTools,
  ...historyTools,
  ...searchTools,
  ...inspectTools,
]
