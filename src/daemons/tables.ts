// Every table of the product, in creation order.
import { coreTables } from '../core/index.ts'
import { resources } from '../resources/index.ts'
import type { StoredTable } from '../store/migrate.ts'

export const PRODUCT_TABLES: readonly StoredTable[] = [
  ...new Set([...coreTables, ...resources.map(({ table }) => table)]),
]
