/** `llmFetch` is assignable to the `fetch` options of the SDKs, as they declare them. */
import { createLimiter } from 'sluice';
import { llmFetch } from 'sluice/llm';

/** openai 5 and later, @anthropic-ai/sdk 0.50 and later. */
type SdkFetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;
/** Earlier versions of both. */
type EarlierSdkFetch = (url: string | Request | URL, init?: RequestInit) => Promise<Response>;

interface ClientOptions {
  fetch?: SdkFetch | undefined;
}
declare class OpenAI {
  constructor(options: ClientOptions);
}
declare class Anthropic {
  constructor(options: { fetch?: EarlierSdkFetch | undefined });
}
/** The Vercel AI SDK. */
declare function createOpenAI(options: { fetch?: typeof globalThis.fetch }): unknown;

const limiter = createLimiter({
  policies: { tokens: '100000/1m', inFlight: { concurrency: 8 } },
});
const fetch = llmFetch(limiter, {
  tokens: { policy: 'tokens', key: (call) => ['model', call.model] },
  slot: { policy: 'inFlight', key: 'openai' },
  models: { '*': { maxOutputTokens: 4096 } },
});

new OpenAI({ fetch });
new Anthropic({ fetch });
createOpenAI({ fetch });

// @ts-expect-error The limiter has no such policy.
llmFetch(limiter, { tokens: { policy: 'tokns', key: 'k' } });
// @ts-expect-error A limit needs a key.
llmFetch(limiter, { tokens: { policy: 'tokens' } });
