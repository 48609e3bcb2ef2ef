// The introduction of each daemon's OpenAPI document: its purpose, and where paths outside of resources are documented.
import type { DaemonName } from './settings.ts'

const NO_RESOURCE = 'It owns no resource, so this document has no paths.'

export const API_DESCRIPTIONS: Readonly<Record<DaemonName, string>> = {
  proxyd:
    'Public entry point: forwards each request to the daemon that serves it. The documents of the other daemons are at ' +
    '/openapi/{daemon}.json. Links, /mcp, /openai and published pages, which are not operations, are described in docs/links.md ' +
    'and docs/operating.md.',
  routd:
    'Routes messages and serves the resources that routing depends on. The API for adapters of chat platforms (/v1/channels, /v1/messages) ' +
    'is described in docs/channels.md; the API for a scheduler (/v1/tasks/due, /v1/tasks/runlog, /v1/tasks/{id}/reschedule) ' +
    'in docs/operating.md.',
  webd:
    `Serves chat and hook links. ${NO_RESOURCE} Links (/chat/{token}/, /hook/{token}), the tools of a link ` +
    '(/chat/{token}/mcp), the tools of a person (/mcp) and the interface for OpenAI clients (/chat/{token}/v1, /openai/v1) are ' +
    'described in docs/links.md.',
  gated:
    `Serves the tools of agents on Unix sockets, not over HTTP. ${NO_RESOURCE} The sockets are described in ` +
    'docs/agents.md; an operation that is also a tool names it as x-mcp-tool in the document of its daemon.',
  runed: 'Runs the turns of the agents. Turns and runtimes are described in docs/agents.md and docs/runtimes.md.',
  authd:
    'Signs people in and signs bearer tokens. GET /v1/keys returns the public keys (a JSON Web Key Set). The OAuth endpoints ' +
    '(/auth/authorize, /auth/token and others) and their discovery are described in docs/oauth.md.',
  onbod: 'Onboards new people: gates, invites and requests.',
  timed:
    `Fires scheduled tasks, as a client of routd. ${NO_RESOURCE} Tasks are in the document of routd; the API that timed uses is ` +
    'described in docs/operating.md.',
  dashd: `The dashboard of operators. ${NO_RESOURCE} What it shows is in the documents of the other daemons.`,
}
