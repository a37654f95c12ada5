/** The part of the adapter contract about `onDecision` and about limiters passed as `limiter`. */
import type { Decision } from '../decision.ts';
import type { RequestOptions } from '../http/options.ts';
import { createLimiter } from '../limiter.ts';
import {
  type AdapterCase,
  type AnyRequest,
  adapterCase,
  type CaseContext,
  equal,
  type OptionsOf,
} from './adapter-case.ts';

type Recorder = (decision: Decision, request: AnyRequest) => void;

/** Creates a case whose options record the decisions that a listener receives. */
function recordingCase(
  name: string,
  optionsOf: (record: Recorder, ...args: Parameters<OptionsOf>) => RequestOptions<AnyRequest>,
  test: (world: CaseContext, seen: readonly unknown[]) => Promise<void>,
): AdapterCase {
  return {
    name,
    run(adapter, openStore) {
      const seen: unknown[] = [];
      const record: Recorder = ({ policy, allowed }, request) => {
        seen.push([policy, allowed, adapter.header(request, 'x-user')]);
      };
      const options: OptionsOf = (...args) => optionsOf(record, ...args);
      return adapterCase(name, options, (world) => test(world, seen)).run(adapter, openStore);
    },
  };
}

/** Cases about `onDecision` and `limiter`. */
export const observationCases: readonly AdapterCase[] = [
  recordingCase(
    'calls onDecision with the decision and the request before the handler responds',
    (onDecision) => ({ limit: 1, window: '1h', name: 'one', onDecision }),
    async ({ request }, seen) => {
      await request({ 'x-user': 'ada' });
      equal('recorded decisions', seen, [['one', true, 'ada']]);
      await request({ 'x-user': 'bob' });
      equal('decisions recorded later', seen.slice(1), [['one', false, 'bob']]);
    },
  ),

  recordingCase(
    'does not call onDecision for shadow limits, nor for skipped requests',
    (onDecision, adapter) => ({
      limits: [
        { name: 'one', limit: 1, window: '1h' },
        { name: 'watched', limit: 1, window: '1h', shadow: true },
      ],
      skip: (request) => adapter.header(request, 'x-skip') === 'yes',
      onDecision,
    }),
    async ({ request }, seen) => {
      await request({ 'x-skip': 'yes' });
      await request();
      equal('recorded decisions', seen, [['one', true, undefined]]);
    },
  ),

  adapterCase(
    'an error in onDecision does not affect the response',
    () => ({
      limit: 1,
      window: '1h',
      onWarning() {},
      onDecision() {
        throw new Error('listener failed');
      },
    }),
    async ({ request }) => {
      equal('status of the first request', (await request()).status, 200);
      equal('status of the second request', (await request()).status, 429);
    },
  ),

  recordingCase(
    'limits requests by policies of an existing limiter',
    (onDecision, _adapter, store) => ({
      store: undefined as never,
      limiter: createLimiter({ policies: { user: '1/1h', all: '2/1h' }, store }),
      limits: [
        { policy: 'user', key: { header: 'x-user' } },
        { policy: 'all', key: () => 'all' },
      ],
      onDecision,
    }),
    async ({ request, store }, seen) => {
      const responses: Response[] = [];
      for (const user of ['ada', 'ada', 'bob', 'eve']) {
        responses.push(await request({ 'x-user': user }));
      }
      equal(
        'statuses by request',
        responses.map(({ status }) => status),
        [200, 429, 200, 429],
      );
      const policy = responses[0].headers.get('ratelimit-policy');
      equal('header RateLimit-Policy', policy, '"user";q=1;w=3600, "all";q=2;w=3600');
      equal('number of recorded decisions', seen.length, 4);
      // Another limiter with the same store and policy has the same counters.
      const same = createLimiter({ policies: { all: '2/1h' }, store });
      equal('remaining in another limiter', (await same.peek('all', 'all')).remaining, 0);
    },
  ),
];
