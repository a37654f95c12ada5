/** A server of Node's that answers once. */
import { createServer, type ServerResponse } from 'node:http';
import { withServer } from '../adapters/listening.ts';

/** What a client hears of an answer. */
export async function heard(answer: (response: ServerResponse) => void): Promise<Response> {
  const answers: Response[] = [];
  await withServer(
    createServer((_, response) => answer(response)),
    async (url) => {
      const response = await fetch(url);
      await response.text();
      answers.push(response);
    },
  );
  return answers[0];
}
