/**
 * GraphQL: the server computes the cost of a query before it executes the query. Each field costs
 * 1. The fields inside a list cost 1 for each requested item of the list.
 *
 *     npm run build && node examples/graphql/main.mjs
 *     curl -i http://127.0.0.1:3000/ -H 'content-type: application/json' \
 *       -d '{"query":"{ books(first: 20) { title author { name } } }"}'
 *
 * This query costs 1 + 20 * 3 = 61 of 100 points per 10 s. The second such query within 10 s gets a
 * 429 with Retry-After and `extensions.code` RATE_LIMITED. A query that costs more than 100 points
 * could never be admitted and gets a 400.
 */
import { createServer } from 'node:http';
import {
  buildSchema,
  execute,
  getOperationAST,
  getVariableValues,
  Kind,
  parse,
  validate,
} from 'graphql';
import { createLimiter } from 'sluice';

const POINTS = 100;
const MAX_BODY_BYTES = 100_000;
const DEFAULT_ITEMS = 10;

const schema = buildSchema(`
  type Query { books(first: Int = ${DEFAULT_ITEMS}): [Book!]! }
  type Book { title: String! author: Author! }
  type Author { name: String! books(first: Int = ${DEFAULT_ITEMS}): [Book!]! }
`);

const author = { name: 'Ada', books: ({ first }) => books({ first }) };
const books = ({ first }) =>
  Array.from({ length: first }, (_, place) => ({ title: `Book ${place + 1}`, author }));

const limiter = createLimiter({ policies: { points: { limit: POINTS, window: '10s' } } });

/** Returns the number of items that a field requests: 1 if the field is not a list. */
function itemsOf({ name, arguments: given }, variables) {
  const first = given.find((each) => each.name.value === 'first')?.value;
  if (first === undefined) return name.value === 'books' ? DEFAULT_ITEMS : 1;
  const value = first.kind === Kind.VARIABLE ? variables[first.name.value] : Number(first.value);
  return Number.isSafeInteger(value) && value >= 0 ? value : DEFAULT_ITEMS;
}

/**
 * Returns the cost of a valid operation. Computes the cost of each fragment only once: if fragments
 * contain other fragments twice, the number of fields grows exponentially.
 */
function costOf(operation, document, variables) {
  const fragments = new Map();
  for (const each of document.definitions) {
    if (each.kind === Kind.FRAGMENT_DEFINITION) fragments.set(each.name.value, each);
  }
  const costs = new Map();
  const costOfFragment = (name) => {
    if (!costs.has(name)) costs.set(name, costOfAll(fragments.get(name).selectionSet));
    return costs.get(name);
  };
  const costOfAll = ({ selections }) => {
    let cost = 0;
    for (const each of selections) {
      if (each.kind === Kind.FRAGMENT_SPREAD) cost += costOfFragment(each.name.value);
      else if (each.kind === Kind.INLINE_FRAGMENT) cost += costOfAll(each.selectionSet);
      else
        cost +=
          1 + (each.selectionSet ? itemsOf(each, variables) * costOfAll(each.selectionSet) : 0);
    }
    return cost;
  };
  return costOfAll(operation.selectionSet);
}

async function bodyOf(request) {
  let text = '';
  for await (const part of request.setEncoding('utf8')) {
    text += part;
    if (text.length > MAX_BODY_BYTES) throw new Error('The body is too long.');
  }
  return JSON.parse(text);
}

const failed = (status, message, extensions, headers) => ({
  status,
  headers,
  body: { errors: [{ message, ...(extensions && { extensions }) }] },
});

async function respond(request) {
  const { query, variables, operationName } = await bodyOf(request);
  const document = parse(query, { maxTokens: 10_000 });
  const [invalid] = validate(schema, document);
  if (invalid !== undefined) return failed(400, invalid.message);
  const operation = getOperationAST(document, operationName);
  if (!operation) return failed(400, 'Expected `operationName` to be an operation of the query.');
  // Includes the default values that the query declares for its variables: they affect the cost.
  const definitions = operation.variableDefinitions ?? [];
  const { coerced, errors } = getVariableValues(schema, definitions, variables ?? {});
  if (errors !== undefined) return failed(400, errors[0].message);
  const cost = costOf(operation, document, coerced);
  if (cost > POINTS) return failed(400, `The query costs ${cost} points; the limit is ${POINTS}.`);
  // The key is the address of the connection. With authentication, use the id of the user.
  const key = request.socket.remoteAddress;
  const { allowed, remaining, retryAfterMs } = await limiter.check('points', key, { cost });
  if (!allowed) {
    const extensions = { code: 'RATE_LIMITED', cost, remaining, retryAfterMs };
    const headers = { 'retry-after': Math.ceil(retryAfterMs / 1000) };
    return failed(429, 'Too many requests', extensions, headers);
  }
  const rootValue = { books };
  const result = await execute({
    schema,
    document,
    rootValue,
    variableValues: variables,
    operationName,
  });
  return { status: 200, body: { ...result, extensions: { cost, remaining } } };
}

const server = createServer(async (request, response) => {
  const { status, headers, body } = await respond(request).catch((error) =>
    failed(400, error.message),
  );
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify(body));
});
server.listen(process.env.PORT ?? 3000, '127.0.0.1', () => {
  console.log(`Listening on http://127.0.0.1:${server.address().port}`);
});
