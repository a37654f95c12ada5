/** Runs the examples of docs/envoy.md and compares their output. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { codeBlocks } from '../markdown.ts';
import { entries, OK, OVER, serve } from './client.ts';

const page = readFileSync(new URL('../../../../docs/envoy.md', import.meta.url), 'utf8');
const blocks = (language: string): readonly string[] => codeBlocks(page, language);

describe('docs/envoy.md', () => {
  const [file, proxy] = blocks('yaml');

  test('the file in docs/envoy.md applies the limits described there', async () => {
    const served = await serve(file);
    const requestFrom = (address: string) => ({
      domain: 'shop',
      descriptors: [entries('remote_address', address)],
    });
    expect(await served.client.countAllowed(requestFrom('192.0.2.7'), 9)).toBe(5);
    expect((await served.client.shouldRateLimit(requestFrom('192.0.2.8'))).overall_code).toBe(OK);
    expect((await served.client.shouldRateLimit(requestFrom('192.0.2.66'))).overall_code).toBe(
      OVER,
    );
    await served.close();
  });

  test('the command in docs/envoy.md has the response shown there', async () => {
    const served = await serve(file);
    const [, command] = blocks('sh');
    const local = command.replace('http://127.0.0.1:8080', served.running.url);
    expect(local).not.toBe(command);
    const output = await new Promise<string>((resolve, reject) => {
      // The service is in this process, so waiting for the command must not block it.
      execFile('sh', ['-c', local], (error, stdout) => (error ? reject(error) : resolve(stdout)));
    });
    expect(JSON.parse(output)).toEqual(JSON.parse(blocks('json')[0]));
    await served.close();
  });

  test('the Envoy configuration in docs/envoy.md has the domain and port shown there', () => {
    const envoy = parse(proxy);
    const [filter, router] = envoy.http_filters;
    const cluster = envoy.clusters[0];
    expect(filter.typed_config.domain).toBe(parse(file).domain);
    expect(router.name).toBe('envoy.filters.http.router');
    const { grpc_service: service } = filter.typed_config.rate_limit_service;
    expect(service.envoy_grpc.cluster_name).toBe(cluster.name);
    expect(cluster.load_assignment.cluster_name).toBe(cluster.name);
    const [{ lb_endpoints: endpoints }] = cluster.load_assignment.endpoints;
    const { port_value: port } = endpoints[0].endpoint.address.socket_address;
    expect(blocks('sh')[0]).toContain(`--grpc 127.0.0.1:${port}`);
  });
});
