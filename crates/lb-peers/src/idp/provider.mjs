// An OIDC provider (npm oidc-provider) on loopback.
// usage: node provider.mjs PATH_OF_OIDC_PROVIDER
// env: PORT (0 = any), ISSUER_END (what the issuer ends with, such as /), CLIENT_REDIRECTS (comma list), JWKS (a file),
//      AT_TTL, CODE_TTL, ID_TTL, RT_TTL (seconds), GROUPS (alice=admins,staff;bob=staff)
// The first line on stdout is {"issuer","port","pid"}. Any name logs in with any password; `nobody` does not exist, and
// the address of `unverified` is not verified.
import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const { default: Provider } = await import(pathToFileURL(process.argv[2]));
const env = (name, otherwise) => process.env[name] || otherwise;
const seconds = (name, otherwise) => Number(env(name, otherwise));

const server = createServer();
await new Promise((listening) => server.listen(Number(env('PORT', 0)), '127.0.0.1', listening));
const { port } = server.address();
const issuer = `http://127.0.0.1:${port}${env('ISSUER_END', '')}`;
const groupsOf = new Map(env('GROUPS', '').split(';').filter(Boolean).map((entry) => {
  const [user, groups] = entry.split('=');
  return [user, groups.split(',')];
}));

const both = { grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'] };
const provider = new Provider(issuer, {
  ...(process.env.JWKS ? { jwks: JSON.parse(readFileSync(process.env.JWKS)) } : {}),
  clients: [
    {
      ...both,
      client_id: 'gateway',
      client_secret: 'gateway-secret-for-tests-only',
      redirect_uris: env('CLIENT_REDIRECTS', 'http://127.0.0.1:9/oauth/callback').split(','),
      token_endpoint_auth_method: 'client_secret_basic',
    },
    {
      ...both,
      client_id: 'native',
      application_type: 'native',
      redirect_uris: ['http://127.0.0.1/cb', 'http://[::1]/cb'],
      token_endpoint_auth_method: 'none',
    },
  ],
  pkce: { required: () => true },
  scopes: ['openid', 'offline_access', 'email', 'profile'],
  claims: { openid: ['sub', 'groups'], email: ['email', 'email_verified'], profile: ['name'] },
  async findAccount(_, id) {
    if (id === 'nobody') return undefined;
    const groups = groupsOf.get(id);
    const claims = { sub: id, name: `User ${id}`, email: `${id}@example.test`, email_verified: id !== 'unverified' };
    return { accountId: id, claims: async () => (groups ? { ...claims, groups } : claims) };
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
        accessTokenFormat: 'jwt',
        jwt: { sign: { alg: 'RS256' } },
      }),
    },
  },
});
for (const event of ['server_error', 'authorization.error', 'grant.error']) {
  provider.on(event, (_, error) => console.error(event, error.message, error.error_description ?? ''));
}
server.on('request', provider.callback());
console.log(JSON.stringify({ issuer, port, pid: process.pid }));
