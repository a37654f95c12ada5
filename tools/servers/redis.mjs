/**
 * Real Redis servers for tests and benchmarks: a single server, a master with replicas and
 * sentinels, or a cluster.
 *
 * The servers listen on 127.0.0.1 only, use temporary folders and end with this process. Requires
 * redis-server and, for TLS, openssl: `tools/ensure-services redis openssl`.
 */
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { command, HOST, launch, randomPort, until } from './redis-process.mjs';

export { command };

const MASTER_NAME = 'main';
const SLOTS = 16_384;

/**
 * Creates a temporary certificate authority and a server certificate for 127.0.0.1. Returns the
 * certificate of the authority.
 */
function makeCertificates(folder) {
  const openssl = (line, ...more) =>
    execFileSync('openssl', [...line.split(' '), ...more], { cwd: folder, stdio: 'pipe' });
  const newKey = '-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes';
  writeFileSync(join(folder, 'names'), `subjectAltName=IP:${HOST}\n`);
  openssl(`req -x509 ${newKey} -keyout ca.key -out ca.crt -days 2 -subj`, '/CN=throw-away');
  openssl(`req -new ${newKey} -keyout server.key -out server.csr -subj`, `/CN=${HOST}`);
  openssl(
    'x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile names',
    ...['-out', 'server.crt'],
  );
  return readFileSync(join(folder, 'ca.crt'), 'utf8');
}

/** Set `REDIS_SERVER` to test another version, or Valkey. */
const PROGRAM = process.env.REDIS_SERVER ?? 'redis-server';

/**
 * Returns the command line and the access data of a server. This module sends its commands as
 * `administrator`, a separate user with all rights, so that tests can define any other users.
 */
function redisPlan(folder, port, options) {
  const { args = [], password, acl = [], tls = false } = options;
  const secret = randomBytes(16).toString('hex');
  const access = { username: 'administrator', password: secret };
  if (tls) access.tls = makeCertificates(folder);
  if (options.folder) mkdirSync(options.folder, { recursive: true });
  const file = (name) => join(folder, name);
  const tlsWords = ['--port', 0, '--tls-port', port, '--tls-auth-clients', 'no'];
  tlsWords.push('--tls-cert-file', file('server.crt'), '--tls-key-file', file('server.key'));
  tlsWords.push('--tls-ca-cert-file', file('ca.crt'));
  const user = (line) => ['--user', ...line.trim().split(/\s+/)];
  const programArgs = [
    ...['--bind', HOST, '--dir', options.folder ?? folder],
    ...['--save', '', '--appendonly', 'no', '--enable-debug-command', 'yes'],
    ...['--repl-diskless-sync-delay', 0],
    ...(tls ? tlsWords : ['--port', port]),
    ...(password === undefined ? [] : ['--requirepass', password]),
    ...user(`administrator on >${secret} ~* &* +@all`),
    ...acl.flatMap(user),
    ...args,
  ];
  const login = password === undefined ? '' : `:${encodeURIComponent(password)}@`;
  const url = `${tls ? 'rediss' : 'redis'}://${login}${HOST}:${port}`;
  return { program: PROGRAM, programArgs, url, access, endsGently: Boolean(options.folder) };
}

export function startRedis(options = {}) {
  return launch((folder, port) => redisPlan(folder, port, options), options.port);
}

/**
 * Waits for servers that are starting, and adds them to `group`. If one fails, adds the others and
 * throws, so that the caller can stop all servers of the group.
 */
async function startAll(group, starting) {
  const settled = await Promise.allSettled(starting);
  const started = settled.filter(({ value }) => value).map(({ value }) => value);
  group.push(...started);
  const failed = settled.find(({ reason }) => reason);
  if (failed) throw failed.reason;
  return started;
}

const stopAll = (group) => Promise.all(group.map((server) => server.stop()));

/**
 * Runs `assemble` with an empty group of servers. If it fails, stops the servers that it has added.
 */
async function withServers(assemble) {
  const group = [];
  try {
    return await assemble(group);
  } catch (error) {
    await stopAll(group);
    throw error;
  }
}

