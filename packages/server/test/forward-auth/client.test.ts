/** The client address of a forwarded request, by the trust in the proxy. */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { beforeEach, describe, expect, it } from 'vitest';
import { forwardedClient } from '../../src/forward-auth/client.ts';
import { forwardAuthRoutes } from '../../src/forward-auth/routes.ts';
import { RequestContext } from '../../src/http/request-context.ts';
import { Router } from '../../src/http/router.ts';
import { policy, settingsOf, startRunning } from '../running.ts';
import { forwarded, limit, PATH, rule } from './forwarded.ts';

describe('client address of a forwarded request', () => {
  const warned: string[] = [];
  const log = pino({ level: 'warn' }, { write: (text) => void warned.push(JSON.parse(text).code) });
  beforeEach(() => {
    warned.length = 0;
  });

  const addressOf = (settings: Record<string, unknown>, from: string, list?: string): string => {
    const headers = list === undefined ? {} : { 'x-forwarded-for': list };
    const rawHeaders = Object.entries(headers).flat();
    const incoming = { socket: { remoteAddress: from }, headers, rawHeaders };
    return forwardedClient(settingsOf(settings), log)(incoming as unknown as IncomingMessage);
  };

  it.each(['127.0.0.1', '127.9.9.9', '::1', '::ffff:127.0.0.1'])(
    'without trustProxy, the client is the last address that a proxy at %s sends',
    (peer) => {
      expect(addressOf({}, peer, '192.0.2.1')).toBe('192.0.2.1');
      expect(addressOf({}, peer, '203.0.113.9, 192.0.2.1')).toBe('192.0.2.1');
      expect(addressOf({}, peer, '2001:db8::1')).toBe('2001:db8::/64');
      expect(warned).toEqual([]);
    },
  );

  it('without trustProxy, a remote proxy is the client itself, with a warning', () => {
    expect(addressOf({}, '10.0.0.1', '192.0.2.1')).toBe('10.0.0.1');
    expect(warned).toEqual(['WARN_FORWARDED_IGNORED']);
  });

  it('a proxy that sends no client address is the client itself, with a warning', () => {
    expect(addressOf({}, '127.0.0.1')).toBe('127.0.0.1');
    expect(warned).toEqual(['WARN_FORWARDED_MISSING']);
  });

  it('the client is the address that trusted proxies send', () => {
    const list = '203.0.113.9, 192.0.2.1, 10.0.0.2';
    expect(addressOf({ trustProxy: 1 }, '10.0.0.1', list)).toBe('10.0.0.2');
    expect(addressOf({ trustProxy: 2 }, '10.0.0.1', list)).toBe('192.0.2.1');
    expect(addressOf({ trustProxy: ['10.0.0.0/8'] }, '10.0.0.1', list)).toBe('192.0.2.1');
    // With trustProxy, loopback is trusted only if it is listed.
    expect(addressOf({ trustProxy: ['10.0.0.0/8'] }, '127.0.0.1', list)).toBe('127.0.0.1');
  });

  it('ignored forwarding headers are logged once', () => {
    const read = forwardedClient(settingsOf(), log);
    for (let call = 0; call < 3; call++) {
      const headers = { 'x-forwarded-for': `192.0.2.${call}` };
      read({ socket: { remoteAddress: '10.0.0.1' }, headers } as unknown as IncomingMessage);
    }
    expect(warned).toEqual(['WARN_FORWARDED_IGNORED']);
  });

  it('a forward-auth request without a client address is rejected with 400', async () => {
    const config = { policies: [policy('p', 1, '1m')], rules: [rule('/**', [limit('p')])] };
    const running = await startRunning({ config });
    const router = new Router();
    forwardAuthRoutes(router, running.service.app);
    // The client of a Unix domain socket has no address.
    const server = createServer((incoming, outgoing) => {
      const [path, search = ''] = incoming.url!.split('?');
      const context = new RequestContext(incoming, outgoing, path, search);
      router.find(context).handler(context);
    });
    const folder = mkdtempSync(join(tmpdir(), 'sluice-socket-'));
    const socketPath = join(folder, 'socket');
    await once(server.listen(socketPath), 'listening');
    for (const [path, status] of [
      [PATH, 400],
      [`${PATH}?deny=403`, 403],
    ] as const) {
      const sent = request({ socketPath, path, headers: forwarded('/'), agent: false }).end();
      const [response] = await once(sent, 'response');
      expect([response.statusCode, response.headers['x-sluice-status']]).toEqual([status, '400']);
      response.resume();
    }
    server.close();
    rmSync(folder, { recursive: true });
    await running.close();
  });
});
