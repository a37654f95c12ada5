/** The files in deploy/ and docs/operations.md agree with the service. */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { type RedisServer, startRedis } from '../../../tools/servers/redis.mjs';
import { loadConfig } from '../src/config/load.ts';
import { readConfig } from '../src/config/read.ts';
import { flagOf, SETTING_NAMES, SETTINGS, variableOf } from '../src/settings.ts';
import { openStore } from '../src/stores/index.ts';
import { policy, type Running, settingsOf, startRunning } from './running.ts';

// biome-ignore lint/suspicious/noExplicitAny: tests read any field of the files.
type Data = any;

const ROOT = new URL('../../../', import.meta.url).pathname;
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');
const yamlOf = (path: string): Data => parse(read(path));

const flags = new Set(SETTING_NAMES.map(flagOf));
const variables = new Set(SETTING_NAMES.map(variableOf));
const flagsIn = (text: string): string[] => text.match(/(?<=\s|^)--[a-z][a-z0-9-]+/g) ?? [];
const drainMs = SETTINGS.drainMs.fallback;
const inMs = (text: string): number => Number.parseInt(text, 10) * 1000;

describe('the Dockerfile', () => {
  const text = read('deploy/Dockerfile').replaceAll('\\\n', ' ');
  const lines = (instruction: string): string[] =>
    [...text.matchAll(new RegExp(`^${instruction} +(.*)$`, 'gm'))].map(([, rest]) => rest.trim());
  const copied = lines('COPY')
    .filter((line) => !line.startsWith('--from'))
    .flatMap((line) => line.split(/ +/).slice(0, -1));
  const environment = Object.fromEntries(
    lines('ENV').flatMap((line) => line.split(/ +/).map((pair) => pair.split('='))),
  );

  test('the Dockerfile copies existing files, exactly those that its ignore file includes', () => {
    expect(copied.length).toBeGreaterThan(5);
    const included = new Set(
      [...read('deploy/Dockerfile.dockerignore').matchAll(/^!(.*)$/gm)].map(([, path]) => path),
    );
    for (const path of copied) {
      expect(existsSync(join(ROOT, path)), path).toBe(true);
      expect(included.has(path), path).toBe(true);
    }
    expect([...included].sort()).toEqual([...copied].sort());
  });

  test('the Dockerfile copies every workspace of package.json', () => {
    const { workspaces } = JSON.parse(read('package.json'));
    for (const workspace of workspaces) {
      const [folder] = workspace.split('/');
      expect(copied.some((path) => path.split('/')[0] === folder)).toBe(true);
    }
  });

  test('the Dockerfile starts the binary of the CLI package as an unprivileged user', () => {
    const [entry] = lines('ENTRYPOINT');
    const [program, path] = JSON.parse(entry) as string[];
    const inside = path.replace(`${lines('WORKDIR').at(-1)}/`, '');
    expect([program, existsSync(join(ROOT, inside))]).toEqual(['node', true]);
    const { bin } = JSON.parse(read('packages/cli/package.json'));
    expect(inside).toBe(join('packages/cli', bin.sluice));
    expect(lines('CMD')).toEqual(['["serve"]']);
    expect(lines('USER').at(-1)).toMatch(/^[1-9]\d*:[1-9]\d*$/);
  });

  test('the Dockerfile sets existing SLUICE_ variables and exposes matching ports', () => {
    const own = Object.keys(environment).filter((name) => name.startsWith('SLUICE_'));
    expect(own.length).toBeGreaterThan(1);
    for (const name of own) expect(variables.has(name), name).toBe(true);
    const port = environment.SLUICE_LISTEN.split(':').at(-1);
    expect(lines('EXPOSE')).toEqual([`${port} 8081`]);
    expect(lines('HEALTHCHECK')[0]).toContain(`http://127.0.0.1:${port}/healthz`);
    const [, folder] = lines('COPY').at(-1)!.split(/ +/);
    expect(folder).toBe(environment.SLUICE_CONFIG);
  });

  test('the image health check exits with 0 if the service runs, otherwise with 1', async () => {
    const command = JSON.parse(/CMD (\[.*\])/.exec(lines('HEALTHCHECK')[0])![1]) as string[];
    const exitCode = async (port: number): Promise<number> => {
      const [program, ...args] = command.map((arg) => arg.replace('8080', String(port)));
      const [code] = await once(spawn(program, args), 'exit');
      return code;
    };
    const running = await startRunning();
    const { port } = running.service.http;
    expect(await exitCode(port)).toBe(0);
    await running.close();
    expect(await exitCode(port)).toBe(1);
  });
});

