/**
 * Real reverse proxies for tests: nginx, Caddy and HAProxy, configured as their documentation
 * recommends for forwarding client addresses, or with a file of examples/proxies.
 *
 * The proxies listen on 127.0.0.1 only, use temporary folders and end with this process. Requires
 * `tools/ensure-services nginx caddy haproxy`.
 */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import * as fs from 'node:fs';
import { get } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { HOST, randomPort, until } from './redis-process.mjs';

const PORT_ATTEMPTS = 5;
const TAKEN = /address already in use|cannot bind socket/i;

/**
 * Returns a path that only the proxy with this id serves, to detect another process on its port.
 */
const probePath = (probeId) => `/probe-${probeId}`;

/** Configures nginx as a single process in the foreground, so that killing its pid ends it. */
const nginx = ({ folder, port, upstreamPort, forwarded, probeId }) => ({
  args: ['-p', folder, '-e', 'stderr', '-c', join(folder, 'config')],
  config: `
daemon off;
master_process off;
pid ${folder}/nginx.pid;
error_log stderr;
events {}
http {
  access_log off;
  client_body_temp_path ${folder}/body;
  proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi;
  scgi_temp_path ${folder}/scgi;
  large_client_header_buffers 4 64k;
  map $remote_addr $forwarded_element {
    ~^[0-9.]+$ "for=$remote_addr";
    ~^[0-9A-Fa-f:.]+$ "for=\\"[$remote_addr]\\"";
    default "for=unknown";
  }
  map $http_forwarded $forwarded {
    "" "$forwarded_element";
    default "$http_forwarded, $forwarded_element";
  }
  server {
    listen ${HOST}:${port};
    location = ${probePath(probeId)} { return 200; }
    location / {
      proxy_pass http://${HOST}:${upstreamPort};
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      ${forwarded ? 'proxy_set_header Forwarded $forwarded;' : ''}
    }
  }
}
`,
});

/**
 * Configures Caddy, which appends to X-Forwarded-For only for trusted proxies and otherwise
 * discards the received header.
 */
const caddy = ({ folder, port, upstreamPort, trusted, forwarded, probeId }) => ({
  args: ['run', '--adapter', 'caddyfile', '--config', join(folder, 'config')],
  config: `
{
  admin off
  auto_https off
}
http://:${port} {
  bind ${HOST}
  respond ${probePath(probeId)} 200
  reverse_proxy ${HOST}:${upstreamPort} {
    ${trusted.length > 0 ? `trusted_proxies ${trusted.join(' ')}` : ''}
    ${forwarded ? 'header_up +Forwarded "for={http.request.remote.host}"' : ''}
  }
}
`,
});

/** Configures HAProxy, which adds its own X-Forwarded-For line after the received lines. */
const haproxy = ({ folder, port, upstreamPort, forwarded, probeId }) => ({
  args: ['-db', '-f', join(folder, 'config')],
  config: `
global
  maxconn 1000
defaults
  mode http
  timeout connect 10s
  timeout client 30s
  timeout server 30s
frontend front
  bind ${HOST}:${port}
  http-request return status 200 if { path ${probePath(probeId)} }
  option forwardfor
  ${forwarded ? 'http-request add-header Forwarded "for=%[src]"' : ''}
  default_backend back
backend back
  server upstream ${HOST}:${upstreamPort}
`,
});

const plans = { nginx, caddy, haproxy };

/** Ports of Sluice, the application and the proxy in the example files. */
const SHIPPED_PORTS = { service: 8080, upstream: 3000, own: 8000 };

/**
 * Replaces the addresses in the example file, because nginx does not support environment variables.
 */
