// The paths of the front door itself: whatever rows say, these stay what they are.

/** Where links, sign-in and the API live. A path that one of these begins, or is, is no row's. */
export const FRONT_PATHS = [
  '/chat',
  '/hook',
  '/invite',
  '/pair',
  '/auth',
  '/dash',
  '/mcp',
  '/v1',
  '/openapi',
  '/openapi.json',
  '/health',
  '/metrics',
  '/robots.txt',
] as const

export function isFrontPath(path: string): boolean {
  return FRONT_PATHS.some((own) => path === own || (path.startsWith(own) && path[own.length] === '/'))
}
