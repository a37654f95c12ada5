/** The cost that a call reserves: token bounds from the body, and prices. */
import { describe, expect, it } from 'vitest';
import { modelCall } from '../../src/llm/model-call.ts';
import { asMostExpensiveInput, costOf, type ModelOptions, modelOf } from '../../src/llm/models.ts';
import { hidesReasoning, tokenBound } from '../../src/llm/token-bound.ts';
import { post } from './setup.ts';

const PATHS = {
  chat: 'chat/completions',
  completions: 'completions',
  responses: 'responses',
  messages: 'messages',
  embeddings: 'embeddings',
};
const callOf = (path: keyof typeof PATHS, body: object) =>
  modelCall(`https://api.test/v1/${PATHS[path]}`, post(body));
const boundOf = async (path: keyof typeof PATHS, body: object, model?: ModelOptions) =>
  tokenBound(await callOf(path, body), model);
const user = (content: unknown) => ({ messages: [{ role: 'user', content }] });

describe('output bound', () => {
  it.each([
    ['chat', { max_tokens: 5 }, 5],
    ['chat', { max_completion_tokens: 7 }, 7],
    ['chat', { max_tokens: 1, max_completion_tokens: 9000 }, 9000],
    ['chat', { max_tokens: 10, n: 3 }, 30],
    ['completions', { max_tokens: 10, n: 2, best_of: 5 }, 50],
    ['responses', { max_output_tokens: 11 }, 11],
    ['messages', { max_tokens: 12 }, 12],
    ['embeddings', { input: 'x' }, 0],
  ] as const)('the output bound of %s with %j is %i tokens', async (path, body, bound) => {
    expect((await boundOf(path, body)).outputTokens).toBe(bound);
  });

  it.each([
    ['chat', {}],
    ['chat', { max_tokens: null }],
    ['chat', { max_tokens: -1 }],
    ['chat', { max_tokens: '5' }],
    ['chat', { max_tokens: 1.5 }],
    // A cap that the endpoint does not read.
    ['responses', { max_tokens: 1 }],
    ['chat', { max_output_tokens: 1 }],
  ] as const)(
    'the output bound of %s with %j comes only from the model options',
    async (path, body) => {
      expect((await boundOf(path, body)).outputTokens).toBeUndefined();
      expect((await boundOf(path, body, { maxOutputTokens: 4000 })).outputTokens).toBe(4000);
    },
  );
});

describe('input bound', () => {
  it('the input bound is one token per byte of the body, or maxInputTokens', async () => {
    const body = user('Grüße aus 東京 😀');
    const bytes = Buffer.byteLength(JSON.stringify(body));
    expect((await boundOf('chat', body)).inputTokens).toBe(bytes);
    expect((await boundOf('chat', body, { maxInputTokens: 20 })).inputTokens).toBe(20);
  });

  it('tools in the body add 1,000 tokens to the input bound', async () => {
    const body = { ...user('Hi'), tools: [{ type: 'function', function: { name: 'f' } }] };
    expect((await boundOf('chat', body)).inputTokens).toBe(JSON.stringify(body).length + 1000);
  });

  it.each([
    ['chat', user([{ type: 'image_url', image_url: { url: 'https://x.test/a.png' } }])],
    ['chat', user([{ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }])],
    ['chat', user([{ type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }])],
    ['chat', { messages: [{ role: 'assistant', audio: { id: 'audio_1' } }] }],
    ['responses', { input: [{ role: 'user', content: [{ type: 'input_file', file_id: 'f' }] }] }],
    ['responses', { input: 'Hi', previous_response_id: 'resp_1' }],
    ['responses', { input: 'Hi', prompt: { id: 'pmpt_1' } }],
    ['responses', { input: [{ type: 'item_reference', id: 'i' }] }],
    ['responses', { input: 'Hi', tools: [{ type: 'web_search' }] }],
    ['messages', user([{ type: 'document', source: { type: 'url', url: 'https://x.test' } }])],
    ['messages', { ...user('Hi'), mcp_servers: [{ url: 'https://x.test' }] }],
    [
      'messages',
      user([{ type: 'tool_result', tool_use_id: 't', content: [{ type: 'image', source: {} }] }]),
    ],
  ] as const)(
    'the input bound of %s with %j comes only from the model options',
    async (path, body) => {
      expect((await boundOf(path, body)).inputTokens).toBeUndefined();
      expect((await boundOf(path, body, { maxInputTokens: 5000 })).inputTokens).toBe(5000);
    },
  );

  it.each([
    ['messages', { system: [{ type: 'text', text: 'a', cache_control: { type: 'ephemeral' } }] }],
    ['messages', user([{ type: 'tool_result', tool_use_id: 't', content: 'done' }])],
    ['responses', { input: [{ type: 'function_call_output', call_id: 'c', output: 'x' }] }],
    ['responses', { input: [{ role: 'user', content: [{ type: 'input_text', text: 'x' }] }] }],
    ['chat', { messages: [{ role: 'assistant', tool_calls: [{ id: 't', type: 'function' }] }] }],
  ] as const)('the input bound of %s with %j is the number of bytes', async (path, body) => {
    expect((await boundOf(path, body)).inputTokens).toBe(JSON.stringify(body).length);
  });
});

