/**
 * A service that is held to its own description: each answer has to be what /v1/openapi.json says,
 * with no field that is not told there, and so has each request that was not refused.
 */
import { Ajv2020 } from 'ajv/dist/2020.js';
import type { Answer, Running } from '../running.ts';

// biome-ignore lint/suspicious/noExplicitAny: it is JSON.
type Json = any;

/** Nothing may be answered that is not described, so objects are closed where they are not open. */
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
    const validate = this.#ajv.compile({ $ref: `api#${place}` });
    return validate(value) ? undefined : this.#ajv.errorsText(validate.errors);
  }

  /** The place of an operation in the description. */
  operation(method: string, target: string): readonly string[] {
    const [path] = target.split('?');
    const fits = (template: string): boolean =>
      new RegExp(`^${template.replaceAll('.', '\\.').replace(/\{\w+\}/g, '[^/]+')}$`).test(path);
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
    this.#checkAnswer(method, target, place, answer);
    return answer;
  }

  #checkAnswer(method: string, target: string, place: readonly string[], answer: Answer): void {
    const [, path, verb] = place;
    const { responses } = this.document.paths[path]?.[verb] ?? {};
    if (responses === undefined) throw new Error(`${method} ${target} is not described`);
    const { status, json, headers } = answer;
    const isTold = responses[status] !== undefined;
    if (!isTold && status < 400) throw new Error(`${method} ${target} answered ${status}`);
    const response = isTold
      ? [...place, 'responses', String(status)]
      : ['components', 'responses', 'Problem'];
    const { content } = isTold ? responses[status] : this.document.components.responses.Problem;
    const [type] = (headers.get('content-type') ?? '').split(';');
    if (content === undefined || content[type] === undefined) {
      throw new Error(`${method} ${target} answered ${status} as ${type}`);
    }
    if (content[type].schema === undefined) return;
    const wrong = this.problems([...response, 'content', type, 'schema'], json);
    if (wrong !== undefined) throw new Error(`${method} ${target} answered ${status}: ${wrong}`);
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
