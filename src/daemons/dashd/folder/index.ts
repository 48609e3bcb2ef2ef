// All views of a folder, in the order of its tabs. The first is shown by default.
import { agentView } from './agent.ts'
import { budgetView } from './budget.ts'
import { chatView } from './chat.ts'
import { childrenView } from './children.ts'
import { grantsView } from './grants.ts'
import { linksView } from './links.ts'
import { networkView } from './network.ts'
import { overviewView } from './overview.ts'
import { removeView } from './remove.ts'
import { routesView } from './routes.ts'
import { secretsView } from './secrets.ts'
import { sessionsView } from './sessions.ts'
import { tasksView } from './tasks.ts'
import type { FolderView } from './view.ts'
import { webView } from './web.ts'

export const folderViews: readonly FolderView[] = [
  overviewView,
  agentView,
  chatView,
  linksView,
  tasksView,
  routesView,
  webView,
  grantsView,
  secretsView,
  networkView,
  budgetView,
  sessionsView,
  childrenView,
  removeView,
]