const shippedNginx = ({ folder, file, port, servicePort, upstreamPort }) => {
  const ports = [
    [SHIPPED_PORTS.service, servicePort],
    [SHIPPED_PORTS.upstream, upstreamPort],
    [SHIPPED_PORTS.own, port],
  ];
  const text = ports.reduce(
    (changed, [from, to]) => changed.replaceAll(`${HOST}:${from};`, `${HOST}:${to};`),
    fs.readFileSync(file, 'utf8'),
  );
  fs.writeFileSync(join(folder, 'sluice.conf'), text);
  const { args, config } = nginx({ folder, port, upstreamPort, forwarded: false, probeId: '' });
  // Include the example file in a configuration like that of a default installation.
  const around = config.replace(/ {2}server \{[\s\S]*$/, `  include ${folder}/sluice.conf;\n}\n`);
  return { args, config: around };
};

const addresses = ({ port, servicePort, upstreamPort }) => ({
  LISTEN: `${HOST}:${port}`,
  SLUICE: `${HOST}:${servicePort}`,
  APPLICATION: `${HOST}:${upstreamPort}`,
});

const shippedCaddy = (options) => ({
  args: ['run', '--adapter', 'caddyfile', '--config', options.file],
  env: { ...addresses(options), PORT: String(options.port), ADMIN: 'off' },
});

const shippedHaproxy = (options) => ({
  args: ['-db', '-f', options.file],
  env: {
    ...addresses(options),
    SLUICE_LUA: join(dirname(options.file), 'sluice.lua'),
    SLUICE_SOCKET: `unix@${options.folder}/socket`,
  },
});

const shippedPlans = { nginx: shippedNginx, caddy: shippedCaddy, haproxy: shippedHaproxy };

/**
 * Shell script that kills the servers and deletes the folder after this process has ended, even by
 * SIGKILL: its input then ends, which `cat` waits for.
 */
const CLEAN_UP = `cat
for file in "$1"/*/pid; do kill -KILL "$(cat "$file")"; done
rm -rf "$1"`;

let home;

/** Creates the folder of all proxies and starts `CLEAN_UP`. */
function makeHome() {
  const folder = fs.mkdtempSync(join(tmpdir(), 'sluice-proxies-'));
  // Start the shell in a separate process group, because Ctrl-C sends SIGINT to the whole group of
  // this process.
  const stdio = ['pipe', 'ignore', 'ignore'];
  const guard = spawn('sh', ['-c', CLEAN_UP, 'sh', folder], { detached: true, stdio });
  guard.unref();
  guard.stdin.unref();
  return folder;
}

/** Sends a request over a new connection. Resolves to the status of the response. */
function statusOf(port, path) {
  return new Promise((resolve, reject) => {
    const request = get({ host: HOST, port, path, agent: false, timeout: 1000 }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    request.on('timeout', () => request.destroy(new Error('no response')));
    request.on('error', reject);
  });
}

/**
 * Resolves to true if the port accepts a connection. Used for example files: they have no probe
 * path, and a request for a page would count against a limit.
 */
function isListening(port) {
  return new Promise((resolve, reject) => {
    const socket = connect(port, HOST, () => {
      socket.destroy();
      resolve(true);
    });
    socket.on('error', reject);
  });
}

/**
 * Starts a program. Adds /usr/sbin to the PATH: Debian installs servers there, but ordinary users
 * do not have it in their PATH.
 */
function spawnIn(folder, program, args, variables = {}) {
  // Write the output to a file instead of a pipe, so that a server never waits for this process to
  // read.
  const output = fs.openSync(join(folder, 'output'), 'a');
  const { PATH } = process.env;
  // Caddy stores its last configuration in one of these folders.
  const homes = { HOME: folder, XDG_CONFIG_HOME: folder, XDG_DATA_HOME: folder };
  const env = { ...process.env, ...homes, ...variables, PATH: `${PATH}:/usr/sbin:/sbin` };
  const child = spawn(program, args, { cwd: folder, env, stdio: ['ignore', output, output] });
  fs.closeSync(output);
  if (child.pid) fs.writeFileSync(join(folder, 'pid'), String(child.pid));
  return child;
}

async function launch(kind, options) {
  home ??= makeHome();
  const folder = fs.mkdtempSync(join(home, `${kind}-`));
  const port = randomPort();
  const probeId = randomUUID();
  const plan = (options.file === undefined ? plans : shippedPlans)[kind];
  const { args, config, env } = plan({ ...options, folder, port, probeId });
  if (config !== undefined) fs.writeFileSync(join(folder, 'config'), config);
  const child = spawnIn(folder, kind, args, env);
  let end;
  const ended = new Promise((resolve) => {
    child.once('error', (error) => resolve(`could not be started: ${error.message}`));
    child.once('exit', (code, signal) => resolve(`ended with ${signal ?? `code ${code}`}`));
  }).then((how) => {
    end = how;
    fs.rmSync(join(folder, 'pid'), { force: true });
  });
  const proxy = {
    ...{ kind, host: HOST, port, pid: child.pid },
    get output() {
      const path = join(folder, 'output');
      return fs.existsSync(path) ? fs.readFileSync(path, 'utf8').slice(-5000).trim() : '';
    },
    async stop() {
      child.kill('SIGKILL');
      await ended;
      fs.rmSync(folder, { recursive: true, force: true });
    },
  };
  const isReady = async () => {
    if (end) {
      const hint = end.includes('ENOENT') ? `; tools/ensure-services ${kind} installs it` : '';
      const message = `${kind} on port ${port} ${end}${hint}\n${proxy.output}`;
      throw Object.assign(new Error(message), { isFinal: true });
    }
    if (options.file !== undefined) return isListening(port);
    return (await statusOf(port, probePath(probeId))) === 200;
  };
  try {
    await until(`${kind} responds`, isReady, [proxy]);
    return proxy;
  } catch (error) {
    await proxy.stop();
    throw error;
  }
}

export function startProxy(kind, { upstreamPort, trusted = [], forwarded = false }) {
  return start(kind, { upstreamPort, trusted, forwarded });
}

export function startShippedProxy(kind, { file, servicePort, upstreamPort }) {
  return start(kind, { file, servicePort, upstreamPort });
}

async function start(kind, options) {
  if (!Object.hasOwn(plans, kind)) throw new Error(`unknown proxy ${kind}`);
  for (let attempt = 1; ; attempt++) {
    try {
      return await launch(kind, options);
    } catch (error) {
      if (!TAKEN.test(error.message) || attempt === PORT_ATTEMPTS) throw error;
      await sleep(10);
    }
  }
}
