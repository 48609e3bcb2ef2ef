// What the API description of each daemon says about itself: its part, and where everything is described that is no
// operation of a resource.
import type { DaemonName } from './settings.ts'

const NO_RESOURCE = 'It owns no resource, so this document has no paths.'

export const DESCRIPTIONS: Readonly<Record<DaemonName, string>> = {
  proxyd:
    'The front door: it hands each request to the daemon that serves it. The documents of the other daemons are at ' +
    '/openapi/{daemon}.json here. Links, /mcp and published pages, which are no operations, are described in docs/links.md ' +
    'and docs/operating.md.',
  routd:
    'Decides where messages go, and serves what decides it. What adapters of chat platforms use (/v1/channels, /v1/messages) ' +
    'is described in docs/channels.md; what a scheduler uses (/v1/tasks/due, /v1/tasks/runlog, /v1/tasks/{id}/reschedule) ' +
    'in docs/operating.md.',
  webd:
    `Answers the links that are handed out. ${NO_RESOURCE} Links (/chat/{token}/, /hook/{token}), the tools of a link ` +
    '(/chat/{token}/mcp) and the tools of a person (/mcp) are described in docs/links.md.',
  gated:
    `Gives each agent its tools, on unix sockets and not over HTTP. ${NO_RESOURCE} The sockets are described in ` +
    'docs/agents.md; an operation whose handler is a tool too names it as x-mcp-tool in the document of its daemon.',
  runed: 'Runs the turns of the agents. Turns and runtimes are described in docs/agents.md and docs/runtimes.md.',
  authd: 'Signs bearers and keeps the keys. GET /v1/keys answers with the public keys (a JSON Web Key Set).',
  onbod: 'Lets newcomers in.',
  timed:
    `Fires scheduled tasks, as a client of routd. ${NO_RESOURCE} Tasks are in the document of routd; what timed asks of it is ` +
    'described in docs/operating.md.',
  dashd: `The dashboard of operators. ${NO_RESOURCE} What it shows is in the documents of the other daemons.`,
}
