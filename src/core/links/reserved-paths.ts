// Paths that rows cannot take, compared without case: a person would take /Login for the page of this host, and a folder must
// not answer for it.

/** Served by the daemons. No row can take them. */
const OWN_PATHS: readonly string[] = [
  ...['/chat', '/hook', '/invite', '/pair', '/onboard', '/auth', '/dash', '/mcp', '/v1', '/openapi', '/openapi.json'],
  ...['/health', '/healthz', '/livez', '/metrics', '/line', '/openai', '/channels', '/robots.txt'],
  ...['/.well-known/oauth-authorization-server', '/.well-known/openid-configuration'],
  '/.well-known/oauth-protected-resource',
]

/** About the whole host: sign-in pages, and what browsers, crawlers and certificate authorities ask for by themselves. */
const HOST_PATHS: readonly string[] = [
  ...['/.well-known', '/login', '/logout', '/signin', '/sign-in', '/favicon.ico', '/apple-touch-icon.png'],
  ...['/apple-touch-icon-precomposed.png', '/browserconfig.xml', '/manifest.json', '/manifest.webmanifest'],
  ...['/sitemap.xml', '/security.txt', '/ads.txt', '/app-ads.txt', '/crossdomain.xml', '/clientaccesspolicy.xml'],
]
/** With a size, such as /apple-touch-icon-120x120.png. */
const SIZED_ICON = /^\/apple-touch-icon-[^/]*\.png(?:\/|$)/i

/** Whether proxyd or another daemon answers there. */
export function isOwnPath(path: string): boolean {
  return isAtOrBelow(OWN_PATHS, path)
}

/** Whether operators cannot route the path to a backend: /.well-known is handed out by single names. */
export function isReservedFromRoutes(path: string): boolean {
  return isOwnPath(path) || /^\/\.well-known\/?$/i.test(path)
}

/** Whether folders cannot take the path. Operators route it with a row of proxyd_routes. */
export function isReservedFromFolders(path: string): boolean {
  return isOwnPath(path) || isAtOrBelow(HOST_PATHS, path) || SIZED_ICON.test(path)
}

function isAtOrBelow(reserved: readonly string[], path: string): boolean {
  const lower = path.toLowerCase()
  return reserved.some((name) => lower === name || (lower.startsWith(name) && lower[name.length] === '/'))
}