const times = (count, make) => Array.from({ length: count }, (_, index) => make(index));

async function isLinked(replica) {
  return (await replica.command('INFO', 'replication')).includes('master_link_status:up');
}

async function allAre(items, condition) {
  return (await Promise.all(items.map(condition))).every(Boolean);
}

/**
 * Returns the command line of a sentinel. A sentinel stores its state in its configuration file, so
 * the file must be written only before the first start.
 */
function sentinelPlan(folder, port, masterPort) {
  const lines = [
    `port ${port}`,
    `bind ${HOST}`,
    `dir ${folder}`,
    `sentinel monitor ${MASTER_NAME} ${HOST} ${masterPort} 2`,
    `sentinel down-after-milliseconds ${MASTER_NAME} 700`,
    `sentinel failover-timeout ${MASTER_NAME} 3000`,
    `sentinel parallel-syncs ${MASTER_NAME} 2`,
  ];
  const file = join(folder, 'sentinel.conf');
  writeFileSync(file, `${lines.join('\n')}\n`);
  return { program: PROGRAM, programArgs: [file, '--sentinel'], afterStart: speedUp };
}

/**
 * Changes settings that the configuration file does not support. The ping interval is well below
 * `down-after-milliseconds`: otherwise each new master would first be considered down. The publish
 * interval is not minimal, because a sentinel reconfigures a server that reports another role for
 * four intervals, even during a failover. The high `tilt-trigger` prevents TILT mode if the machine
 * is busy for some seconds.
 */
function speedUp(sentinel, greetingMs = 500) {
  const periods = `ping-period 300 ask-period 100 info-period 1000 publish-period ${greetingMs}`;
  return sentinel.command('SENTINEL', 'DEBUG', ...periods.split(' '), 'tilt-trigger', 20_000);
}

/** Converts a flat list of names and values to an object. */
const fields = (list) =>
  Object.fromEntries(times(list.length / 2, (i) => list.slice(2 * i, 2 * i + 2)));

async function isComplete(sentinel) {
  const about = (what) => sentinel.command('SENTINEL', what, MASTER_NAME);
  const master = fields(await about('MASTER'));
  const replicas = (await about('REPLICAS')).map(fields);
  const isFine = (each) => each.flags === 'slave' && each['master-link-status'] === 'ok';
  const others = Number(master['num-other-sentinels']);
  if (master.flags !== 'master' || others !== 2 || replicas.length !== 2) return false;
  return replicas.every(isFine) && (await about('CKQUORUM')).startsWith('OK 3 ');
}

/** Resolves to the replies of the sentinels that respond. Rejects if there are fewer than two. */
async function queryAlive(sentinels, what) {
  const args = ['SENTINEL', what, MASTER_NAME];
  const pending = sentinels.map((sentinel) => sentinel.send(args, { timeoutMs: 1000 }));
  const replies = (await Promise.allSettled(pending)).flatMap(({ value }) =>
    value ? [value] : [],
  );
  if (replies.length < 2) throw new Error('fewer than two sentinels reply');
  return replies;
}

/**
 * Resolves to the port of the master, or undefined if the sentinels disagree. All must agree,
 * because a client may query any of them.
 */
async function agreedMaster(sentinels) {
  const replies = await queryAlive(sentinels, 'GET-MASTER-ADDR-BY-NAME');
  const ports = new Set(replies.map(([, port]) => Number(port)));
  return ports.size === 1 ? [...ports][0] : undefined;
}

/** Like `agreedMaster`, but also resolves to undefined while a sentinel is in a failover. */
async function settledMaster(sentinels) {
  const masters = (await queryAlive(sentinels, 'MASTER')).map(fields);
  return masters.every(({ flags }) => flags === 'master') ? agreedMaster(sentinels) : undefined;
}

/**
 * Like `settledMaster`, but also resolves to undefined while a sentinel reports a live replica in
 * another role.
 */
