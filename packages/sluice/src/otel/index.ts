/**
 * `sluice/otel`: OpenTelemetry metrics of decisions, and attributes on the active span.
 *
 *     const telemetry = openTelemetry();
 *     app.use(rateLimit({ limit: 100, window: '1m', ...telemetry }));  // with an adapter
 *     limiter.onDecision(telemetry.onDecision);                        // with a limiter
 *
 * Metrics have no attribute for the key of a limit, so the number of policies bounds the number of
 * series.
 */
import {
  type Attributes,
  type Counter,
  type MeterProvider,
  metrics,
  trace,
} from '@opentelemetry/api';
import type { Decision } from '../decision.ts';
import { checkFields, checkMethods } from '../errors.ts';

export interface OpenTelemetryOptions {
  /**
   * The provider of the meter. Default: the global one at the time of the first decision.
   *
   * @example meterProvider: new MeterProvider({ readers: [reader] })
   */
  readonly meterProvider?: MeterProvider;
  /**
   * Returns the attribute `sluice.key` of spans. Default: no attribute, because a key can identify
   * a person.
   *
   * @example key: (key) => createHash('sha256').update(secret + key).digest('hex').slice(0, 16)
   */
  readonly key?: (key: string) => string | undefined;
}

/** Listeners for decisions. Adapters accept both as options. */
export interface OpenTelemetryListeners {
  /** Records a decision. For `limiter.onDecision` and the `onDecision` of an adapter. */
  readonly onDecision: (decision: Decision) => void;
  /** Records the decision of a shadow limit. For the `onShadow` of an adapter. */
  readonly onShadow: (decision: Decision) => void;
}

interface Counters {
  readonly decisions: Counter;
  readonly degraded: Counter;
}

function createCounters(provider: MeterProvider): Counters {
  const meter = provider.getMeter('sluice');
  return {
    decisions: meter.createCounter('sluice.decisions', {
      unit: '{decision}',
      description: 'Limits decided, by policy and outcome.',
    }),
    degraded: meter.createCounter('sluice.degraded.checks', {
      unit: '{check}',
      description: 'Checks that the store could not decide, by reason and fallback action.',
    }),
  };
}

function degradedAttributes({ degraded }: Decision): Attributes {
  if (degraded === undefined) return {};
  const { reason, action } = degraded;
  return { 'sluice.degraded.reason': reason, 'sluice.degraded.action': action };
}

function count({ decisions, degraded }: Counters, decision: Decision, isShadow: boolean): void {
  for (const { policy, allowed } of decision.limits) {
    // A limit with capacity is counted as `released` if another limit denied the check.
    const decided = allowed && !decision.allowed ? 'released' : allowed ? 'allowed' : 'denied';
    const outcome = isShadow ? `shadow_${decided}` : decided;
    decisions.add(1, { 'sluice.policy': policy, 'sluice.outcome': outcome });
  }
  if (decision.degraded === undefined) return;
  degraded.add(1, { 'sluice.policy': decision.policy, ...degradedAttributes(decision) });
}

/**
 * Returns listeners that record decisions.
 *
 *     rateLimit({ limit: 100, window: '1m', ...openTelemetry() });
 */
export function openTelemetry(options: OpenTelemetryOptions = {}): OpenTelemetryListeners {
  checkFields(options, ['meterProvider', 'key']);
  const { meterProvider, key: keyOf } = options;
  if (meterProvider !== undefined) {
    checkMethods('`meterProvider` to be a MeterProvider', meterProvider, 'getMeter');
  }
  if (keyOf !== undefined) checkMethods('`key` to be a function', keyOf, 'call');
  let counters: Counters | undefined;

  const record = (decision: Decision, isShadow: boolean): void => {
    // Created at the first decision. An SDK may be started after this module is loaded, and
    // counters that are created before the SDK is started record nothing.
    counters ??= createCounters(meterProvider ?? metrics.getMeterProvider());
    count(counters, decision, isShadow);
    const span = trace.getActiveSpan();
    if (span?.isRecording() !== true) return;
    const { policy, allowed, retryAfterMs } = decision;
    const denial = { 'sluice.policy': policy, 'sluice.retry_after_ms': retryAfterMs };
    if (!isShadow) span.setAttributes(spanAttributes(decision, keyOf?.(decision.key)));
    if (!allowed) span.addEvent(isShadow ? 'sluice.shadow_denied' : 'sluice.denied', denial);
  };
  return {
    onDecision: (decision) => record(decision, false),
    onShadow: (decision) => record(decision, true),
  };
}

function spanAttributes(decision: Decision, key: string | undefined): Attributes {
  const { policy, allowed, cost, limit, remaining, retryAfterMs } = decision;
  return {
    'sluice.policy': policy,
    'sluice.outcome': allowed ? 'allowed' : 'denied',
    'sluice.cost': cost,
    'sluice.limit': limit,
    'sluice.remaining': remaining,
    ...(!allowed && { 'sluice.retry_after_ms': retryAfterMs }),
    ...(key !== undefined && { 'sluice.key': key }),
    ...degradedAttributes(decision),
  };
}
