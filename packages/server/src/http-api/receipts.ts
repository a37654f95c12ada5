/** `POST /v1/refund` and `POST /v1/settle`. */
import type { DecisionService, NamedReceipt } from '../decision-service.ts';
import { badRequest } from '../http/request-context.ts';
import type { Handler } from '../http/router.ts';
import { checkCharacters } from '../policies.ts';
import { splitReceipt } from '../receipts.ts';
import { readBody } from './bodies.ts';
import type { ClientOf } from './clients.ts';
import { RefundRequest, SettleRequest } from './schemas.ts';

export function refundHandler(decisionService: DecisionService, clientOf: ClientOf): Handler {
  return async (context) => {
    context.checkQuery();
    const given = (await readBody(context, RefundRequest)).receipt as NamedReceipt;
    checkCharacters(given.id);
    const { receipt, client } = splitReceipt(given, clientOf(context));
    const { change, used } = await decisionService.refund(receipt, client);
    context.send(200, { refunded: 0 - change, used });
  };
}

export function settleHandler(decisionService: DecisionService, clientOf: ClientOf): Handler {
  return async (context) => {
    context.checkQuery();
    const { receipt: given, cost, costs } = await readBody(context, SettleRequest);
    checkCharacters(given.id);
    const actual = cost ?? costs;
    if (actual === undefined || (cost !== undefined && costs !== undefined)) {
      const what = 'Expected either `cost`, or `costs` with one cost per charge';
      throw badRequest('ERR_INVALID_COST', what, '/cost');
    }
    const { receipt, client } = splitReceipt(given as NamedReceipt, clientOf(context));
    context.send(200, await decisionService.settle(receipt, actual, client));
  };
}
