// Rows that strangers create, such as device codes and registrations of clients. At a limit the oldest unused row of the network
// with the most of them gives way, so that a flood neither closes the endpoint nor removes rows of other networks.
import { refuse } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import { execute, integer, query, text } from '../../store/statement.ts'

export interface UnusedRows {
  readonly table: 'device_codes' | 'oauth_clients'
  readonly key: string
  /** The condition of rows that no person has used yet. */
  readonly unused: string
  /** Names the rows in errors. */
  readonly label: string
  readonly max: number
  readonly networkMax: number
}

/** Makes room for one row of the network. Rows that a person has used stay, whatever their number. */
export async function makeRoom(tx: Tx, rows: UnusedRows, network: string): Promise<void> {
  const { table, unused, label, max, networkMax } = rows
  const ofNetwork = `select count(*) as n from ${table} where network = $1 and ${unused}`
  const [own] = await query(tx, { n: integer }, ofNetwork, [network])
  if ((own?.n ?? 0) >= networkMax) await removeOldest(tx, rows, network)
  for (;;) {
    const [all] = await query(tx, { n: integer }, `select count(*) as n from ${table}`)
    if ((all?.n ?? 0) < max) return
    const [largest] = await query(
      tx,
      { network: text },
      `select network from ${table} where ${unused} group by network order by count(*) desc, min(created_at) limit 1`,
    )
    if (!largest) refuse('rate_limited', `this server has too many ${label}`, 'try again later')
    await removeOldest(tx, rows, largest.network)
  }
}

async function removeOldest(tx: Tx, { table, key, unused }: UnusedRows, network: string): Promise<void> {
  const oldest = `select ${key} from ${table} where network = $1 and ${unused} order by created_at, ${key} limit 1`
  await execute(tx, `delete from ${table} where ${key} in (${oldest})`, [network])
}
