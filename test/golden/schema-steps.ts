// The number of storage steps of each table, as a module.
import { PRODUCT_TABLES } from '../../src/daemons/tables.ts'

export function schemaStepsText(): string {
  const lines = PRODUCT_TABLES.map(({ name, storage }) => `  ${name}: ${storage.length},\n`)
  return `// How many storage steps each table has. \`npm run golden\` writes this file: a store that has just these steps is current, and is
// opened without loading the declarations of all tables.
export const SCHEMA_STEPS: Readonly<Record<string, number>> = {
${lines.join('')}}
`
}
