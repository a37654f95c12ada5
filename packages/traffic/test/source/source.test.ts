/** Log files and standard input, and their errors. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as zlib from 'node:zlib';
import { describe, expect, it, onTestFinished } from 'vitest';
import { LogReader, type LogReport } from '../../src/read-log.ts';
import { LogError, linesOf, sizeOf } from '../../src/source.ts';
import { combinedLine, makeFile, makeFolder, readAll, START_MS, sample } from '../reading.ts';

const combined = sample('combined');
const content = readFileSync(combined.path);

/** Resolves to the error of reading a file, or to 'no failure'. */
async function failureOf(path: string): Promise<unknown> {
  return await readAll(path).then(
    () => 'no failure',
    (error: unknown) => error,
  );
}

/** A zstd frame with one uncompressed block. */
function zstdFrame(text: string): Buffer {
  const content = Buffer.from(text);
  const isLastAndRaw = 1;
  const block = (content.length << 3) | isLastAndRaw;
  const header = [0x28, 0xb5, 0x2f, 0xfd, 0x20, content.length, block & 255, block >> 8, 0];
  return Buffer.concat([Buffer.from(header), content]);
}

async function errorOf(bytes: string | Uint8Array, name?: string): Promise<string> {
  const path = makeFile(bytes, name);
  const error = await failureOf(path);
  expect(error).toBeInstanceOf(LogError);
  return (error as LogError).message.replaceAll(path, 'FILE');
}

interface Result {
  readonly report?: LogReport;
  readonly error?: string;
  readonly peakKilobytes: number;
}

/** Runs the reader in a separate process and writes its standard input. */
async function readInput(
  feed: (stdin: NodeJS.WritableStream) => Promise<void>,
  paths = ['-'],
): Promise<Result> {
  const program = new URL('./read-paths.mjs', import.meta.url).pathname;
  const stdio = ['pipe', 'pipe', 'inherit'] as const;
  const child = spawn(process.execPath, [program, ...paths], { stdio: [...stdio] });
  await feed(child.stdin as NodeJS.WritableStream);
  return JSON.parse(await textOf(child.stdout as AsyncIterable<Buffer>));
}

describe('log files', () => {
  it('the progress of reading a log has the number of bytes read', async () => {
    const reader = await LogReader.open([combined.path]);
    expect(reader.report.progress).toEqual({ bytesRead: 0, bytesTotal: content.length });
    for await (const _ of reader.entries());
    expect(reader.report.progress).toEqual({
      bytesRead: content.length,
      bytesTotal: content.length,
    });
  });

  it.each([
    ['with carriage returns', content.toString().replaceAll('\n', '\r\n')],
    ['with a byte order mark', `\uFEFF${content}`],
    ['without a newline at its end', content.toString().trimEnd()],
    ['packed by gzip', zlib.gzipSync(content)],
    [
      'packed by gzip in two parts',
      Buffer.concat([
        zlib.gzipSync(content.subarray(0, 999)),
        zlib.gzipSync(content.subarray(999)),
      ]),
    ],
  ])('a log %s is read like the plain one', async (_, bytes) => {
    const { report } = await readAll(makeFile(bytes));
    expect(report).toMatchObject({
      ...{ lines: combined.lines.length, entries: combined.entries.size, unreadable: 20 },
      ...{ format: 'combined', blank: 0 },
    });
  });

  it('progress of a gzip file counts compressed bytes', async () => {
    const packed = zlib.gzipSync(content);
    const { report } = await readAll(makeFile(packed, 'access.log.gz'));
    expect(report.progress).toEqual({ bytesRead: packed.length, bytesTotal: packed.length });
  });

  it('a zstd log is read if Node supports zstd, otherwise zstdcat is suggested', async () => {
    const path = makeFile(zstdFrame(combinedLine(START_MS)), 'access.log.zst');
    if ('createZstdDecompress' in zlib) {
      expect((await readAll(path)).report).toMatchObject({ lines: 1, entries: 1 });
    } else {
      const error = String(await failureOf(path));
      const packings = 'to be plain or gzip, got zstd';
      const wayOut = 'cannot read. Decompress it with zstdcat and read `-`.';
      expect(error).toBe(
        `LogError: Expected ${path} ${packings}, which Node ${process.versions.node} ${wayOut}`,
      );
    }
  });

  it('blank lines of a log are counted', async () => {
    const { report } = await readAll(makeFile(`\n\n${combinedLine(START_MS)}\n  \n\t\n`));
    expect(report).toMatchObject({ lines: 5, entries: 1, blank: 4, unreadable: 0 });
  });

  it('a log may have a single line', async () => {
    const { entries, report } = await readAll(makeFile(combinedLine(START_MS)));
    expect(entries.map(({ timeMs }) => timeMs)).toEqual([START_MS]);
    expect(report).toMatchObject({ lines: 1, entries: 1, firstMs: START_MS, lastMs: START_MS });
  });

  it('invalid UTF-8 is read as the replacement character', async () => {
    const line = combinedLine(START_MS, '192.0.2.1', '/a\xffb');
    const { entries } = await readAll(makeFile(Buffer.from(line, 'latin1')));
    expect(entries[0].path).toBe('/a\ufffdb');
  });

  it('a line with zero bytes in its client is unreadable', async () => {
    const good = combinedLine(START_MS);
    const filler = `${good}\n`.repeat(100);
    const { report } = await readAll(makeFile(`${filler}\0\0\0\0${good}\n${good}\n`));
    expect(report).toMatchObject({ entries: 101, unreadable: 1 });
    expect(report.samples[0]).toMatchObject({ line: 101 });
    expect(report.samples[0].text).toMatch(/^\\x00\\x00\\x00\\x00192\.0\.2\.1/);
  });

  it('samples of unreadable lines have escaped control characters', async () => {
    const { report } = await readAll(
      makeFile(`${combinedLine(START_MS)}\n\u001b[2J\u0007${'x'.repeat(900)}\n`),
    );
    expect(report.samples[0].text).toBe(`\\x1b[2J\\x07${'x'.repeat(195)}`);
  });

  it('at most twenty unreadable lines of a log are listed', async () => {
    const bad = Array.from({ length: 90 }, (_, at) => `bad ${at}`).join('\n');
    const { report } = await readAll(makeFile(`${`${combinedLine(START_MS)}\n`.repeat(30)}${bad}`));
    expect(report.unreadable).toBe(90);
    expect(report.samples).toHaveLength(20);
    expect(report.samples[19]).toMatchObject({ line: 50, text: 'bad 19' });
  });
});

