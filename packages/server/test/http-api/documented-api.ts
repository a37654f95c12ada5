/**
 * Client of a service that validates each response against /v1/openapi.json, and each body of a
 * successful request. Undocumented fields are errors.
 */
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import type { Running, ServiceResponse } from '../running.ts';

// biome-ignore lint/suspicious/noExplicitAny: any JSON value.
type Json = any;

interface Response {
  readonly status: number;
  readonly type: string | null | undefined;
  readonly text: string;
  readonly json: unknown;
}

/** Closes objects in schemas, so that undocumented fields fail. */
function closed(value: Json): Json {
  if (Array.isArray(value)) return value.map(closed);
  if (typeof value !== 'object' || value === null) return value;
  const parts = Object.entries(value).map(([name, each]) => [name, closed(each)]);
  const isOpen = value.properties === undefined || value.type !== 'object';
  return { ...(!isOpen && { additionalProperties: false }), ...Object.fromEntries(parts) };
}

export class DocumentedApi {
  readonly running: Running;
  readonly document: Json;
  readonly #validators = new Map<string, ValidateFunction>();
  readonly #ajv = new Ajv2020({ strict: false, formats: { 'date-time': true } });

  private constructor(running: Running, document: Json) {
    this.running = running;
    this.document = document;
    this.#ajv.addSchema(closed(document), 'api');
  }

  static async of(running: Running): Promise<DocumentedApi> {
    return new DocumentedApi(running, (await running.get('/v1/openapi.json')).json);
  }

  /** Returns the problems of a value by the schema at a JSON pointer of the document. */
  problems(pointer: readonly string[], value: unknown): string | undefined {
    const escaped = pointer.map((each) => each.replaceAll('~', '~0').replaceAll('/', '~1'));
    const place = escaped.map((each) => `/${encodeURIComponent(each)}`).join('');
    const validate = this.#validators.get(place) ?? this.#ajv.compile({ $ref: `api#${place}` });
    this.#validators.set(place, validate);
    return validate(value) ? undefined : this.#ajv.errorsText(validate.errors);
  }

  /** Returns the JSON pointer of an operation in the document. */
  operation(method: string, target: string): readonly string[] {
    const [path] = target.replace(/(.)\/($|\?)/, '$1$2').split('?');
    const fits = (template: string): boolean =>
      new RegExp(
        `^${template
          .replaceAll('.', '\\.')
          .replace('{path}', '.*')
          .replace(/\{\w+\}/g, '[^/]*')}$`,
      ).test(path);
    const template = Object.keys(this.document.paths).find(fits);
    return ['paths', template ?? path, method.toLowerCase()];
  }

  async request(
    method: string,
    target: string,
    body?: unknown,
    headers = {},
  ): Promise<ServiceResponse> {
    const response = await this.running.request(method, target, body, headers);
    const place = this.operation(method, target);
    if (response.status < 300 && body !== undefined) {
      const requestBody = [...place, 'requestBody', 'content', 'application/json', 'schema'];
      const wrong = this.problems(requestBody, body);
      if (wrong !== undefined)
        throw new Error(`${method} ${target} accepted an invalid body: ${wrong}`);
    }
    this.check(method, target, { ...response, type: response.headers.get('content-type') });
    return response;
  }

  /** Throws if a response does not match the document. */
  check(method: string, target: string, response: Response): void {
    const place = this.operation(method, target);
    const [, path, verb] = place;
    const { responses } = this.document.paths[path]?.[verb] ?? {};
    if (responses === undefined) throw new Error(`${method} ${target} is not documented`);
    const { status, text, json } = response;
    const range = `${Math.floor(status / 100)}XX`;
    const documented = responses[status] ?? responses[range];
    if (documented === undefined) throw new Error(`${method} ${target} responded ${status}`);
    const isListed = responses[status] !== undefined;
    const pointer = isListed
      ? [...place, 'responses', String(status)]
      : ['components', 'responses', 'Problem'];
    const { content } = isListed ? documented : this.document.components.responses.Problem;
    if (text === '' && (content === undefined || method === 'HEAD')) return;
    const [type] = (response.type ?? '').split(';');
    const described = content?.[type] === undefined ? '*/*' : type;
    if (content?.[described] === undefined) {
      throw new Error(`${method} ${target} responded ${status} as ${type}: ${text.slice(0, 200)}`);
    }
    if (content[described].schema === undefined) return;
    const wrong = this.problems([...pointer, 'content', described, 'schema'], json);
    if (wrong === undefined) return;
    throw new Error(`${method} ${target} responded ${status}: ${wrong} in ${text.slice(0, 500)}`);
  }

  get(target: string, headers = {}): Promise<ServiceResponse> {
    return this.request('GET', target, undefined, headers);
  }

  post(target: string, body?: unknown, headers = {}): Promise<ServiceResponse> {
    return this.request('POST', target, body, headers);
  }

  put(target: string, body?: unknown): Promise<ServiceResponse> {
    return this.request('PUT', target, body);
  }

  delete(target: string): Promise<ServiceResponse> {
    return this.request('DELETE', target);
  }

  close(): Promise<void> {
    return this.running.close();
  }
}
