// Paths that proxyd serves itself. Rows cannot override them.

const RESERVED_PATHS: readonly string[] = [
  ...['/chat', '/hook', '/invite', '/pair', '/onboard', '/auth', '/dash', '/mcp', '/v1', '/openapi', '/openapi.json'],
  ...['/health', '/metrics', '/robots.txt'],
]

export function isReservedPath(path: string): boolean {
  return RESERVED_PATHS.some(
    (reserved) => path === reserved || (path.startsWith(reserved) && path[reserved.length] === '/'),
  )
}
