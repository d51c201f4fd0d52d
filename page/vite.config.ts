// Builds into the server's package, so that the wheel ships the page; `npm run dev` talks to a running server.
import { svelte } from '@sveltejs/vite-plugin-svelte';
import type { Plugin } from 'vite';
import { defineConfig } from 'vitest/config';

const SERVER = 'http://127.0.0.1:8000';

/** The styles within the page itself: a request less, and nothing to wait for before it is drawn. */
const inlined: Plugin = {
  name: 'inlined',
  enforce: 'post',
  transformIndexHtml: {
    order: 'post',
    handler(html, { bundle = {} }) {
      for (const part of Object.values(bundle)) {
        if (part.type !== 'asset' || !html.includes(part.fileName) || !part.fileName.endsWith('.css')) continue;
        const styles = String(part.source).replaceAll('url(./', 'url(./assets/');
        html = html.replace(new RegExp(`<link [^>]*${part.fileName}[^>]*>`), () => `<style>${styles}</style>`);
      }
      return html;
    },
  },
};

export default defineConfig({
  base: './',
  plugins: [svelte(), inlined],
  build: {
    outDir: '../src/dpxplain/server/static',
    emptyOutDir: true,
    target: 'es2022',
    // Inlined assets would be data: addresses, which the Content-Security-Policy refuses.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // Vega is one lazy part of its own size; a warning about it would say nothing new.
    chunkSizeWarningLimit: 1200,
  },
  server: { proxy: { '/api': SERVER } },
  test: { include: ['tests/**/*.test.ts'], setupFiles: ['tests/setup.ts'] },
});
