/** The admin API, asked with the session that the browser keeps; no script ever holds the token. */
import type {
  Kept,
  KeyReport,
  Override,
  OverrideFields,
  Peek,
  PolicyDefinition,
  ReadyReport,
  SeriesReport,
  SessionReport,
  ShadowChange,
  TopBy,
  TopReport,
} from './types.ts';

/** What the service refused, in its words. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    /** Where in what was sent, as a JSON pointer: `/limit`. */
    readonly pointer?: string,
  ) {
    super(message);
    this.name = 'ApiError';
  }
}

/** The service could not be reached at all. */
export class UnreachableError extends Error {
  constructor() {
    super('The service does not answer');
    this.name = 'AwayError';
  }
}

/** Whoever takes longer to answer is as good as away. */
const PATIENCE_MS = 10_000;

const path = (...parts: readonly string[]): string =>
  `/v1/${parts.map(encodeURIComponent).join('/')}`;

export class Api {
  /** Called when the service says that a token is needed. */
  onSignedOut: () => void = () => {};
  /** Whether a token is needed here; false as long as that is not known. */
  isTokenNeeded = false;

  session(): Promise<SessionReport> {
    return this.#askSession('GET');
  }

  signIn(token: string): Promise<SessionReport> {
    return this.#askSession('POST', { token });
  }

  signOut(): Promise<SessionReport> {
    return this.#askSession('DELETE');
  }

  async #askSession(method: string, body?: object): Promise<SessionReport> {
    const session = await this.#ask<SessionReport>(method, path('session'), body);
    this.isTokenNeeded = session.required;
    return session;
  }

  /** A service that is not ready says as much about itself as one that is. */
  async ready(): Promise<ReadyReport> {
    return (await this.#fetch('GET', '/readyz')).json();
  }

  /** Why a stream is not to be had, which an EventSource does not tell; undefined if it is. */
  async whyNotEvents(url: string): Promise<ApiError | undefined> {
    const answer = await this.#fetch('GET', url);
    if (!answer.ok) return refused(answer.status, await answer.json().catch(() => ({})));
    await answer.body?.cancel();
    return undefined;
  }

  async policies(): Promise<readonly PolicyDefinition[]> {
    const { policies } = await this.#ask<{ policies: PolicyDefinition[] }>('GET', path('policies'));
    return policies;
  }

  policy(name: string): Promise<PolicyDefinition> {
    return this.#ask('GET', path('policies', name));
  }

  setShadow(name: string, shadow: boolean | null): Promise<ShadowChange> {
    return this.#ask('PATCH', path('policies', name), { shadow });
  }

  async overrides(policy: string): Promise<readonly Override[]> {
    const all = `${path('overrides')}?${new URLSearchParams({ policy })}`;
    return (await this.#ask<{ overrides: Override[] }>('GET', all)).overrides;
  }

  /** Names are in the body, because browsers take keys such as `..` out of paths. */
  setOverride(policy: string, key: string, fields: OverrideFields): Promise<Kept> {
    return this.#ask('POST', path('overrides'), { policy, key, ...fields });
  }

  deleteOverride(policy: string, key: string): Promise<Kept> {
    return this.#ask('DELETE', `${path('overrides')}?${new URLSearchParams({ policy, key })}`);
  }

  key(policy: string, key: string): Promise<KeyReport> {
    return this.#ask('GET', `${path('keys')}?${new URLSearchParams({ policy, key })}`);
  }

  /** What a call would be told now; charges nothing. */
  async peek(policy: string, key: string, cost: number): Promise<Peek> {
    const asked = { policy, key, cost };
    const answer = await this.#ask<Peek & { shadow?: [Peek] }>('POST', path('peek'), asked);
    // A limit in shadow is never in the way, so what it says stands apart.
    return answer.shadow?.[0] ?? answer;
  }

  reset(policy: string, key: string): Promise<unknown> {
    return this.#ask('POST', path('reset'), { policy, key });
  }

  top(policy: string, by: TopBy, count: number): Promise<TopReport> {
    const query = new URLSearchParams({ policy, by, count: String(count) });
    return this.#ask('GET', `${path('top')}?${query}`);
  }

  series(seconds: number, policy?: string): Promise<SeriesReport> {
    const query = new URLSearchParams({ seconds: String(seconds), ...(policy && { policy }) });
    return this.#ask('GET', `${path('series')}?${query}`);
  }

  async #ask<T>(method: string, url: string, body?: object): Promise<T> {
    const answer = await this.#fetch(method, url, body);
    const content = await answer.json().catch(() => ({}));
    if (answer.ok) return content as T;
    // A token that was wrong ends no session.
    if (answer.status === 401 && url !== path('session')) this.onSignedOut();
    throw refused(answer.status, content);
  }

  #fetch(method: string, url: string, body?: object): Promise<Response> {
    return fetch(url, {
      method,
      credentials: 'same-origin',
      cache: 'no-store',
      signal: AbortSignal.timeout(PATIENCE_MS),
      ...(body !== undefined && {
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      }),
    }).catch(() => {
      throw new UnreachableError();
    });
  }
}

type Problem = Partial<Record<'code' | 'detail' | 'pointer', string>>;

const refused = (status: number, { code, detail, pointer }: Problem): ApiError =>
  new ApiError(status, code ?? 'ERR_INTERNAL', detail ?? `The service answered ${status}`, pointer);
