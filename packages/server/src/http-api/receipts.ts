/** `POST /v1/refund` and `POST /v1/settle`. */
import type { DecisionService, NamedReceipt } from '../decision-service.ts';
import { badRequest } from '../http/request-context.ts';
import type { Handler } from '../http/router.ts';
import { checkCharacters } from '../policies.ts';
import { readBody } from './bodies.ts';
import { RefundRequest, SettleRequest } from './schemas.ts';

export function refundHandler(decisionService: DecisionService): Handler {
  return async (context) => {
    context.checkQuery();
    const receipt = (await readBody(context, RefundRequest)).receipt as NamedReceipt;
    checkCharacters(receipt.id);
    const { change, used } = await decisionService.refund(receipt);
    context.send(200, { refunded: 0 - change, used });
  };
}

export function settleHandler(decisionService: DecisionService): Handler {
  return async (context) => {
    context.checkQuery();
    const { receipt, cost, costs } = await readBody(context, SettleRequest);
    checkCharacters(receipt.id);
    const actual = cost ?? costs;
    if (actual === undefined || (cost !== undefined && costs !== undefined)) {
      const what = 'Expected either `cost`, or `costs` with one cost per charge';
      throw badRequest('ERR_INVALID_COST', what, '/cost');
    }
    context.send(200, await decisionService.settle(receipt as NamedReceipt, actual));
  };
}
