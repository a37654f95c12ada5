/**
 * Creates receipts of decisions. The store applies a receipt id at most once, even if several
 * processes use it.
 */
import { createHash } from 'node:crypto';
import type { Charge, CheckResult, Receipt } from 'sluice';
import { MAX_KEY_LENGTH } from 'sluice/engine';
import type { NamedReceipt, ServiceDecision } from './decision-service.ts';

/**
 * Returns the receipt of a decision, or undefined if nothing was charged. `client` is the client
 * that made the check. A check repeated with the same `checkId` gets the client of the first check,
 * so that both have the same receipt id.
 */
export function receiptOf(
  decision: ServiceDecision,
  checkId?: string,
  client?: string,
): NamedReceipt | undefined {
  const { allowed, result, shadow, peek } = decision;
  if (!allowed || peek) return undefined;
  const enforced = result === undefined ? [] : chargesOf(result);
  const charges = shadow.length === 0 ? enforced : [...enforced, ...shadow.flatMap(chargesOf)];
  if (charges.length === 0) return undefined;
  if (checkId === undefined) return { id: nextReceiptId(client), charges };
  // The id depends on the enforced charges only, if there are any: a repeated check may charge
  // shadow limits again, but not enforced limits.
  const id = receiptIdOf(checkId, enforced.length > 0 ? enforced : charges);
  return { id: receiptId(id, (result ?? shadow[0]).client), charges };
}

/**
 * Returns the receipt id of a check that has an id. A repeated check has the same charges in every
 * process, and therefore the same receipt id. Different or later charges under the same check id
 * have a different receipt id.
 */
function receiptIdOf(checkId: string, charges: readonly Charge[]): string {
  const parts = charges.map(({ policy, key, cost, atMs, degraded, local }) => [
    ...[policy, key, cost, atMs],
    ...[degraded, local],
  ]);
  const text = `id:${checkId}:${JSON.stringify(parts)}`;
  if (text.length < MAX_KEY_LENGTH - MAX_CLIENT_LENGTH) return text;
  return `sha256:${createHash('sha256').update(text).digest('hex')}`;
}

const chargesOf = (result: CheckResult): readonly Charge[] =>
  (result as { receipt?: Receipt }).receipt?.charges ?? [];

const PROCESS_PREFIX = crypto.randomUUID().replaceAll('-', '').slice(0, 16);
let receiptCount = 0;

/** Returns a unique id: the client, a random prefix of this process and a counter. */
export const nextReceiptId = (client?: string): string =>
  receiptId(`${PROCESS_PREFIX}${(receiptCount++).toString(36)}`, client);

/**
 * Adds the client to a receipt id. The store attributes the memory of a used receipt to this
 * client.
 */
const receiptId = (id: string, client?: string): string =>
  client === undefined ? id : `${client}~${id}`;

const MAX_CLIENT_LENGTH = 16;
const CLIENT_PART = /^([\w-]{1,16})~(.+)$/s;

/**
 * Splits the client off the id of a receipt. If the id has no client, for example because the
 * service did not issue the receipt, `caller` is returned as the client.
 */
export function splitReceipt(
  receipt: NamedReceipt,
  caller: string,
): { readonly receipt: NamedReceipt; readonly client: string } {
  const [, client, id] = CLIENT_PART.exec(receipt.id) ?? [];
  if (client === undefined) return { receipt, client: caller };
  return { receipt: { ...receipt, id }, client };
}