async function stableMaster(sentinels) {
  const replicas = (await queryAlive(sentinels, 'REPLICAS')).flat().map(fields);
  const isStray = (each) => !/down/.test(each.flags) && each['role-reported'] !== 'slave';
  return replicas.some(isStray) ? undefined : settledMaster(sentinels);
}

export function startSentinel() {
  return withServers(async (group) => {
    const [master] = await startAll(group, [startRedis()]);
    const args = ['--replicaof', HOST, String(master.port)];
    const replicas = await startAll(
      group,
      times(2, () => startRedis({ args })),
    );
    await until('the replicas are connected', () => allAre(replicas, isLinked), group);
    const plan = (folder, port) => sentinelPlan(folder, port, master.port);
    const sentinels = await startAll(
      group,
      times(3, () => launch(plan)),
    );
    await Promise.all(sentinels.map((sentinel) => speedUp(sentinel, 50)));
    await until('the sentinels know all servers', () => allAre(sentinels, isComplete), sentinels);
    await Promise.all(sentinels.map((sentinel) => speedUp(sentinel)));
    const currentMaster = () =>
      until('the sentinels agree on a master', () => agreedMaster(sentinels), sentinels);
    const failover = async () => {
      const before = await until(
        'no sentinel is in a failover',
        () => stableMaster(sentinels),
        sentinels,
      );
      const isDone = async () => {
        const port = await settledMaster(sentinels);
        // Request the failover: it was not requested yet, was rejected, or was reverted by a
        // sentinel that was not notified in time.
        if (port === before) await sentinels[0].command('SENTINEL', 'FAILOVER', MASTER_NAME);
        return port > 0 && port !== before && (await command(port, ['ROLE']))[0] === 'master';
      };
      await until('another server is the master', isDone, group);
    };
    const stop = () => stopAll(group);
    return { sentinels, masterName: MASTER_NAME, master, replicas, currentMaster, failover, stop };
  });
}

/**
 * Starts a node of a cluster. Nodes list a replica only after a ping from its master. The default
 * interval of these pings is 10 s.
 */
function startNode(nodeTimeoutMs) {
  const settings = [
    ...['--cluster-enabled', 'yes', '--cluster-config-file', 'nodes.conf'],
    ...['--cluster-node-timeout', nodeTimeoutMs, '--cluster-replica-validity-factor', 0],
    ...['--cluster-allow-replica-migration', 'no', '--repl-ping-replica-period', 1],
    // As docs/redis.md recommends. Otherwise, if a master fails, all nodes would reject commands
    // until the failover.
    ...['--cluster-require-full-coverage', 'no'],
  ];
  return launch((folder, port) =>
    redisPlan(folder, port, { args: [...settings, '--cluster-port', randomPort()] }),
  );
}

/** Connects each node to all others, which is faster than waiting for gossip. */
async function connectNodes(nodes) {
  const busPorts = await Promise.all(
    nodes.map(async (node) => (await node.command('CONFIG', 'GET', 'cluster-port'))[1]),
  );
  for (const [index, node] of nodes.entries()) {
    await node.command('CLUSTER', 'SET-CONFIG-EPOCH', index + 1);
    for (let other = 0; other < index; other++) {
      await node.command('CLUSTER', 'MEET', HOST, nodes[other].port, busPorts[other]);
    }
  }
}

async function assignRoles(nodes) {
  const masters = nodes.length / 2;
  const firstSlot = (index) => Math.ceil((index * SLOTS) / masters);
  await Promise.all(
    nodes.map(async (node, index) => {
      if (index < masters) {
        const range = [firstSlot(index), firstSlot(index + 1) - 1];
        return node.command('CLUSTER', 'ADDSLOTSRANGE', ...range);
      }
      const id = await nodes[index - masters].command('CLUSTER', 'MYID');
      return until('a replica knows its master', () => node.command('CLUSTER', 'REPLICATE', id), [
        node,
      ]);
    }),
  );
}

/**
 * Resolves to true if the node reports a complete cluster: three shards, each with a master and a
 * replica.
 */
