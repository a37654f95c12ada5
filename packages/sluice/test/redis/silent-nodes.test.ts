import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { withSilenceCheck } from '../../src/stores/redis/silent-nodes.ts';

const SILENT_MS = 30;

function nodes() {
  const [silent, responsive] = [{}, {}];
  const replies: (() => void)[] = [];
  const sent = vi.fn((_args: readonly string[], key: string): Promise<unknown> => {
    if (key === 'responsive') return Promise.resolve('OK');
    return new Promise((resolve) => replies.push(() => resolve('OK')));
  });
  const nodeOf = (key: string) => ({ silent, responsive })[key];
  return { replies, sent, send: withSilenceCheck(sent, nodeOf, () => SILENT_MS) };
}

describe('a node that sends no reply', () => {
  it('a node that is silent for too long gets no more commands', async () => {
    const { sent, send } = nodes();
    void send(['GET'], 'silent');
    void send(['GET'], 'silent');
    await sleep(SILENT_MS * 2);
    await expect(send(['GET'], 'silent')).rejects.toThrow('The node has not replied for 30 ms');
    expect(sent).toHaveBeenCalledTimes(2);
  });

  it('a silent node does not block commands to other nodes', async () => {
    const { send } = nodes();
    void send(['GET'], 'silent');
    await sleep(SILENT_MS * 2);
    expect(await send(['GET'], 'responsive')).toBe('OK');
    expect(await send(['GET'], 'responsive')).toBe('OK');
  });

  it('a silent node gets commands again after it has replied', async () => {
    const { replies, sent, send } = nodes();
    const first = send(['GET'], 'silent');
    void send(['GET'], 'silent');
    await sleep(SILENT_MS * 2);
    replies[0]();
    await first;
    void send(['GET'], 'silent');
    expect(sent).toHaveBeenCalledTimes(3);
  });

  it('a node without pending commands gets a command after a pause', async () => {
    const { replies, sent, send } = nodes();
    const first = send(['GET'], 'silent');
    replies[0]();
    await first;
    await sleep(SILENT_MS * 2);
    void send(['GET'], 'silent');
    expect(sent).toHaveBeenCalledTimes(2);
  });

  it('commands of a slot without a known node are always sent', async () => {
    const { sent, send } = nodes();
    void send(['GET'], 'other');
    await sleep(SILENT_MS * 2);
    void send(['GET'], 'other');
    expect(sent).toHaveBeenCalledTimes(2);
  });
});
