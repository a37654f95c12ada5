/** `POST /v1/release` and `POST /v1/renew`: end or extend the holds of a receipt. */
import type { DecisionService, NamedReceipt } from '../decision-service.ts';
import { asHttpError, type RequestContext } from '../http/request-context.ts';
import type { Handler } from '../http/router.ts';
import { checkCharacters } from '../policies.ts';
import { readBody } from './bodies.ts';
import { HoldRequest } from './schemas.ts';

async function changeHolds(
  context: RequestContext,
  change: (receipt: NamedReceipt) => Promise<boolean>,
): Promise<boolean> {
  context.checkQuery();
  const receipt = (await readBody(context, HoldRequest)).receipt as NamedReceipt;
  checkCharacters(receipt.id);
  try {
    return await change(receipt);
  } catch (error) {
    throw asHttpError(error, '/receipt');
  }
}

export function releaseHandler(decisionService: DecisionService): Handler {
  return async (context) => {
    const released = await changeHolds(context, (receipt) => decisionService.release(receipt));
    context.send(200, { released });
  };
}

export function renewHandler(decisionService: DecisionService): Handler {
  return async (context) => {
    const renewed = await changeHolds(context, (receipt) => decisionService.renew(receipt));
    context.send(200, { renewed });
  };
}
