// Signs in with a passkey and adds one. These few lines replace @simplewebauthn/browser. They convert binary members by hand:
// older browsers lack the JSON helpers of PublicKeyCredential, and those of some password managers throw.

type Json = Readonly<Record<string, unknown>>

function startPasskeys(): void {
  for (const section of document.querySelectorAll<HTMLElement>('[data-passkey]')) {
    const form = section.querySelector('form')
    if (!form || !('credentials' in navigator) || !('PublicKeyCredential' in window)) continue
    section.hidden = false
    document.querySelector('[data-without-passkeys]')?.setAttribute('hidden', '')
    // A passkey belongs to one origin; elsewhere the browser would only say that something failed.
    const { origin = '' } = section.dataset
    if (location.origin !== origin) showOwnAddress(section, form, origin)
    else form.addEventListener('submit', (event) => void submitPasskey(event, section, form))
  }
}

function showOwnAddress(section: HTMLElement, form: HTMLFormElement, origin: string): void {
  form.hidden = true
  const notice = section.querySelector<HTMLElement>('.elsewhere')
  const link = notice?.querySelector('a')
  if (notice) notice.hidden = false
  if (link) link.href = origin + location.pathname + location.search
}

async function submitPasskey(event: Event, section: HTMLElement, form: HTMLFormElement): Promise<void> {
  event.preventDefault()
  const [button, fault] = [form.querySelector('button'), section.querySelector<HTMLElement>('[role=alert]')]
  if (button) button.disabled = true
  if (fault) fault.hidden = true
  try {
    location.assign(section.dataset.passkey === 'add' ? await addPasskey(section, form) : await signIn(form))
  } catch (error) {
    if (button) button.disabled = false
    if (!fault) return
    fault.textContent = explain(error)
    fault.hidden = false
  }
}

/** Returns the path to go to. */
async function signIn(form: HTMLFormElement): Promise<string> {
  const { challenge, ...options } = await post('/auth/passkey/options', {})
  const publicKey = { ...options, challenge: toBytes(challenge) }
  const credential = await navigator.credentials.get({ publicKey })
  const { next } = await post('/auth/passkey/sign-in', { response: toJson(credential), next: form.dataset.next })
  return String(next)
}

async function addPasskey(section: HTMLElement, form: HTMLFormElement): Promise<string> {
  const { csrf = '' } = section.dataset
  const options = await post('/auth/passkeys/options', {}, csrf)
  // The server has made these options from the same type.
  const {
    challenge,
    user,
    excludeCredentials,
    extensions: _,
    ...rest
  } = options as unknown as PublicKeyCredentialCreationOptionsJSON
  const publicKey = {
    ...rest,
    challenge: toBytes(challenge),
    user: { ...user, id: toBytes(user.id) },
    excludeCredentials: (excludeCredentials ?? []).map(({ id }) => ({ id: toBytes(id), type: 'public-key' })),
  } as PublicKeyCredentialCreationOptions
  const credential = await navigator.credentials.create({ publicKey })
  const name = String(new FormData(form).get('name') ?? '').trim()
  await post('/auth/passkeys', { response: toJson(credential), ...(name === '' ? {} : { name }) }, csrf)
  return '/auth/passkeys'
}

async function post(path: string, body: Json, csrf?: string): Promise<Json> {
  const answer = await fetch(path, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...(csrf === undefined ? {} : { 'X-CSRF-Token': csrf }) },
    body: JSON.stringify(body),
  })
  const reply: Json = await answer.json()
  if (!answer.ok) throw new ServerRefusal([reply.detail, reply.hint].filter(Boolean).map(toSentence).join(' '))
  return reply
}

class ServerRefusal extends Error {}

function toSentence(text: unknown): string {
  const sentence = String(text)
  return `${sentence.slice(0, 1).toUpperCase()}${sentence.slice(1)}${/[.!?]$/.test(sentence) ? '' : '.'}`
}

function explain(error: unknown): string {
  if (error instanceof ServerRefusal) return error.message
  const name = error instanceof Error ? error.name : ''
  if (name === 'InvalidStateError') return 'This device already has a passkey of yours for this server.'
  if (name === 'NotAllowedError')
    return 'No passkey was used: it was cancelled, took too long, or this device has none for this server.'
  if (name === 'NotSupportedError') return 'This device cannot keep a passkey of the kind that this server needs.'
  if (name === 'TypeError') return 'The server did not respond. Check the connection and try again.'
  return 'The browser refused the passkey. Try again, or sign in another way.'
}

function toJson(credential: Credential | null): Json {
  if (!(credential instanceof PublicKeyCredential)) throw new ServerRefusal('The browser returned no passkey.')
  const { id, rawId, type, response } = credential
  const shared = { clientDataJSON: toText(response.clientDataJSON) }
  if (response instanceof AuthenticatorAttestationResponse) {
    const transports = response.getTransports?.() ?? []
    const attestationObject = toText(response.attestationObject)
    return { id, rawId: toText(rawId), type, response: { ...shared, attestationObject, transports } }
  }
  if (!(response instanceof AuthenticatorAssertionResponse)) throw new ServerRefusal('The browser returned no passkey.')
  const { authenticatorData, signature, userHandle } = response
  return {
    id,
    rawId: toText(rawId),
    type,
    response: {
      ...shared,
      authenticatorData: toText(authenticatorData),
      signature: toText(signature),
      userHandle: userHandle && toText(userHandle),
    },
  }
}

function toBytes(text: unknown): Uint8Array<ArrayBuffer> {
  const binary = atob(String(text).replaceAll('-', '+').replaceAll('_', '/'))
  return Uint8Array.from(binary, (character) => character.charCodeAt(0))
}

function toText(buffer: ArrayBuffer): string {
  const binary = String.fromCharCode(...new Uint8Array(buffer))
  return btoa(binary).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
}

startPasskeys()
