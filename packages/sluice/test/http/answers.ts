/** A server of Node's that answers once. */
import { createServer, type ServerResponse } from 'node:http';
import { withServer } from '../adapters/listening.ts';

/** What a client hears of an answer; what the answer throws is thrown here. */
export async function heard(answer: (response: ServerResponse) => void): Promise<Response> {
  const answers: Response[] = [];
  const failures: unknown[] = [];
  const server = createServer((_, response) => {
    try {
      answer(response);
    } catch (error) {
      failures.push(error);
      response.destroy();
    }
  });
  await withServer(server, async (url) => {
    const response = await fetch(url).catch((error: unknown) => {
      throw failures[0] ?? error;
    });
    await response.text();
    answers.push(response);
  });
  if (failures.length > 0) throw failures[0];
  return answers[0];
}
