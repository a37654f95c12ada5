/**
 * A service that is held to its own description: each answer has to be what /v1/openapi.json says,
 * with no field that is not told there, and so has each request that was not refused.
 */
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import type { Answer, Running } from '../running.ts';

// biome-ignore lint/suspicious/noExplicitAny: it is JSON.
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

export class Described {
  readonly running: Running;
  readonly document: Json;
  readonly #validators = new Map<string, ValidateFunction>();
  readonly #ajv = new Ajv2020({ strict: false, formats: { 'date-time': true } });

  private constructor(running: Running, document: Json) {
    this.running = running;
    this.document = document;
    this.#ajv.addSchema(closed(document), 'api');
  }

  static async of(running: Running): Promise<Described> {
    return new Described(running, (await running.get('/v1/openapi.json')).json);
  }

  /** What is wrong with a value, by the schema that stands at a JSON pointer of the description. */
  problems(pointer: readonly string[], value: unknown): string | undefined {
    const escaped = pointer.map((each) => each.replaceAll('~', '~0').replaceAll('/', '~1'));
    const place = escaped.map((each) => `/${encodeURIComponent(each)}`).join('');
    const validate = this.#validators.get(place) ?? this.#ajv.compile({ $ref: `api#${place}` });
    this.#validators.set(place, validate);
    return validate(value) ? undefined : this.#ajv.errorsText(validate.errors);
  }

  /** The place of an operation in the description. */
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

  async ask(method: string, target: string, body?: unknown, headers = {}): Promise<Answer> {
    const answer = await this.running.ask(method, target, body, headers);
    const place = this.operation(method, target);
    if (answer.status < 300 && body !== undefined) {
      const requestBody = [...place, 'requestBody', 'content', 'application/json', 'schema'];
      const wrong = this.problems(requestBody, body);
      if (wrong !== undefined) throw new Error(`${method} ${target} took a wrong body: ${wrong}`);
    }
    this.check(method, target, { ...answer, type: answer.headers.get('content-type') });
    return answer;
  }

  /** Throws if a response is not as described. */
  check(method: string, target: string, response: Response): void {
    const place = this.operation(method, target);
    const [, path, verb] = place;
    const { responses } = this.document.paths[path]?.[verb] ?? {};
    if (responses === undefined) throw new Error(`${method} ${target} is not described`);
    const { status, text, json } = response;
    const range = `${Math.floor(status / 100)}XX`;
    const received = responses[status] ?? responses[range];
    if (received === undefined) throw new Error(`${method} ${target} answered ${status}`);
    const isListed = responses[status] !== undefined;
    const pointer = isListed
      ? [...place, 'responses', String(status)]
      : ['components', 'responses', 'Problem'];
    const { content } = isListed ? received : this.document.components.responses.Problem;
    if (text === '' && (content === undefined || method === 'HEAD')) return;
    const [type] = (response.type ?? '').split(';');
    const described = content?.[type] === undefined ? '*/*' : type;
    if (content?.[described] === undefined) {
      throw new Error(`${method} ${target} answered ${status} as ${type}: ${text.slice(0, 200)}`);
    }
    if (content[described].schema === undefined) return;
    const wrong = this.problems([...pointer, 'content', described, 'schema'], json);
    if (wrong === undefined) return;
    throw new Error(`${method} ${target} answered ${status}: ${wrong} in ${text.slice(0, 500)}`);
  }

  get(target: string, headers = {}): Promise<Answer> {
    return this.ask('GET', target, undefined, headers);
  }

  post(target: string, body?: unknown, headers = {}): Promise<Answer> {
    return this.ask('POST', target, body, headers);
  }

  put(target: string, body?: unknown): Promise<Answer> {
    return this.ask('PUT', target, body);
  }

  delete(target: string): Promise<Answer> {
    return this.ask('DELETE', target);
  }

  close(): Promise<void> {
    return this.running.close();
  }
}