describe('very long lines', () => {
  it('a very long line is cut, and the following lines are read', async () => {
    const long = `${combinedLine(START_MS)}${'y'.repeat(300_000)}`;
    const after = combinedLine(START_MS + 1);
    const { report } = await readAll(
      makeFile(`${long}\n${after}\n${'z'.repeat(1_000_000)}\n${after}`),
    );
    expect(report).toMatchObject({ lines: 4, entries: 3, unreadable: 1 });
  });

  it('a line of 200 MB is read in constant memory', async () => {
    const measure = (megabytes: number): Promise<Result> =>
      readInput(async (stdin) => {
        const piece = Buffer.alloc(2 ** 20, 'x');
        for (let sent = 0; sent < megabytes; sent++) {
          if (!stdin.write(piece)) await once(stdin, 'drain');
        }
        stdin.end();
      });
    const [few, many] = [await measure(1), await measure(200)];
    expect(many.error).toMatch(/^LogError: Expected standard input to be in one of the formats/);
    expect(many.peakKilobytes - few.peakKilobytes).toBeLessThan(100 * 1024);
  });
});

async function textOf(stream: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

describe('input that is not a log', () => {
  it('an empty log is rejected', async () => {
    expect(await errorOf('')).toBe('Expected FILE to have requests, got none');
    expect(await errorOf('\n\n \n')).toBe('Expected FILE to have requests, got none');
    expect(await errorOf(zlib.gzipSync(''))).toBe('Expected FILE to have requests, got none');
  });

  it('a log of binary data is rejected', async () => {
    expect(await errorOf(readFileSync(process.execPath).subarray(0, 9999))).toBe(
      'Expected FILE to be a log, got data that is not text',
    );
    expect(await errorOf(zlib.gzipSync(Buffer.alloc(100)))).toBe(
      'Expected FILE to be a log, got data that is not text',
    );
    expect(await errorOf(Buffer.from(content.toString(), 'utf16le'))).toBe(
      'Expected FILE to be a log, got data that is not text',
    );
  });

  it('a log in no known format is rejected', async () => {
    const formats =
      'combined, haproxy, envoy, caddy, traefik, alb, cloudfront, iis, json-lines, csv';
    expect(await errorOf('once upon a time\nthere was a log\n')).toBe(
      `Expected FILE to be in one of the formats ${formats}, got \`once upon a time\`. ` +
        'For another format, use --pattern with the log_format of nginx',
    );
  });

  it('a folder in place of a log is rejected', async () => {
    const folder = makeFolder();
    mkdirSync(join(folder, 'logs'));
    await expect(readAll(join(folder, 'logs'))).rejects.toThrow(
      new LogError(`Expected ${folder}/logs to be a file, got a folder`),
    );
  });

  it('a missing log is rejected', async () => {
    const path = join(makeFolder(), 'none.log');
    await expect(readAll(path)).rejects.toThrow(
      new LogError(`Expected ${path} to be a readable file, got no such file`),
    );
    await expect(readAll(`${combined.path}/below`)).rejects.toThrow(/got no such file$/);
  });

  it('a log that is deleted before it is read is rejected', async () => {
    const path = join(makeFolder(), 'gone.log');
    const reading = linesOf(path, { bytesRead: 0, bytesTotal: undefined }).next();
    await expect(reading).rejects.toThrow(/^Expected .*gone\.log to be a readable file, got/);
    await expect(sizeOf(path)).rejects.toBeInstanceOf(LogError);
  });

  it('a truncated gzip log is rejected', async () => {
    const packed = zlib.gzipSync(content);
    for (const length of [2, 5, 18, packed.length / 2, packed.length - 1]) {
      expect(await errorOf(packed.subarray(0, length))).toBe(
        'Expected FILE to be complete, got a decompression error: unexpected end of file',
      );
    }
  });

  it('a corrupt gzip log is rejected', async () => {
    const packed = Buffer.from(zlib.gzipSync(content));
    packed.fill(0xaa, 200, 260);
    expect(await errorOf(packed)).toMatch(/^Expected FILE to be complete, got a decompression/);
  });

  it('an empty list of logs is rejected', async () => {
    await expect(LogReader.open([])).rejects.toThrow('Expected the path of a log, got none');
  });

  it('entries before a decompression error are returned', async () => {
    const lines = Array.from({ length: 50_000 }, (_, at) => combinedLine(START_MS + 100 * at));
    const packed = zlib.gzipSync(lines.join('\n'));
    const reader = await LogReader.open([makeFile(packed.subarray(0, packed.length - 100))]);
    const reading = (async () => {
      for await (const _ of reader.entries());
    })();
    await expect(reading).rejects.toBeInstanceOf(LogError);
    expect(reader.report.entries).toBeGreaterThan(10_000);
  });
});

describe('standard input', () => {
  const feedAll = (bytes: string | Uint8Array) => async (stdin: NodeJS.WritableStream) => {
    stdin.end(bytes);
  };
  const whole = {
    ...{ lines: combined.lines.length, entries: combined.entries.size, unreadable: 20 },
    format: 'combined',
  };

  it('standard input is read like a file', async () => {
    const { report } = await readInput(feedAll(content));
    expect(report).toMatchObject({ ...whole, progress: { bytesRead: content.length } });
    expect(report?.progress.bytesTotal).toBeUndefined();
  });

  it('standard input may be gzip and arrive byte by byte', async () => {
    const packed = zlib.gzipSync(content);
    const { report } = await readInput(async (stdin) => {
      for (let at = 0; at < 8; at++) {
        stdin.write(packed.subarray(at, at + 1));
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      stdin.end(packed.subarray(8));
    });
    expect(report).toMatchObject(whole);
  });

  it('short, empty and truncated standard input is rejected', async () => {
    expect(await readInput(feedAll('x'))).toMatchObject({
      error: expect.stringMatching(
        /^LogError: Expected standard input to be in one of the formats/,
      ),
    });
    expect(await readInput(feedAll(''))).toMatchObject({
      error: 'LogError: Expected standard input to have requests, got none',
    });
    expect(await readInput(feedAll(zlib.gzipSync(content).subarray(0, 99)))).toMatchObject({
      error: expect.stringMatching(
        /^LogError: Expected standard input to be complete, got a decompression/,
      ),
    });
  });

  it('standard input is read together with files', async () => {
    const path = makeFile(combinedLine(START_MS));
    const { report } = await readInput(feedAll(content), [path, '-']);
    expect(report).toMatchObject({ lines: whole.lines + 1, entries: whole.entries + 1 });
  });

  it('a log is read from a named pipe', async () => {
    const path = join(makeFolder(), 'pipe');
    execFileSync('mkfifo', [path]);
    const reading = readAll(path);
    const packed = makeFile(zlib.gzipSync(content));
    const writer = spawn('sh', ['-c', 'cat "$1" > "$2"', 'sh', packed, path], { stdio: 'ignore' });
    onTestFinished(() => void writer.kill());
    expect((await reading).report).toMatchObject({ ...whole, progress: { bytesTotal: undefined } });
  });
});
