/** `POST /v1/refund` and `POST /v1/settle`: what a check took is given back, or put right. */
import type { Desk, NamedReceipt } from '../desk.ts';
import { badRequest } from '../http/exchange.ts';
import type { Handler } from '../http/router.ts';
import { checkCharacters } from '../policies.ts';
import { readBody } from './bodies.ts';
import { RefundRequest, SettleRequest } from './schemas.ts';

export function refundHandler(desk: Desk): Handler {
  return async (exchange) => {
    exchange.checkQuery();
    const receipt = (await readBody(exchange, RefundRequest)).receipt as NamedReceipt;
    checkCharacters(receipt.id);
    const { change, used } = await desk.refund(receipt);
    exchange.send(200, { refunded: 0 - change, used });
  };
}

export function settleHandler(desk: Desk): Handler {
  return async (exchange) => {
    exchange.checkQuery();
    const { receipt, cost, costs } = await readBody(exchange, SettleRequest);
    checkCharacters(receipt.id);
    const actual = cost ?? costs;
    if (actual === undefined || (cost !== undefined && costs !== undefined)) {
      const what = 'Expected `cost`, or `costs` with one for each charge';
      throw badRequest('ERR_INVALID_COST', what, '/cost');
    }
    exchange.send(200, await desk.settle(receipt as NamedReceipt, actual));
  };
}
