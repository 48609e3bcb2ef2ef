// Paths of a sign-in at a provider.

export function providerPath(provider: string): string {
  return `/auth/provider/${provider}`
}

export function callbackPath(provider: string): string {
  return `${providerPath(provider)}/callback`
}

/** Where a sign-in with the provider begins. */
export function startPath(provider: string, next: string | undefined): string {
  return `${providerPath(provider)}${nextQuery(next)}`
}

export function signInPagePath(next: string | undefined): string {
  return `/auth/sign-in${nextQuery(next)}`
}

/** For a signed-in person who has to sign in again. */
export function signInAgainPath(next: string): string {
  return `/auth/sign-in?again=1&next=${encodeURIComponent(next)}`
}

function nextQuery(next: string | undefined): string {
  return next === undefined ? '' : `?next=${encodeURIComponent(next)}`
}
