/**
 * Nest: a limit for all handlers, a stricter limit for one handler, and none for the health check.
 *
 *     npm run build && node examples/nest/main.mjs
 *     for i in 1 2 3 4 5 6; do curl -i http://127.0.0.1:3000/; done
 *
 * The sixth response is a 429 with Retry-After. /export is limited to two requests per minute,
 * /health is not limited.
 *
 * JavaScript has no decorator syntax, so this file calls decorators as functions. In TypeScript,
 * write `@Get('export') @RateLimit({ ... })` above the method.
 */
import 'reflect-metadata';
import { Controller, Get, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { RateLimit, RateLimitModule, SkipRateLimit } from 'sluice/nest';

class Pages {
  hello() {
    return { hello: 'world' };
  }

  export() {
    return 'a,b,c\n';
  }

  health() {
    return 'ok';
  }
}

class App {}

function decorate(controller, method, ...decorators) {
  const property = Object.getOwnPropertyDescriptor(controller.prototype, method);
  for (const decorator of decorators) decorator(controller.prototype, method, property);
}

Controller()(Pages);
decorate(Pages, 'hello', Get());
decorate(Pages, 'export', Get('export'), RateLimit({ name: 'export', limit: 2, window: '1m' }));
decorate(Pages, 'health', Get('health'), SkipRateLimit());

Module({
  imports: [RateLimitModule.forRoot({ limit: 5, window: '10s' })],
  controllers: [Pages],
})(App);

const app = await NestFactory.create(App, { logger: ['error'] });
await app.listen(process.env.PORT ?? 3000, '127.0.0.1');
console.log(`Listening on ${await app.getUrl()}`);
