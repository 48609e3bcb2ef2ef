// Format of the tokens in link and invite URLs: 32 random bytes as base64url.
// core/links/link-token.ts creates, hashes and parses them.

export const TOKEN_BYTES = 32
export const TOKEN_LENGTH = 43
/** The last character carries four bits: its two unused bits must be zero, so each token has one spelling. */
export const TOKEN_LAST_CHARACTER = '[AEIMQUYcgkosw048]'
