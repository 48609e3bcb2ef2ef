// What a resource offers over HTTP: the one list that REST mounts, the API description shows and the remote client follows.
import type { NamedVerb, Resource, ServingDaemon } from '../registry/resource.ts'

export type HttpMethod = 'GET' | 'POST' | 'PATCH' | 'DELETE'

/** One placeholder of a path, and the members of the input that it carries: several when it is a composite key. */
export interface PathParameter {
  readonly name: string
  readonly members: readonly string[]
}

export interface Operation {
  /** <verb>_<resource>: generators make a method name of it. */
  readonly id: string
  readonly method: HttpMethod
  /** In full, with placeholders: /v1/route_tokens/{jid}. */
  readonly path: string
  readonly resource: Resource
  readonly verb: NamedVerb
  readonly parameters: readonly PathParameter[]
  /** Where the members stand that the path does not carry. */
  readonly inputLocation: 'query' | 'body'
}

export function httpOperations(resource: Resource): Operation[] {
  return Object.values(resource.verbs).flatMap((verb) => (verb.http ? [operation(resource, verb, verb.http)] : []))
}

/** The resources of a daemon: what it mounts is what it describes. */
export function resourcesServedBy(daemon: ServingDaemon, resources: readonly Resource[]): Resource[] {
  return resources.filter((resource) => resource.servedBy.includes(daemon))
}

function operation(resource: Resource, verb: NamedVerb, http: `${HttpMethod} /${string}`): Operation {
  const [, method, below = '/'] = /^(\S+) (\S+)$/.exec(http) ?? []
  const path = resource.path + (below === '/' ? '' : below)
  return {
    id: `${verb.verb}_${resource.name}`,
    // The type of `http` says which methods there are; the pattern cannot.
    method: method as HttpMethod,
    path,
    resource,
    verb,
    parameters: [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => ({
      name,
      members: name === 'pk' ? resource.key : [name],
    })),
    inputLocation: method === 'GET' || method === 'DELETE' ? 'query' : 'body',
  }
}