describe('the example configuration', () => {
  test('deploy/config is valid and equal to the configuration in the ConfigMap', async () => {
    const config = await loadConfig([join(ROOT, 'deploy/config')]);
    expect(config.policies.map(({ name }) => name)).toEqual(['perSecond', 'perMinute']);
    const { data } = yamlOf('deploy/kubernetes/configmap.yaml');
    const other = readConfig([{ path: 'sluice.yaml', text: data['sluice.yaml'] }]);
    expect({ ...other, files: [] }).toEqual({ ...config, files: [] });
  });
});

describe('compose.yaml', () => {
  const { services, secrets } = yamlOf('deploy/compose.yaml');

  test('compose.yaml mounts existing files and builds with the Dockerfile', () => {
    const mounts = Object.values<Data>(services).flatMap(({ volumes = [] }) => volumes as string[]);
    expect(mounts.length).toBeGreaterThan(3);
    for (const mount of mounts) {
      expect(existsSync(join(ROOT, 'deploy', mount.split(':')[0])), mount).toBe(true);
    }
    const { context, dockerfile } = services.sluice.build;
    expect(existsSync(join(ROOT, 'deploy', context, dockerfile))).toBe(true);
  });

  test('compose.yaml sets existing variables and publishes ports on loopback only', () => {
    const { environment, ports } = services.sluice;
    for (const name of Object.keys(environment)) expect(variables.has(name), name).toBe(true);
    expect(ports).toEqual(['127.0.0.1:8080:8080', '127.0.0.1:8081:8081']);
    for (const { ports = [] } of Object.values<Data>(services)) {
      for (const port of ports) expect(port).toMatch(/^127\.0\.0\.1:/);
    }
    const [name] = Object.keys(secrets);
    expect(environment.SLUICE_ADMIN_TOKEN_FILE).toBe(`/run/secrets/${name}`);
    expect(environment.SLUICE_STORE).toBe('redis://redis:6379');
  });

  test('compose.yaml disables eviction in Redis and allows for the drain time', () => {
    expect(services.redis.command).toContain('--maxmemory-policy noeviction');
    expect(inMs(services.sluice.stop_grace_period)).toBeGreaterThan(drainMs);
  });

  test('Prometheus scrapes with the admin token, and Grafana reads Prometheus', () => {
    const [job] = yamlOf('deploy/prometheus/prometheus.yaml').scrape_configs;
    expect(job.authorization.credentials_file).toBe('/run/secrets/admin-token');
    expect(job.static_configs[0].targets).toEqual(['sluice:8080']);
    expect(services.prometheus.secrets).toEqual(Object.keys(secrets));
    const [source] = yamlOf('deploy/grafana/provisioning/datasources/prometheus.yaml').datasources;
    expect(source.url).toBe('http://prometheus:9090');
  });
});

