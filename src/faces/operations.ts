// Operations of a resource over HTTP: one list that `rest.ts` mounts and `openapi.ts` describes.
import type { HttpRoute, NamedVerb, Resource, ServingDaemon } from '../registry/resource.ts'

type HttpMethod = 'GET' | 'POST' | 'PATCH' | 'DELETE'

/** One placeholder of a path and the input members that it carries: several for a composite key. */
export interface PathParameter {
  readonly name: string
  readonly members: readonly string[]
}

export interface Operation {
  /** <verb>_<resource>: code generators use it as a method name. */
  readonly id: string
  readonly method: HttpMethod
  /** The full path with placeholders: /v1/route_tokens/{jid}. */
  readonly path: string
  readonly resource: Resource
  readonly verb: NamedVerb
  readonly parameters: readonly PathParameter[]
  /** Where the members go that are not in the path. */
  readonly inputLocation: 'query' | 'body'
}

export function httpOperations(resource: Resource): Operation[] {
  return Object.values(resource.verbs).flatMap((verb) =>
    verb.http ? [createOperation(resource, verb, verb.http)] : [],
  )
}

export function resourcesServedBy(daemon: ServingDaemon, resources: readonly Resource[]): Resource[] {
  return resources.filter((resource) => resource.servedBy.includes(daemon))
}

function createOperation(resource: Resource, verb: NamedVerb, route: HttpRoute): Operation {
  const [method, subpath = '/'] = route.split(' ')
  const path = resource.path + (subpath === '/' ? '' : subpath)
  return {
    id: `${verb.verb}_${resource.name}`,
    // `HttpRoute` allows only these methods; `split` loses that.
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
