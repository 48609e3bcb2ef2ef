// The target of a redirect after sign-in: a path of this server, or nothing.

/** Other forms lead elsewhere in some browser: `//host`, `/\host`, tabs and newlines, which browsers drop. */
const OWN_PATH = /^\/(?![/\\])[\x21-\x5b\x5d-\x7e]{0,2000}$/

/** Undefined unless the text is a path of this server, with an optional query. */
export function ownPath(text: string | undefined): string | undefined {
  if (text === undefined || (text !== '/' && !OWN_PATH.test(text))) return undefined
  const url = URL.parse(text, 'http://own.invalid')
  if (url?.host !== 'own.invalid' || url.pathname.startsWith('//')) return undefined
  return `${url.pathname}${url.search}`
}