describe('sluice.service', () => {
  const text = read('deploy/sluice.service').replaceAll('\\\n', ' ');
  const setting = (name: string): string => new RegExp(`^${name}=(.*)$`, 'm').exec(text)![1];

  test('sluice.service has existing flags, reloads by SIGHUP and allows draining', () => {
    const given = flagsIn(setting('ExecStart'));
    expect(given.length).toBeGreaterThan(3);
    for (const flag of given) expect(flags.has(flag), flag).toBe(true);
    expect(setting('ExecReload')).toBe('/bin/kill -HUP $MAINPID');
    expect(inMs(setting('TimeoutStopSec'))).toBeGreaterThan(drainMs);
  });

  test.runIf(existsSync('/usr/bin/systemd-analyze'))(
    'systemd accepts sluice.service and rates the unit as secure',
    () => {
      const folder = mkdtempSync(join(tmpdir(), 'sluice-systemd-'));
      const path = join(folder, 'sluice.service');
      // systemd checks that the program exists.
      writeFileSync(path, text.replace('/usr/bin/sluice', process.execPath));
      const verify = spawnSync('systemd-analyze', ['verify', '--man=no', path]);
      const output = `${verify.stdout}${verify.stderr}`
        .split('\n')
        .filter((line) => line.includes(path));
      const security = ['security', '--offline=true', '--threshold=20', path];
      const { status } = spawnSync('systemd-analyze', security);
      rmSync(folder, { recursive: true });
      expect([output, verify.status, status]).toEqual([[], 0, 0]);
    },
  );
});

describe('the Kubernetes manifests', () => {
  const files = readdirSync(join(ROOT, 'deploy/kubernetes'));
  const objects: Data[] = files.flatMap((file) =>
    parseAllDocuments(read(`deploy/kubernetes/${file}`)).map((each) => {
      expect(each.errors).toEqual([]);
      return each.toJS();
    }),
  );
  const manifest = (kind: string): Data => objects.find((each) => each.kind === kind);
  const { spec } = manifest('Deployment');
  const pod = spec.template.spec;
  const [container] = pod.containers;

  test('the kustomization lists every manifest', () => {
    const { resources } = manifest('Kustomization');
    expect([...resources, 'kustomization.yaml'].sort()).toEqual([...files].sort());
  });

  test('all Kubernetes manifests refer to the same pods, Deployment and ConfigMap', () => {
    const { labels } = spec.template.metadata;
    expect(spec.selector.matchLabels).toEqual(labels);
    expect(manifest('Service').spec.selector).toEqual(labels);
    expect(manifest('PodDisruptionBudget').spec.selector.matchLabels).toEqual(labels);
    const { name } = manifest('Deployment').metadata;
    expect(manifest('HorizontalPodAutoscaler').spec.scaleTargetRef.name).toBe(name);
    expect(manifest('ConfigMap').metadata.name).toBe(pod.volumes[0].configMap.name);
  });

  test('the Kubernetes container has existing flags and variables and matching ports', () => {
    const args: string[] = container.args;
    for (const flag of flagsIn(args.join(' '))) expect(flags.has(flag), flag).toBe(true);
    for (const { name } of container.env) expect(variables.has(name), name).toBe(true);
    const portAfter = (flag: string) => Number(args[args.indexOf(flag) + 1].split(':').at(-1));
    const ports = { http: portAfter('--listen'), grpc: portAfter('--grpc') };
    for (const { name, containerPort } of container.ports) {
      expect(containerPort).toBe(ports[name as 'http' | 'grpc']);
    }
    for (const { name, port, targetPort } of manifest('Service').spec.ports) {
      expect([targetPort, port]).toEqual([name, ports[name as 'http' | 'grpc']]);
    }
  });

  test('Kubernetes mounts the configuration and the token that the process reads', () => {
    const [config, token] = container.volumeMounts;
    expect(container.args[container.args.indexOf('--config') + 1]).toBe(config.mountPath);
    const file = container.env.find((each: Data) => each.name === 'SLUICE_ADMIN_TOKEN_FILE').value;
    const [{ path }] = pod.volumes[1].secret.items;
    expect(file).toBe(`${token.mountPath}/${path}`);
  });

  test('Kubernetes probes use existing paths, and the grace period allows draining', async () => {
    const running = await startRunning();
    for (const probe of [container.livenessProbe, container.readinessProbe]) {
      const { path, port } = probe.httpGet;
      expect((await running.get(path)).status).toBe(200);
      expect(port).toBe('http');
    }
    await running.close();
    const pauseMs = inMs(container.lifecycle.preStop.exec.command[1]);
    const ownDrainMs = inMs(container.args[container.args.indexOf('--drain') + 1]);
    expect(pod.terminationGracePeriodSeconds * 1000).toBeGreaterThan(pauseMs + ownDrainMs);
  });

  test.runIf(existsSync('/usr/bin/kubectl'))('kubectl builds all manifests', () => {
    const built = execFileSync('kubectl', ['kustomize', join(ROOT, 'deploy/kubernetes')]);
    const kinds = parseAllDocuments(String(built)).map((each) => each.toJS().kind);
    expect(kinds.length).toBe(files.length - 1);
  });
});

