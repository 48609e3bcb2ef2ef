// Chats that a route names: whoever else would take one of them takes it from the folder that has it.
import { compileSegments, isGlob } from '../lib/glob.ts'
import { roomOf } from './routes.ts'

/** What a route says of the one chat that it names; the platform may be left open. */
interface NamedChat {
  readonly platform?: string | undefined
  readonly room: string
  readonly chat_jid?: string | undefined
}

interface Row {
  readonly seq: number
  readonly match: string
}

interface Claim extends Row {
  readonly chat: NamedChat
}

/** The routes that name a chat by its room or its JID, ready to be asked. */
export class RouteClaims {
  readonly #byRoom = new Map<string, Claim[]>()

  constructor(rows: Iterable<Row>) {
    for (const { seq, match } of rows) {
      const chat = namedIn(match)
      if (!chat) continue
      const known = this.#byRoom.get(chat.room)
      if (known) known.push({ seq, match, chat })
      else this.#byRoom.set(chat.room, [{ seq, match, chat }])
    }
  }

  /** Whether a new route would take any of what is said in one of these chats. */
  takes({ seq, match }: Row): boolean {
    const [tokens, own] = [tokensOf(match), namedIn(match)]
    const rooms = own ? [this.#byRoom.get(own.room) ?? []] : this.#byRoom.values()
    for (const claims of rooms) {
      // What stands behind a route that takes all of the chat takes nothing of it.
      const before = claims.filter((claim) => claim.seq <= seq && isWhole(claim.match))
      const isBehind = ({ chat }: Claim) => before.some((claim) => mayTake(tokensOf(claim.match), chat))
      if (claims.some((claim) => mayTake(tokens, claim.chat) && !isBehind(claim))) return true
    }
    return false
  }
}

function isWhole(match: string): boolean {
  return !/(^|\s)(sender|verb)=/.test(match)
}

function tokensOf(match: string): Map<string, string> {
  const tokens = match.split(/\s+/).filter(Boolean)
  return new Map(tokens.map((token) => [token.slice(0, token.indexOf('=')), token.slice(token.indexOf('=') + 1)]))
}

function namedIn(match: string): NamedChat | undefined {
  const tokens = tokensOf(match)
  const [jid, room, platform] = ['chat_jid', 'room', 'platform'].map((key) => literal(tokens.get(key)))
  if (jid?.includes(':')) return { platform: jid.slice(0, jid.indexOf(':')), room: roomOf(jid), chat_jid: jid }
  if (room === undefined) return undefined
  return { platform, room, chat_jid: platform === undefined ? undefined : `${platform}:${room}` }
}

function literal(glob: string | undefined): string | undefined {
  return glob === undefined || glob === '' || isGlob(glob) ? undefined : glob
}

/** `sender` and `verb` are left open: also a part of what is said in a chat is the chat's. */
function mayTake(tokens: ReadonlyMap<string, string>, { platform, room, chat_jid }: NamedChat): boolean {
  const fits = (glob: string | undefined, value: string | undefined): boolean =>
    glob === undefined || value === undefined || (compileSegments(glob)?.(value) ?? false)
  const jid = tokens.get('chat_jid')
  if (!fits(tokens.get('platform'), platform) || !fits(tokens.get('room'), room)) return false
  if (chat_jid !== undefined || jid === undefined || !jid.includes(':')) return fits(jid, chat_jid)
  return fits(roomOf(jid), room)
}
