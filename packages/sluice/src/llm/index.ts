/** The exports of `sluice/llm`. */
export type { CallSettlement, Costs, Unit } from './call-record.ts';
export { llmFetch } from './llm-fetch.ts';
export type { Endpoint, Fetch, ModelCall } from './model-call.ts';
export type { ModelOptions, ModelTable } from './models.ts';
export type { CallLimit, LlmFetchOptions, TokenEstimate } from './options.ts';
export type { Ending } from './settlement.ts';
export type { TokenBound } from './token-bound.ts';
export type { Usage } from './usage.ts';