async function seesAll(node) {
  if (!(await node.command('CLUSTER', 'INFO')).includes('cluster_state:ok')) return false;
  const lines = (await node.command('CLUSTER', 'NODES')).trim().split('\n');
  if (lines.length !== 6 || !lines.every((line) => / connected( |$)/.test(line))) return false;
  const parts = await node.command('CLUSTER', 'SLOTS');
  return parts.length === 3 && parts.every((part) => part.length === 4);
}

/**
 * Resolves to the configuration epoch with which a node claims a slot, or -1 if the node does not
 * claim it.
 */
async function claim(node, slot) {
  const text = await node.send(['CLUSTER', 'NODES'], { timeoutMs: 1000 });
  const line = text.split('\n').find((each) => each.includes('myself,master'));
  const [, , , , , , epoch, , ...ranges] = line?.split(' ') ?? [];
  const holds = (range) => {
    const [first, last = first] = range.split('-').map(Number);
    return first <= slot && slot <= last;
  };
  return ranges.some(holds) ? Number(epoch) : -1;
}

/**
 * Resolves to the index of the node that owns a slot, or -1. If several nodes claim the slot, as
 * after a failover, the latest epoch decides.
 */
async function findOwner(nodes, slot) {
  const claims = await Promise.allSettled(nodes.map((node) => claim(node, slot)));
  const epochs = claims.map(({ value = -1 }) => value);
  const latest = Math.max(...epochs);
  return latest < 0 ? -1 : epochs.indexOf(latest);
}

/**
 * Moves a slot to the node with index `to`. Moves the keys in steps with pauses, so that clients
 * find a partly migrated slot.
 */
async function moveSlot(nodes, slot, to, { steps = 20, pauseMs = 10 } = {}) {
  const from = await findOwner(nodes, slot);
  if (from === to) return;
  if (from < 0) throw new Error(`no node owns slot ${slot}`);
  const [source, target] = [nodes[from], nodes[to]];
  const [sourceId, targetId] = await Promise.all(
    [source, target].map((node) => node.command('CLUSTER', 'MYID')),
  );
  const setSlot = (node, ...args) => node.command('CLUSTER', 'SETSLOT', slot, ...args);
  await setSlot(target, 'IMPORTING', sourceId);
  await setSlot(source, 'MIGRATING', targetId);
  await sleep(pauseMs);
  const total = await source.command('CLUSTER', 'COUNTKEYSINSLOT', slot);
  const atOnce = Math.max(1, Math.ceil(total / steps));
  // Keys may contain any bytes, and latin1 preserves each byte.
  const send = (...args) => source.send(args, { encoding: 'latin1' });
  for (;;) {
    const keys = await send('CLUSTER', 'GETKEYSINSLOT', slot, atOnce);
    if (keys.length === 0) break;
    await send('MIGRATE', HOST, target.port, '', 0, 5000, 'KEYS', ...keys);
    await sleep(pauseMs);
  }
  // Assign the slot to the new owner first: if no node owned the slot, all nodes would reject its
  // keys.
  await setSlot(target, 'NODE', targetId);
  await setSlot(source, 'NODE', targetId);
  const others = nodes.filter((node) => node !== source && node !== target);
  // Ignore errors: replicas reject this command and dead nodes are unreachable. They receive the
  // change by gossip.
  await Promise.allSettled(others.map((node) => setSlot(node, 'NODE', targetId)));
}

export function startCluster({ nodeTimeoutMs = 1000 } = {}) {
  return withServers(async (group) => {
    const nodes = await startAll(
      group,
      times(6, () => startNode(nodeTimeoutMs)),
    );
    await connectNodes(nodes);
    await assignRoles(nodes);
    await until('every node sees the cluster', () => allAre(nodes, seesAll), nodes);
    await until('the replicas are connected', () => allAre(nodes.slice(3), isLinked), nodes);
    return {
      nodes,
      urls: nodes.map(({ url }) => url),
      ownerOf: (slot) => findOwner(nodes, slot),
      moveSlot: (slot, to, options) => moveSlot(nodes, slot, to, options),
      stop: () => stopAll(group),
    };
  });
}
