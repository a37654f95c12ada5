import { type ExecutionContext, Module } from '@nestjs/common';
import type { Request } from 'express';
import { type NestOptions, RateLimit, RateLimitModule, SkipRateLimit } from 'sluice/nest';

const options: NestOptions = {
  limit: 100,
  window: '1m',
  key: (request: Request) => request.ip,
  request: (context: ExecutionContext) => context.switchToWs().getClient().request,
};

export class Pages {
  login(request: Request): number | undefined {
    return request.rateLimit?.remaining;
  }
}
RateLimit({ limit: 5, window: '1h' })(Pages);
SkipRateLimit()(Pages);

export class AppModule {}
Module({
  imports: [
    RateLimitModule.forRoot(options),
    RateLimitModule.forRoot({ limit: 10, window: '10s', keyGenerator: (request) => request.ip }),
  ],
})(AppModule);
