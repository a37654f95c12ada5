import { createServer, type ServerResponse } from 'node:http';
import { withServer } from '../adapters/listening.ts';

/** Returns what a client receives from a server that runs `respond`. Rethrows its errors. */
export async function responseTo(respond: (response: ServerResponse) => void): Promise<Response> {
  const received: Response[] = [];
  const failures: unknown[] = [];
  const server = createServer((_, response) => {
    try {
      respond(response);
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
    received.push(response);
  });
  if (failures.length > 0) throw failures[0];
  return received[0];
}
