/** `GET /v1/openapi.json`: the OpenAPI document, generated from operations and schemas. */
import { z } from 'zod';
import { NO_SNIFFING } from '../http/request-context.ts';
import { ANY_METHOD, type Handler } from '../http/router.ts';
import { SESSION_COOKIE } from '../http/sessions.ts';
import { type ApiOperation, type ApiOperationResponse, OPERATIONS } from './operations.ts';
import * as schemas from './schemas.ts';

const DESCRIPTION = [
  'Sliding-window rate limits over HTTP. A denied check is not an error: see `allowed`.',
  'Errors are problem details with a `code`. Operations with a security requirement need the admin',
  'token, unless the service listens on loopback without one.',
].join(' ');

const LICENSE = { name: 'MIT', identifier: 'MIT' };

const EVERY_METHOD = ['get', 'head', 'post', 'put', 'patch', 'delete', 'options'];

/** The response for errors that an operation does not list. */
const PROBLEM = { $ref: '#/components/responses/Problem' };
const OTHER_RESPONSES = { '4XX': PROBLEM, '5XX': PROBLEM };

const PARAMS: Readonly<Record<string, string>> = {
  policy: 'the name of a policy',
  key: 'a key, percent-encoded',
  path: 'the rest of the path, one or more segments',
};

type Json = Record<string, unknown>;

const namesOfSchemas = new Map<unknown, string>();
for (const [name, value] of Object.entries(schemas)) {
  if (value instanceof z.ZodType) namesOfSchemas.set(value, name);
}

const schemaUriOf = (name: string): string => `#/components/schemas/${name}`;

/** Returns the JSON Schemas of all named schemas. Operations refer to them by name. */
function components(): Json {
  const registry = z.registry<{ id: string }>();
  for (const [schema, id] of namesOfSchemas) registry.add(schema as z.ZodType, { id });
  const options = { uri: schemaUriOf, target: 'draft-2020-12', io: 'input' } as const;
  const described = Object.entries(z.toJSONSchema(registry, options).schemas);
  return Object.fromEntries(
    described.map(([name, { $schema, $id, ...schema }]) => [name, schema as Json]),
  );
}

const contentOf = (schema: z.ZodType | undefined, type = 'application/json'): Json => ({
  [type]:
    schema === undefined ? {} : { schema: { $ref: schemaUriOf(namesOfSchemas.get(schema)!) } },
});

function responseOf(responses: readonly ApiOperationResponse[]): Json {
  const description = responses.map((each) => each.description).join('; or ');
  const contents = responses
    .filter(({ schema, type }) => schema !== undefined || type !== undefined)
    .map(({ schema, type }) => contentOf(schema, type));
  if (contents.length === 0) return { description };
  return { description, content: Object.assign({}, ...contents) };
}

function parametersOf({ path, query = {} }: ApiOperation): readonly Json[] {
  const text = { type: 'string' };
  const inPath = [...pathOf(path).matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    ...{ name, in: 'path', required: true, schema: text, description: PARAMS[name] },
  }));
  const inQuery = Object.entries(query).map(([name, description]) => ({
    ...{ name, in: 'query', required: false, schema: text, description },
  }));
  return [...inPath, ...inQuery];
}

/**
 * Returns an OpenAPI path: `/v1/keys/{policy}/{key}` for `/v1/keys/:policy/:key`. Removes a
 * trailing slash, which linters reject.
 */
export const pathOf = (path: string): string =>
  path
    .replace(/:(\w+)/g, '{$1}')
    .replace(/\*$/, '{path}')
    .replace(/(.)\/$/, '$1');

export const methodsOf = (method: string): readonly string[] =>
  method === ANY_METHOD ? EVERY_METHOD : [method.toLowerCase()];

function operationOf(operation: ApiOperation, method: string): Json {
  const { summary, request, isOpen, responses, path } = operation;
  const parameters = parametersOf(operation);
  const words = path === '/' ? ['index'] : path.match(/\w+/g)!;
  return {
    operationId: [method, ...words].join('-'),
    summary,
    security: isOpen ? [] : [{ adminToken: [] }, { session: [] }],
    ...(parameters.length > 0 && { parameters }),
    ...(request !== undefined && {
      requestBody: { required: true, content: contentOf(request) },
    }),
    responses: {
      ...Object.fromEntries(
        Object.entries(responses).map(([status, each]) => [status, responseOf([each].flat())]),
      ),
      ...OTHER_RESPONSES,
    },
  };
}

export function openapiDocument(): Json {
  const paths: Record<string, Json> = {};
  for (const operation of OPERATIONS) {
    const path = pathOf(operation.path);
    paths[path] ??= {};
    for (const method of methodsOf(operation.method)) {
      paths[path][method] = operationOf(operation, method);
    }
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Sluice', version: 'v1', description: DESCRIPTION, license: LICENSE },
    servers: [{ url: '/', description: 'the service that returned this document' }],
    paths,
    components: {
      schemas: components(),
      responses: {
        Problem: {
          description: 'an error',
          content: contentOf(schemas.Problem, 'application/problem+json'),
        },
      },
      securitySchemes: {
        adminToken: { type: 'http', scheme: 'bearer' },
        session: { type: 'apiKey', in: 'cookie', name: SESSION_COOKIE },
      },
    },
  };
}

/** Returns a handler that generates the document at the first request, and caches it. */
export function openapiHandler(): Handler {
  let text: string | undefined;
  return (context) => {
    context.checkQuery();
    text ??= JSON.stringify(openapiDocument());
    context.sendText(200, text, NO_SNIFFING);
  };
}
