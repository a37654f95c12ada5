/** Creates self-signed certificates for 127.0.0.1. */
import { execFileSync } from 'node:child_process';
import { readFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';

export interface TlsFiles {
  readonly tlsCert: string;
  readonly tlsKey: string;
}

/** Writes a new key and certificate into a folder, replacing existing ones. */
export function writeTlsFiles(folder: string, name = 'localhost'): TlsFiles {
  const files = { tlsCert: join(folder, 'cert.pem'), tlsKey: join(folder, 'key.pem') };
  const newKey = '-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2';
  const out = `-keyout ${files.tlsKey}.next -out ${files.tlsCert}.next`;
  const args = `req -x509 ${newKey} -subj /CN=${name} ${out}`;
  const names = ['-addext', 'subjectAltName=IP:127.0.0.1'];
  execFileSync('openssl', [...args.split(' '), ...names], { stdio: 'pipe' });
  renameSync(`${files.tlsKey}.next`, files.tlsKey);
  renameSync(`${files.tlsCert}.next`, files.tlsCert);
  return files;
}

export const certOf = ({ tlsCert }: TlsFiles): Buffer => readFileSync(tlsCert);
