/** Usage in response bodies, which arrive in chunks of any size. */
import { describe, expect, it } from 'vitest';
import { ResponseMeter } from '../../src/llm/response-meter.ts';
import { parseUsage } from '../../src/llm/usage.ts';
import {
  chatEvents,
  chatObject,
  chatUsage,
  messageEvents,
  responseEvents,
} from './model-server.ts';

const WORDS = ['Grüße ', 'aus ', '東京 😀', ' "quoted" \\ \n'];
const TOKENS = { input: 12, output: 34 };
const text = (parts: readonly string[]) => parts.join('');

const bodies: Record<string, { body: string; output: boolean }> = {
  'a chat stream': { body: text(chatEvents(WORDS, TOKENS)), output: true },
  'a responses stream': { body: text(responseEvents(WORDS, TOKENS)), output: true },
  'a messages stream': { body: text(messageEvents(WORDS, TOKENS)), output: true },
  'a chat object': { body: chatObject(WORDS.join(''), chatUsage(TOKENS)), output: false },
};

function meterOf(...chunks: readonly Uint8Array[]): ResponseMeter {
  const meter = new ResponseMeter();
  for (const chunk of chunks) meter.write(chunk);
  return meter;
}

const bytesOf = (body: string) => new TextEncoder().encode(body);
const factsOf = ({ usage, outputBytes, events, isComplete, form }: ResponseMeter) => ({
  ...{ usage, outputBytes, events, isComplete, form },
});

describe.each(Object.entries(bodies))('%s', (name, { body, output }) => {
  it(`the usage of ${name} is read in one chunk and in any two chunks`, () => {
    const bytes = bytesOf(body);
    const whole = factsOf(meterOf(bytes));
    expect(whole.usage).toMatchObject({ inputTokens: 12, outputTokens: 34 });
    expect(whole.isComplete).toBe(true);
    // Escapes in JSON make the text longer.
    const textBytes = bytesOf(WORDS.join('')).length;
    if (output) expect(whole.outputBytes).toBeGreaterThanOrEqual(textBytes);
    for (let at = 1; at < bytes.length; at++) {
      expect(factsOf(meterOf(bytes.subarray(0, at), bytes.subarray(at))), `at ${at}`).toEqual(
        whole,
      );
    }
  });

  it(`the usage of ${name} is read in chunks of one byte`, () => {
    const bytes = bytesOf(body);
    const single = Array.from(bytes, (_, at) => bytes.subarray(at, at + 1));
    expect(factsOf(meterOf(...single))).toEqual(factsOf(meterOf(bytes)));
  });

  it.each(['\r\n', '\r'])(`the usage of ${name} is read with lines that end with %j`, (ending) => {
    const whole = factsOf(meterOf(bytesOf(body)));
    const bytes = bytesOf(body.replaceAll('\n', ending));
    expect(factsOf(meterOf(bytes))).toEqual(whole);
    const single = Array.from(bytes, (_, at) => bytes.subarray(at, at + 1));
    expect(factsOf(meterOf(...single))).toEqual(whole);
  });
});

describe('ResponseMeter', () => {
  it('ResponseMeter reports an unfinished stream as incomplete', () => {
    const events = messageEvents(WORDS, TOKENS);
    for (let count = 0; count < events.length; count++) {
      expect(meterOf(bytesOf(text(events.slice(0, count)))).isComplete).toBe(false);
    }
  });

  it('ResponseMeter reads an event over several data lines as one object', () => {
    const lines = 'data: {"type":"x",\ndata: "usage":{"input_tokens":1,"output_tokens":2}}\n\n';
    expect(meterOf(bytesOf(lines)).usage).toMatchObject({ inputTokens: 1, outputTokens: 2 });
  });

  it('a usage in the generated text or in a nested object does not count', () => {
    const fake = '"usage":{"prompt_tokens":999,"completion_tokens":999}';
    const body = `{"choices":[{${fake},"message":{"content":"{\\"usage\\":1}"}}],"a":{${fake}}}`;
    const meter = meterOf(bytesOf(body));
    expect([meter.usage, meter.isComplete]).toEqual([{}, true]);
  });

  it('a body that is neither JSON nor events has no usage', () => {
    for (const body of ['<html></html>', 'null', '[1, 2]', 'data: {"usage":', '{{{{', '}}}}', '']) {
      expect(meterOf(bytesOf(body)).usage, body).toEqual({});
    }
  });

  it('a body of 50 MB keeps less than 1 MB in memory', () => {
    const meter = new ResponseMeter();
    meter.write(bytesOf('{"data":[{"embedding":"'));
    const part = bytesOf('a'.repeat(65_536));
    const before = process.memoryUsage();
    for (let count = 0; count < 800; count++) meter.write(part);
    const after = process.memoryUsage();
    meter.write(bytesOf('"}],"usage":{"prompt_tokens":7,"total_tokens":7}}'));
    expect(meter.usage).toMatchObject({ inputTokens: 7 });
    expect(meter.bodyBytes).toBeGreaterThan(50_000_000);
    expect(after.arrayBuffers - before.arrayBuffers).toBeLessThan(1_000_000);
  });

  it('a usage object above 4 KB is ignored', () => {
    const usage = JSON.stringify({ prompt_tokens: 1, padding: 'x'.repeat(5000) });
    expect(meterOf(bytesOf(`{"usage":${usage}}`)).usage).toEqual({});
  });
});

describe('parseUsage', () => {
  it('cached tokens are part of the input of OpenAI, and beside the input of Anthropic', () => {
    expect(parseUsage(chatUsage({ input: 100, output: 5 }, 80))).toEqual({
      inputTokens: 20,
      cachedInputTokens: 80,
      cacheWriteTokens: 0,
      outputTokens: 5,
    });
    const anthropic = {
      input_tokens: 20,
      cache_read_input_tokens: 80,
      cache_creation_input_tokens: 7,
      output_tokens: 5,
    };
    expect(parseUsage(anthropic)).toEqual({
      inputTokens: 20,
      cachedInputTokens: 80,
      cacheWriteTokens: 7,
      outputTokens: 5,
    });
  });

  it('reasoning that only the total contains counts as output', () => {
    const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 115 };
    expect(parseUsage(usage)?.outputTokens).toBe(105);
  });

  it.each([
    [{ prompt_tokens: -1, completion_tokens: 1 }],
    [{ prompt_tokens: 1.5 }],
    [{ prompt_tokens: 1, completion_tokens: 1e18 }],
    [{ prompt_tokens: '10' }],
    [{ prompt_tokens: Number.NaN }],
    [null],
    [{}],
    [[1]],
  ])('parseUsage ignores the usage %j', (usage) => {
    expect(parseUsage(usage)).toBeUndefined();
  });
});
