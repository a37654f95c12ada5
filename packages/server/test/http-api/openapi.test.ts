import SwaggerParser from '@apidevtools/swagger-parser';
import { createConfig, lintFromString } from '@redocly/openapi-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ANY_METHOD } from '../../src/http/router.ts';
import { methodsOf, pathOf } from '../../src/http-api/openapi.ts';
import { policy, startRunning } from '../running.ts';
import { DocumentedApi } from './documented-api.ts';

// biome-ignore lint/suspicious/noExplicitAny: any JSON value.
type Json = any;

let api: DocumentedApi;
let document: Json;
beforeAll(async () => {
  const policies = [policy('few', 2, '1m'), policy('watched', 1, '1m', { shadow: true })];
  api = await DocumentedApi.of(await startRunning({ config: { policies } }));
  ({ document } = api);
});
afterAll(() => api.close());

const operations = (): readonly [path: string, method: string, operation: Json][] =>
  Object.entries(document.paths as Json).flatMap(([path, methods]) =>
    Object.entries(methods as Json).map(([method, each]): [string, string, Json] => [
      ...([path, method, each] as const),
    ]),
  );

describe('GET /v1/openapi.json', () => {
  test('swagger-parser accepts the OpenAPI document', async () => {
    await SwaggerParser.validate(structuredClone(document));
    expect(document.openapi).toBe('3.1.0');
  });

  test('the Redocly linter reports no errors or warnings on the OpenAPI document', async () => {
    const config = await createConfig({ extends: ['recommended-strict'] });
    const source = JSON.stringify(document);
    const problems = await lintFromString({ source, config, absoluteRef: 'openapi.json' });
    expect(problems.map(({ ruleId, message }) => `${ruleId}: ${message}`)).toEqual([]);
  });

  test('all references of the OpenAPI document resolve, and all schemas are used', () => {
    const text = JSON.stringify(document);
    const used = new Set(
      [...text.matchAll(/"\$ref":"#\/components\/(\w+\/\w+)"/g)].map(([, to]) => to),
    );
    const { schemas, responses } = document.components;
    const defined = [
      ...Object.keys(schemas).map((name) => `schemas/${name}`),
      ...Object.keys(responses).map((name) => `responses/${name}`),
    ];
    expect([...used].filter((each) => !defined.includes(each))).toEqual([]);
    expect(defined.filter((each) => !used.has(each))).toEqual([]);
  });

  test('the OpenAPI document lists exactly the served routes', () => {
    const served = api.running.service.routes.flatMap(({ method, path }) =>
      methodsOf(method).map((each) => `${each} ${pathOf(path)}`),
    );
    const described = operations().map(([path, method]) => `${method} ${path}`);
    expect(described.sort()).toEqual([...new Set(served)].sort());
  });

  test('the OpenAPI document states which routes require the token', () => {
    for (const { method, path, access } of api.running.service.routes) {
      const [first] = methodsOf(method === ANY_METHOD ? 'GET' : method);
      const { security } = document.paths[pathOf(path)][first];
      const isOpen = security.length === 0;
      expect([path, isOpen]).toEqual([path, access !== 'admin']);
    }
  });

  test('each OpenAPI operation has a unique id and describes its path parameters', () => {
    const ids = operations().map(([, , { operationId }]) => operationId);
    expect(new Set(ids).size).toBe(ids.length);
    for (const [path, , { parameters = [] }] of operations()) {
      const places = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
      const names = parameters.filter((each: Json) => each.in === 'path').map((e: Json) => e.name);
      expect(names).toEqual(places);
    }
  });

  test('responses to checks match their OpenAPI schemas', async () => {
    const bodies = [
      { policy: 'few', key: 'a' },
      { policy: 'few', key: ['a', 1], cost: 2, id: 'i', onFailure: 'deny' },
      { policy: 'watched', key: 'a' },
      {
        limits: [
          { policy: 'few', key: 'b' },
          { policy: 'watched', key: 'b' },
        ],
      },
      { checks: [{ policy: 'few', key: 'c' }, { limits: [{ policy: 'few', key: 'c' }] }] },
    ];
    for (const path of ['/v1/check', '/v1/peek']) {
      for (const body of [...bodies, ...bodies]) {
        expect((await api.post(path, body)).status).toBe(200);
      }
    }
    await api.post('/v1/check?enforce', { policy: 'few', key: 'a' });
    expect((await api.post('/v1/check?enforce', { policy: 'few', key: 'a' })).status).toBe(429);
  });

  test('error responses match their OpenAPI schemas', async () => {
    const rejected: readonly [string, string, unknown][] = [
      ['POST', '/v1/check', { policy: 'none', key: 'a' }],
      ['POST', '/v1/check', { policy: 'few', key: 'a', cots: 1 }],
      ['POST', '/v1/check', { checks: [{ policy: 'few' }] }],
      ['POST', '/v1/check', 'x'.repeat(2 ** 20)],
      ['POST', '/v1/check', JSON.parse('['.repeat(17) + ']'.repeat(17))],
      ['GET', '/v1/keys/none/a', undefined],
      ['GET', '/v1/policies/none', undefined],
      ['PATCH', '/v1/policies/none', { shadow: true }],
      ['PUT', '/v1/overrides/none/a', { limit: 1 }],
      ['DELETE', '/v1/overrides/few/a', undefined],
      ['GET', '/v1/top?policy=none', undefined],
      ['GET', '/v1/top?policy=few&count=0', undefined],
    ];
    for (const [method, path, body] of rejected) {
      expect((await api.request(method, path, body)).status).toBeGreaterThanOrEqual(400);
    }
  });

  test('the OpenAPI schema of a check rejects invalid bodies and accepts a valid one', () => {
    const place = ['components', 'schemas', 'CheckBody'];
    const wrong = [
      {},
      { policy: 'few' },
      { policy: 'few', key: '' },
      { policy: 'few', key: 'a', cost: -1 },
      { policy: 'few', key: 'a', cost: 1.5 },
      { policy: 'few', key: 'a', cots: 1 },
      { policy: 'few', key: 'x'.repeat(1025) },
      { limits: [] },
      { limits: Array(65).fill({ policy: 'few', key: 'a' }) },
      { checks: Array(1001).fill({ policy: 'few', key: 'a' }) },
      { policy: 'few', key: 'a', onFailure: 'shrug' },
    ];
    for (const body of wrong) expect(api.problems(place, body)).toBeDefined();
    expect(api.problems(place, { policy: 'few', key: 'a' })).toBeUndefined();
  });
});
