// Makes a module of each npm library, and gives the programs that use them.
//
// A program in this directory imports libraries by their names. It becomes one module, without imports, which node and
// execbox run as the same text; with the first line `// script`, it becomes a script.
import { readFileSync, readdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));

export async function cases() {
  const files = readdirSync(here).filter((file) => file.endsWith('.mjs') && file !== 'bundle.mjs').sort();
  return Promise.all(
    files.map(async (file) => {
      const head = readFileSync(join(here, file), 'utf8');
      // Scripts have globals that modules have not.
      const isScript = head.startsWith('// script');
      const { outputFiles } = await build({
        entryPoints: [join(here, file)],
        bundle: true,
        write: false,
        format: 'esm',
        platform: 'browser',
        mainFields: ['browser', 'module', 'main'],
        external: ['stream'],
        conditions: ['import', 'module', 'default'],
        target: 'es2022',
        charset: 'utf8',
        logLevel: 'error',
        define: { 'process.env.NODE_ENV': '"production"' },
        minify: head.startsWith('// minified'),
      });
      const contract = isScript ? { script: true } : { module: true };
      const source = outputFiles[0].text;
      return { name: basename(file, '.mjs'), language: 'javascript', source, ...contract, import: true, memory: '256MiB' };
    }),
  );
}