describe('modelCall', () => {
  it.each([
    ['https://api.openai.com/v1/chat/completions', 'chat', 'openai'],
    ['https://x.openai.azure.com/openai/deployments/d/chat/completions?v=1', 'chat', 'openai'],
    ['https://api.anthropic.com/v1/messages', 'messages', 'anthropic'],
    ['https://api.openai.com/v1/threads/t1/messages', 'other', 'openai'],
    ['https://api.anthropic.com/v1/messages/count_tokens', 'other', 'anthropic'],
    ['https://us.test/publishers/anthropic/models/claude:rawPredict', 'chat', 'openai'],
  ])('modelCall reads %s as the endpoint %s of %s', async (url, endpoint, provider) => {
    expect(await modelCall(url, post(user('Hi')))).toMatchObject({ endpoint, provider });
  });

  it('modelCall reads the model from the body or the deployment in the URL', async () => {
    const azure = 'https://x.test/openai/deployments/my-gpt/chat/completions';
    expect((await modelCall(azure, post(user('Hi')))).model).toBe('my-gpt');
    expect((await modelCall(azure, post({ ...user('Hi'), model: 'gpt-4o' }))).model).toBe('gpt-4o');
  });

  it('hidesReasoning is true if the body or the model options enable reasoning', async () => {
    const hidden = async (body: object, model?: ModelOptions) =>
      hidesReasoning(await callOf('chat', body), model);
    expect(await hidden({})).toBe(false);
    expect(await hidden({ reasoning_effort: 'low' })).toBe(true);
    expect(await hidden({ reasoning_effort: 'none' })).toBe(false);
    expect(await hidden({ thinking: { type: 'enabled', budget_tokens: 5 } })).toBe(true);
    expect(await hidden({ thinking: { type: 'disabled' } })).toBe(false);
    expect(await hidden({}, { hidesReasoning: true })).toBe(true);
    expect(await hidden({ reasoning: {} }, { hidesReasoning: false })).toBe(false);
  });
});

describe('prices', () => {
  const usage = { inputTokens: 0, cachedInputTokens: 0, cacheWriteTokens: 0, outputTokens: 0 };

  it('costOf is exact in millionths and rounded up', () => {
    // In floating point, 0.07 x 100 is 7.000000000000001.
    expect(costOf({ input: 0.07, output: 0 }, { ...usage, inputTokens: 100 })).toBe(7);
    expect(costOf({ input: 0.15, output: 0.6 }, { ...usage, inputTokens: 1 })).toBe(1);
    expect(
      costOf({ input: 0.15, output: 0.6 }, { ...usage, inputTokens: 3, outputTokens: 1 }),
    ).toBe(2);
    expect(costOf({ input: 1e6, output: 1e6 }, { ...usage, outputTokens: 1e8 })).toBe(1e14);
  });

  it('cached tokens cost the input price by default', () => {
    const cached = { ...usage, cachedInputTokens: 10, cacheWriteTokens: 10 };
    expect(costOf({ input: 3, output: 15 }, cached)).toBe(60);
    expect(costOf({ input: 3, output: 15, cachedInput: 0.3, cacheWrite: 3.75 }, cached)).toBe(41);
  });

  it('input of an unknown kind has the highest price', () => {
    const prices = { input: 3, output: 15, cachedInput: 0.3, cacheWrite: 3.75 };
    expect(asMostExpensiveInput(prices, 10)).toMatchObject({
      inputTokens: 0,
      cacheWriteTokens: 10,
    });
    expect(asMostExpensiveInput({ input: 3, output: 1 }, 10)).toMatchObject({ inputTokens: 10 });
  });

  it('a model is found by its name, its name without the date, or *', () => {
    const models = { 'gpt-4o': { maxOutputTokens: 1 }, claude: { maxOutputTokens: 2 } };
    const capOf = (table: Record<string, ModelOptions>, name: string) =>
      modelOf(table, name)?.maxOutputTokens;
    expect(capOf(models, 'gpt-4o')).toBe(1);
    expect(capOf(models, 'gpt-4o-2024-08-06')).toBe(1);
    expect(capOf(models, 'claude-20250514')).toBe(2);
    expect(capOf(models, 'claude-latest')).toBe(2);
    expect(capOf(models, 'gpt-4o-mini')).toBeUndefined();
    expect(capOf(models, 'toString')).toBeUndefined();
    expect(capOf({ ...models, '*': { maxOutputTokens: 3 } }, 'gpt-4o-mini')).toBe(3);
  });
});
