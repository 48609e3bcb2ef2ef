// Signing keys: which ones there are and how they stand. Never the keys themselves.
import { signingKeys } from '../core/signing-keys.ts'
import { list } from '../registry/crud.ts'
import { granted, INSTANCE } from '../registry/needs.ts'
import { resource } from '../registry/resource.ts'

export const signingKeysResource = resource({
  of: signingKeys,
  title: 'SigningKeys',
  servedBy: 'authd',
  verbs: (table) => ({
    list: list(table, 'signing_keys', {
      needs: granted(() => INSTANCE),
      order: [
        ['created_at', 'desc'],
        ['kid', 'asc'],
      ],
    }),
  }),
})
