// An OIDC provider (npm oidc-provider) on loopback.
// usage: node provider.mjs PATH_OF_OIDC_PROVIDER
// env: PORT (0 = any), ISSUER_END (what the issuer ends with, such as /), CLIENT_REDIRECTS (comma list), JWKS (a file),
//      AT_TTL, CODE_TTL, ID_TTL, RT_TTL (seconds), GROUPS (alice=admins,staff;bob=staff), STORE (a file that outlives it)
// The first line on stdout is {"issuer","port","pid"}. Any name logs in with any password; `nobody` does not exist, and
// the address of `unverified` is not verified.
// For special cases: GROUPS_CLAIM (what groups are called), SIGNING (ES256 or PS256: a key of that kind is made), NOTES (a
// file for what is asked where tokens and clients are made and answered, a line of JSON each), VISITS (a file for the path of every
// request, a line each), DELAY (a file with the milliseconds that every request waits), DOCUMENTS (clients may be the
// addresses of documents, also on this machine).
import { generateKeyPairSync } from 'node:crypto';
import * as files from 'node:fs';
import { createServer } from 'node:http';
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const { default: Provider } = await import(pathToFileURL(process.argv[2]));
const env = (name, otherwise) => process.env[name] || otherwise;
const seconds = (name, otherwise) => Number(env(name, otherwise));

const server = createServer();
await new Promise((listening) => server.listen(Number(env('PORT', 0)), '127.0.0.1', listening));
const { port } = server.address();
const issuer = `http://127.0.0.1:${port}${env('ISSUER_END', '')}`;

// Everything that it must know after a restart, as a list of what happened.
const kept = new Map();
const happened = {
  set: ({ key, value, until }) => kept.set(key, { value, until }),
  consumed: ({ key, at }) => { const it = kept.get(key); if (it) it.value.consumed = at; },
  gone: ({ key }) => kept.delete(key),
  revoked: ({ grant }) => { for (const [key, { value }] of kept) if (value.grantId === grant) kept.delete(key); },
};
const note = (what, it) => {
  happened[what](it);
  appendFileSync(process.env.STORE, `${JSON.stringify([what, it])}\n`);
};
if (process.env.STORE && existsSync(process.env.STORE)) {
  for (const line of readFileSync(process.env.STORE, 'utf8').split('\n').filter(Boolean)) {
    const [what, it] = JSON.parse(line);
    happened[what](it);
  }
}
const now = () => Math.floor(Date.now() / 1000);
class Kept {
  constructor(model) { this.model = model; }
  key(id) { return `${this.model}:${id}`; }
  async upsert(id, value, life) { note('set', { key: this.key(id), value, until: life ? now() + life : undefined }); }
  async find(id) {
    const found = kept.get(this.key(id));
    return found && (!found.until || now() < found.until) ? found.value : undefined;
  }
  async findBy(test) { return [...kept].find(([key, { value }]) => key.startsWith(`${this.model}:`) && test(value))?.[1].value; }
  async findByUid(uid) { return this.findBy((value) => value.uid === uid); }
  async findByUserCode(code) { return this.findBy((value) => value.userCode === code); }
  async consume(id) { note('consumed', { key: this.key(id), at: now() }); }
  async destroy(id) { note('gone', { key: this.key(id) }); }
  async revokeByGrantId(grant) { note('revoked', { grant }); }
}

const groupsClaim = env('GROUPS_CLAIM', 'groups');
const signing = env('SIGNING', '');
function ownKey() {
  const { privateKey } = signing === 'ES256' ? generateKeyPairSync('ec', { namedCurve: 'P-256' }) : generateKeyPairSync('rsa', { modulusLength: 2048 });
  return { ...privateKey.export({ format: 'jwk' }), alg: signing, use: 'sig', kid: signing };
}
const groupsOf = new Map(env('GROUPS', '').split(';').filter(Boolean).map((entry) => {
  const [user, groups] = entry.split('=');
  return [user, groups.split(',')];
}));

