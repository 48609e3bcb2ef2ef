// Paths that proxyd serves itself. Rows cannot override them.

const RESERVED_PATHS: readonly string[] = [
  ...['/chat', '/hook', '/invite', '/pair', '/onboard', '/auth', '/dash', '/mcp', '/v1', '/openapi', '/openapi.json'],
  ...['/health', '/healthz', '/livez', '/metrics', '/robots.txt'],
  // Not all of /.well-known: backends use other names below it.
  ...['/.well-known/oauth-authorization-server', '/.well-known/openid-configuration'],
  '/.well-known/oauth-protected-resource',
]

export function isReservedPath(path: string): boolean {
  return RESERVED_PATHS.some(
    (reserved) => path === reserved || (path.startsWith(reserved) && path[reserved.length] === '/'),
  )
}
