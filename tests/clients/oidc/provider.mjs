// A real provider of OpenID Connect over TLS: npm's oidc-provider with three people in it. It says where it is, hears where it may lead back to,
// and then answers until its input ends.
import { generateKeyPairSync } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:https'
import { createInterface } from 'node:readline'
import Provider from 'oidc-provider'

const { cert, key, clientId, secret } = JSON.parse(process.argv[2])
const PEOPLE = {
  ada: { email: 'ada@shop.example', email_verified: true, groups: ['waybill-ops', 'everybody'], teams: ['*'] },
  ben: { email: 'ben@shop.example', email_verified: false, groups: ['waybill-viewers'], teams: ['acme'] },
  eve: { email: 'eve@shop.example', email_verified: true, groups: ['admin', 'everybody'], teams: ['acme'] },
}

const server = createServer({ cert: readFileSync(cert), key: readFileSync(key) })
await new Promise(listening => server.listen(0, '127.0.0.1', listening))
const issuer = `https://localhost:${server.address().port}`
console.log(issuer)

const lines = createInterface({ input: process.stdin })
const redirect = await new Promise(heard => lines.once('line', heard))
lines.on('close', () => process.exit(0))

const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
const provider = new Provider(issuer, {
  clients: [{
    client_id: clientId, client_secret: secret, redirect_uris: [redirect], grant_types: ['authorization_code'], response_types: ['code'],
    token_endpoint_auth_method: 'client_secret_basic',
  }],
  jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), kid: 'k1', use: 'sig', alg: 'RS256' }] },
  cookies: { keys: ['a-key-of-the-cookies-of-this-one-run'] },
  pkce: { required: () => true },
  scopes: ['openid', 'email', 'groups'],
  claims: { openid: ['sub'], email: ['email', 'email_verified'], groups: ['groups', 'teams'] },
  // Into the ID token, where a host looks for them.
  conformIdTokenClaims: false,
  findAccount: (_, id) => PEOPLE[id] && { accountId: id, claims: () => ({ sub: id, ...PEOPLE[id] }) },
})
provider.on('server_error', (_, error) => console.error(error))
server.on('request', provider.callback())
console.log('ready')