describe('metrics in deploy/ and docs/operations.md', () => {
  let redis: RedisServer;
  const runnings: Running[] = [];
  /** All metrics by name, from services with the memory store and with Redis. */
  const known = new Map<string, { type: string; help: string; labels: Set<string> }>();

  beforeAll(async () => {
    redis = await startRedis();
    const blocking = policy('logins', 1, '1m', { block: '15m' });
    const config = { policies: [policy('few', 1, '1m'), blocking] };
    const listeners = { onWarning: () => {}, onConnection: () => {} };
    const store = await openStore(settingsOf({ store: redis.url }), listeners);
    runnings.push(await startRunning({ config }), await startRunning({ config, store }));
    await redis.stop();
    for (const running of runnings) {
      // Redis is stopped, so that the metrics of failures have values too.
      await running.post('/v1/check', { policy: 'few', key: 'a' });
      const { text } = await running.get('/metrics');
      for (const [, name, help] of text.matchAll(/^# HELP (\S+) (.*)$/gm)) {
        const [, type] = new RegExp(`^# TYPE ${name} (.*)$`, 'm').exec(text)!;
        const { labels } = known.get(name) ?? { labels: new Set<string>() };
        const series = new RegExp(`^${name}(?:_bucket)?\\{(.*)\\}`, 'gm');
        for (const [, inside] of text.matchAll(series)) {
          for (const [, label] of inside.matchAll(/(\w+)="/g)) labels.add(label);
        }
        known.set(name, { type, help, labels });
      }
    }
  });
  afterAll(async () => {
    for (const running of runnings) await running.close();
  });

  const dashboard = JSON.parse(read('deploy/grafana/dashboard.json'));
  const panels: Data[] = dashboard.panels;
  const rules: Data[] = yamlOf('deploy/prometheus/alerts.yaml').groups.flatMap(
    (group: Data) => group.rules,
  );
  const shown = panels.flatMap(({ targets = [] }) =>
    targets.map(({ expr }: Data) => expr as string),
  );
  const alerted = rules.map(({ expr }) => expr as string);
  const PROMETHEUS_LABELS = ['instance', 'job'];

  const baseName = (name: string): string =>
    known.has(name) ? name : name.replace(/_(?:bucket|sum|count)$/, '');
  const namesIn = (expression: string): string[] =>
    (expression.match(/\b(?:sluice|process|nodejs)_\w+/g) ?? []).map(baseName);

  test('the Grafana dashboard and the alerts use existing metrics and labels', () => {
    for (const expression of [...shown, ...alerted]) {
      const names = namesIn(expression);
      const labels = new Set(names.flatMap((name) => [...(known.get(name)?.labels ?? [])]));
      for (const name of names) expect(known.has(name), name).toBe(true);
      const matched = [...expression.matchAll(/(\w+)=~?"/g)].map(([, label]) => label);
      const grouped = [...expression.matchAll(/by \(([^)]*)\)/g)].flatMap(([, list]) =>
        list.split(/, */),
      );
      for (const label of [...matched, ...grouped]) {
        expect(
          labels.has(label) || PROMETHEUS_LABELS.includes(label),
          `${label}: ${expression}`,
        ).toBe(true);
      }
      for (const [open, close] of ['()', '{}', '[]']) {
        expect(expression.split(open).length).toBe(expression.split(close).length);
      }
    }
  });

  test('the Grafana dashboard shows every sluice_ metric', () => {
    const own = [...known.keys()].filter((name) => name.startsWith('sluice_'));
    const seen = new Set(shown.flatMap(namesIn));
    expect(own.filter((name) => !seen.has(name))).toEqual([]);
    expect(own.length).toBeGreaterThanOrEqual(14);
  });

  test('the panels of the Grafana dashboard have unique ids and do not overlap', () => {
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    const taken = new Set<string>();
    for (const { gridPos: at } of panels) {
      for (let x = at.x; x < at.x + at.w; x++) {
        for (let y = at.y; y < at.y + at.h; y++) {
          expect(taken.has(`${x},${y}`)).toBe(false);
          taken.add(`${x},${y}`);
        }
      }
    }
  });

  test('the table in docs/operations.md lists every metric with type and labels', () => {
    const rows = [...read('docs/operations.md').matchAll(/^\| `(sluice_\w+)` \| (.*) \|$/gm)];
    const documented = rows.map(([, name, rest]) => [name, ...rest.split(' | ')]);
    const real = [...known]
      .filter(([name]) => name.startsWith('sluice_'))
      .map(([name, { type, labels, help }]) => {
        const names = [...labels].filter((label) => label !== 'le').sort();
        return [name, type, names.map((label) => `\`${label}\``).join(' '), help];
      });
    expect(documented.sort()).toEqual(real.sort());
  });
});

describe('docs/operations.md', () => {
  const text = read('docs/operations.md');
  /** Flags of other programs. */
  const FOREIGN_FLAGS = new Set(['--profile']);

  test('the commands in docs/operations.md succeed', async () => {
    const token = '0123456789abcdef';
    const running = await startRunning({
      config: { policies: [policy('perMinute', 1, '1m')] },
      settings: { adminToken: token },
    });
    const env = { ...process.env, SLUICE_ADMIN_TOKEN: token };
    const commands = [...text.matchAll(/```sh\n(.*?)```/gs)].map(([, command]) => command.trim());
    const outputs: Data[] = [];
    for (const command of commands) {
      const own = command.replace('http://127.0.0.1:8080', running.url);
      const child = spawn('sh', ['-c', own], { env });
      const chunks: Buffer[] = [];
      child.stdout.on('data', (chunk) => chunks.push(chunk));
      await once(child, 'close');
      outputs.push(JSON.parse(Buffer.concat(chunks).toString()));
    }
    await running.close();
    expect(outputs).toMatchObject([{ ready: true }, { policy: 'perMinute', keys: [] }]);
  });

  test('docs/operations.md names existing flags and variables', () => {
    const own = flagsIn(text.replaceAll('`', ' ')).filter((flag) => !FOREIGN_FLAGS.has(flag));
    expect(own.length).toBeGreaterThan(5);
    for (const flag of own) expect(flags.has(flag), flag).toBe(true);
    for (const [name] of text.matchAll(/\bSLUICE_[A-Z_]+/g))
      expect(variables.has(name), name).toBe(true);
  });

  test('docs/operations.md names existing paths and links to existing files', async () => {
    const running = await startRunning();
    const paths = new Set(running.service.routes.map(({ path }) => path));
    await running.close();
    for (const [, path] of text.matchAll(/`(?:GET |POST )?(\/(?:v1\/)?[a-z]+)[^`/]*`/g)) {
      expect(paths.has(path), path).toBe(true);
    }
    for (const [, path] of text.matchAll(/\]\((\.\.\/[^)#]+)/g)) {
      expect(existsSync(join(ROOT, 'docs', path)), path).toBe(true);
    }
  });
});
