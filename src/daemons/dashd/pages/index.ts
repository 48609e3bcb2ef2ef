// All pages, in the order of the navigation.
import { folderPage } from '../folder/page.ts'
import type { DashPage } from '../page.ts'
import { searchPage } from '../palette.ts'
import { accessPage } from './access.ts'
import { admissionsPage } from './admissions.ts'
import { approvalsPage } from './approvals.ts'
import { auditPage } from './audit.ts'
import { channelsPage } from './channels.ts'
import { costsPage } from './costs.ts'
import { doctorPage } from './doctor.ts'
import { foldersPage } from './folders.ts'
import { homePage } from './home.ts'
import { invitesPage } from './invites.ts'
import { manifestPage } from './manifest.ts'
import { mePage } from './me.ts'
import { messageStoryPage } from './message.ts'
import { messagesPage } from './messages.ts'
import { modelPage } from './model.ts'
import { packagesPage } from './packages.ts'
import { peoplePage } from './people.ts'
import { onePersonPage } from './person.ts'
import { proxyRoutesPage } from './proxy-routes.ts'
import { resourceListPage, resourcePage } from './resources.ts'
import { settingsPage } from './settings.ts'
import { signingKeysPage } from './signing-keys.ts'
import { tasksPage } from './tasks.ts'
import { turnPage } from './turn.ts'
import { turnsPage } from './turns.ts'

export const pages: readonly DashPage[] = [
  homePage,
  foldersPage,
  folderPage,
  messagesPage,
  messageStoryPage,
  turnsPage,
  turnPage,
  approvalsPage,
  tasksPage,
  costsPage,
  peoplePage,
  invitesPage,
  admissionsPage,
  accessPage,
  mePage,
  channelsPage,
  modelPage,
  manifestPage,
  proxyRoutesPage,
  packagesPage,
  settingsPage,
  doctorPage,
  auditPage,
  resourcePage,
  onePersonPage,
  resourceListPage,
  signingKeysPage,
  searchPage(() => pages),
]
