// Loads openid-client with the first sign-in, and the parts of its configuration that all providers share.
import type { ClientAuth } from 'openid-client'

export type OpenIdClient = typeof import('openid-client')

export const REQUEST_TIMEOUT_S = 10

export function loadOpenIdClient(): Promise<OpenIdClient> {
  return import('openid-client')
}

/** The method that the provider lists; without a list, HTTP Basic is the default of OpenID Connect. */
export function chooseClientAuth({ ClientSecretBasic, ClientSecretPost }: OpenIdClient, secret: string): ClientAuth {
  const [basic, post] = [ClientSecretBasic(secret), ClientSecretPost(secret)]
  return (server, client, body, headers) => {
    const methods = server.token_endpoint_auth_methods_supported ?? ['client_secret_basic']
    const authenticate = methods.includes('client_secret_basic') ? basic : post
    authenticate(server, client, body, headers)
  }
}

/** The settings admit plain HTTP on this machine only. */
export function isLoopbackHttp({ protocol }: URL): boolean {
  return protocol === 'http:'
}
