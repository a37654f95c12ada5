/** Declares the property of Express's request that holds the decision. */
import type { RateLimitInfo } from './compat/express-rate-limit.ts';

declare global {
  namespace Express {
    interface Request {
      /** The state of the limit; undefined if the request was not limited. */
      rateLimit?: RateLimitInfo;
    }
  }
}
