/** Servers that listen during a test. */
import type { Server } from 'node:http';

export async function withServer(
  server: Server,
  test: (url: string) => Promise<void>,
): Promise<void> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    await test(`http://127.0.0.1:${(server.address() as { port: number }).port}/`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}
