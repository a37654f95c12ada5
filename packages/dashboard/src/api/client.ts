/**
 * Client for the admin API. An HttpOnly session cookie authenticates the requests, so scripts hold
 * the admin token only while `signIn` sends it.
 */
import type {
  ChangeResult,
  KeyReport,
  Override,
  OverrideFields,
  PolicyDefinition,
  ReadyReport,
  SeriesReport,
  SessionReport,
  ShadowChange,
  TopBy,
  TopReport,
} from './types.ts';

/** An error response of the service. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    /** JSON pointer to the rejected field: `/limit`. */
    readonly pointer?: string,
  ) {
    super(message);
    this.name = 'ApiError';
  }
}

export class UnreachableError extends Error {
  constructor() {
    super('The service is unreachable');
    this.name = 'UnreachableError';
  }
}

/** Which counts to request: the last `seconds`, or the last `minutes`. Set one of the two. */
export interface SeriesOptions {
  readonly seconds?: number;
  readonly minutes?: number;
  /** Minutes per step (default 1). */
  readonly step?: number;
  readonly policy?: string;
  /** Maximum number of policies (default 100). */
  readonly count?: number;
}

const TIMEOUT_MS = 10_000;

const path = (...parts: readonly string[]): string =>
  `/v1/${parts.map(encodeURIComponent).join('/')}`;

export class Api {
  /** Called when the session is no longer valid. */
  onSignedOut: () => void = () => {};
  /** Whether the service requires an admin token. False until the first session response. */
  isTokenNeeded = false;

  session(): Promise<SessionReport> {
    return this.#requestSession('GET');
  }

  signIn(token: string): Promise<SessionReport> {
    return this.#requestSession('POST', { token });
  }

  signOut(): Promise<SessionReport> {
    return this.#requestSession('DELETE');
  }

  async #requestSession(method: string, body?: object): Promise<SessionReport> {
    const session = await this.#request<SessionReport>(method, path('session'), body);
    this.isTokenNeeded = session.required;
    return session;
  }

  /** Resolves to the readiness report, also with status 503: the service is then not ready. */
  async ready(): Promise<ReadyReport> {
    return (await this.#fetch('GET', '/readyz')).json();
  }

  /**
   * Requests an event stream again after an `EventSource` has failed, because `EventSource` does
   * not report the HTTP status. Resolves to the error response, or to undefined if the request
   * succeeds.
   */
  async streamError(url: string): Promise<ApiError | undefined> {
    const response = await this.#fetch('GET', url);
    if (!response.ok) return apiError(response.status, await response.json().catch(() => ({})));
    await response.body?.cancel();
    return undefined;
  }

  async policies(): Promise<readonly PolicyDefinition[]> {
    const { policies } = await this.#request<{ policies: PolicyDefinition[] }>(
      'GET',
      path('policies'),
    );
    return policies;
  }

  policy(name: string): Promise<PolicyDefinition> {
    return this.#request('GET', path('policies', name));
  }

  setShadow(name: string, shadow: boolean | null): Promise<ShadowChange> {
    return this.#request('PATCH', path('policies', name), { shadow });
  }

  async overrides(policy: string): Promise<readonly Override[]> {
    const url = `${path('overrides')}?${new URLSearchParams({ policy })}`;
    return (await this.#request<{ overrides: Override[] }>('GET', url)).overrides;
  }

  /** Sends the key in the body: in a path, browsers would remove a key such as `..`. */
  setOverride(policy: string, key: string, fields: OverrideFields): Promise<ChangeResult> {
    return this.#request('POST', path('overrides'), { policy, key, ...fields });
  }

  deleteOverride(policy: string, key: string): Promise<ChangeResult> {
    return this.#request('DELETE', `${path('overrides')}?${new URLSearchParams({ policy, key })}`);
  }

  /** Resolves to the state of a key, with the wait until a call of `cost` would be admitted. */
  key(policy: string, key: string, cost: number): Promise<KeyReport> {
    const query = new URLSearchParams({ policy, key, cost: String(cost) });
    return this.#request('GET', `${path('keys')}?${query}`);
  }

  reset(policy: string, key: string): Promise<unknown> {
    return this.#request('POST', path('reset'), { policy, key });
  }

  top(policy: string, by: TopBy, count: number): Promise<TopReport> {
    const query = new URLSearchParams({ policy, by, count: String(count) });
    return this.#request('GET', `${path('top')}?${query}`);
  }

  series(options: SeriesOptions): Promise<SeriesReport> {
    const given = Object.entries(options).filter(([, value]) => value !== undefined);
    const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
    return this.#request('GET', `${path('series')}?${query}`);
  }

  async #request<T>(method: string, url: string, body?: object): Promise<T> {
    const response = await this.#fetch(method, url, body);
    const content = await response.json().catch(() => ({}));
    if (response.ok) return content as T;
    // The session endpoint returns 401 for a wrong token, not for an expired session.
    if (response.status === 401 && url !== path('session')) this.onSignedOut();
    throw apiError(response.status, content);
  }

  #fetch(method: string, url: string, body?: object): Promise<Response> {
    return fetch(url, {
      method,
      credentials: 'same-origin',
      cache: 'no-store',
      signal: AbortSignal.timeout(TIMEOUT_MS),
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

const apiError = (status: number, { code, detail, pointer }: Problem): ApiError =>
  new ApiError(
    status,
    code ?? 'ERR_INTERNAL',
    detail ?? `The service responded with ${status}`,
    pointer,
  );