const both = { grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'] };
const provider = new Provider(issuer, {
  ...(process.env.STORE ? { adapter: Kept } : {}),
  ...(process.env.JWKS ? { jwks: JSON.parse(readFileSync(process.env.JWKS)) } : {}),
  ...(signing ? { jwks: { keys: [ownKey()] } } : {}),
  clients: [
    {
      ...both,
      client_id: 'gateway',
      client_secret: 'gateway-secret-for-tests-only',
      redirect_uris: env('CLIENT_REDIRECTS', 'http://127.0.0.1:9/oauth/callback').split(','),
      token_endpoint_auth_method: 'client_secret_basic',
      ...(signing ? { id_token_signed_response_alg: signing } : {}),
    },
    {
      ...both,
      client_id: 'native',
      application_type: 'native',
      redirect_uris: ['http://127.0.0.1/cb', 'http://[::1]/cb'],
      token_endpoint_auth_method: 'none',
    },
    {
      client_id: 'service',
      client_secret: 'service-secret-for-tests-only',
      grant_types: ['client_credentials'],
      response_types: [],
      redirect_uris: [],
      token_endpoint_auth_method: env('SERVICE_METHOD', 'client_secret_basic'),
    },
  ],
  pkce: { required: () => true },
  // What keeps it from asking this machine is left out: everything is on this machine here.
  ...(process.env.DOCUMENTS ? { fetch: (url, { dispatcher, ...options }) => fetch(url, options) } : {}),
  scopes: ['openid', 'offline_access', 'email', 'profile'],
  claims: { openid: ['sub', groupsClaim], email: ['email', 'email_verified'], profile: ['name'] },
  async findAccount(_, id) {
    if (id === 'nobody') return undefined;
    const groups = groupsOf.get(id);
    const claims = { sub: id, name: `User ${id}`, email: `${id}@example.test`, email_verified: id !== 'unverified' };
    return { accountId: id, claims: async () => (groups ? { ...claims, [groupsClaim]: groups } : claims) };
  },
  cookies: { keys: ['a-key-for-tests-only'] },
  rotateRefreshToken: true,
  ttl: {
    AccessToken: seconds('AT_TTL', 300),
    AuthorizationCode: seconds('CODE_TTL', 60),
    IdToken: seconds('ID_TTL', 300),
    RefreshToken: seconds('RT_TTL', 3600),
    Interaction: 600,
    Session: 3600,
    Grant: 3600,
  },
  features: {
    clientCredentials: { enabled: true },
    ...(process.env.DOCUMENTS ? { clientIdMetadataDocument: { enabled: true, ack: 'draft-02' } } : {}),
    devInteractions: { enabled: true },
    registration: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => undefined,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, resource) => ({
        scope: 'mcp:read mcp:call mcp:admin',
        audience: resource,
        accessTokenTTL: seconds('AT_TTL', 300),
        accessTokenFormat: 'jwt',
        jwt: { sign: { alg: 'RS256' } },
      }),
    },
  },
});
for (const event of ['server_error', 'authorization.error', 'grant.error']) {
  provider.on(event, (_, error) => console.error(event, error.message, error.error_description ?? ''));
}
if (process.env.NOTES) {
  provider.use(async (context, next) => {
    await next();
    if (!['/token', '/reg'].includes(context.path)) return;
    files.appendFileSync(process.env.NOTES, `${JSON.stringify({ asked: context.oidc?.params, answered: context.body })}\n`);
  });
}
if (process.env.VISITS) server.on('request', ({ url }) => files.appendFileSync(process.env.VISITS, `${url.split('?')[0]}\n`));
const answer = provider.callback();
const delay = () => Number(readFileSync(process.env.DELAY, 'utf8'));
server.on('request', process.env.DELAY ? (asked, told) => setTimeout(() => answer(asked, told), delay()) : answer);
// What was begun is finished: a token that was replaced and never arrived would be lost.
process.on('SIGTERM', () => { server.close(() => process.exit(0)); server.closeIdleConnections(); });
console.log(JSON.stringify({ issuer, port, pid: process.pid }));
